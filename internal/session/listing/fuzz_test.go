package listing

import (
	"encoding/base64"
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// FuzzParse fails when a query of a list, with a cursor that a client has made, makes the node panic.
func FuzzParse(f *testing.F) {
	f.Add("created", "a=b", "id,state", []byte(`{"o":"created","d":true,"t":1,"i":"x"}`), true)
	f.Add("name", "a", "id,id", []byte(`{"o":"name","n":"\u0000"}`), false)
	f.Add("", "=", "nothing", []byte(`null`), true)
	f.Fuzz(func(t *testing.T, order, label, fields string, cursor []byte, down bool) {
		text := base64.RawURLEncoding.EncodeToString(cursor)
		q, err := Parse(protocol.SessionQuery{
			Order: order, Labels: []string{label}, Fields: fields, Cursor: text, Descending: down,
		})
		if err == nil && (q.limit < 1 || q.limit > protocol.MaxList) {
			t.Errorf("a list of %d", q.limit)
		}
	})
}
