package relay

import (
	"encoding/json"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"id":1,"op":"hello"}`,
		`{"op":"x","ch":4294967295,"params":[1,{"a":"}"}]}`,
		` { "params" : "\"}" , "id" : 18446744073709551615 } `, `{}`, `{"id":1e3}`, `{"\u0069d":1}`,
		`{"a":-0.5e+7,"op":""}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEnvelope(b)
		if err != nil {
			if fault.KindOf(err) != fault.Malformed && fault.KindOf(err) != fault.InvalidArgument {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		// A message that passes has the same meaning for the node's parser.
		var r protocol.Request
		if err := json.Unmarshal(b, &r); err != nil {
			t.Fatalf("%q passes here, not there: %v", b, err)
		}
		if r.ID != e.id || r.Op != e.op || r.Ch != e.ch {
			t.Fatalf("%q: %+v here, %+v there", b, e, r)
		}
	})
}

// TestUnknownNames: a request with a name that is not in the protocol is refused with this name.
func TestUnknownNames(t *testing.T) {
	for text, field := range map[string]string{
		`{"id":1,"op":"a","param":{}}`:  "param",
		`{"id":1,"session":"s","op":1}`: "session",
	} {
		e, err := parseEnvelope([]byte(text))
		p := fault.PublicOf(err)
		if e.id != 1 || p.Kind != fault.InvalidArgument || p.Field != field {
			t.Errorf("%s: id %d, %v", text, e.id, err)
		}
	}
}

func BenchmarkEnvelope(b *testing.B) {
	msg := []byte(
		`{"id":12,"op":"execute","ch":1,"params":{"key":"0123456789abcdef","code":"print(\"hello\")\nfor i in range(10):\n    print(i)"}}`)
	b.SetBytes(int64(len(msg)))
	for b.Loop() {
		if e, err := parseEnvelope(msg); err != nil || e.op != protocol.OpExecute {
			b.Fatal(err)
		}
	}
}
