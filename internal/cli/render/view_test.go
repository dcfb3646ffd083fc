package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/frame"
)

// TestEvents shows a note for an event that changes a kernel, and none for the size of a terminal.
func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ event, want string }{
		{`{"event":"resize","cols":100,"rows":40}`, ""},
		{`{"event":"restart"}`, "variables are lost"},
		{`{"event":"restart","message":"it had no memory"}`, "it had no memory"},
	} {
		var out, errs bytes.Buffer
		v := &View{Out: &out, Err: &errs}
		_, err := v.Record(frame.Record{Kind: frame.KindEvent, Payload: []byte(c.event)})
		if got := errs.String(); err != nil || out.Len() > 0 || (got == "") != (c.want == "") ||
			!strings.Contains(got, c.want) {
			t.Errorf("%s: %q and %q, %v", c.event, out.String(), got, err)
		}
	}
}
