package strictjson

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
)

// FuzzUnmarshal fails when a request that encoding/json refuses is accepted, or when the field in an
// error is not short text.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{
		`{"path":"a","limits":{"size":1},"items":[{"size":2}],"env":{"any":"x"}}`,
		`{"items":[{"size":1},{"a.b":1}]}`, `{"items":{"0":[]}}`, `{"network":{"alow":["a"]}}`,
		`{"a":1,"a":{"b":2}} {}`, `[[[[`, "{\"\xff\":1}", `{"\ud800":1}`, `null null`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var v, same request
		err := Unmarshal("x", text, &v)
		if err == nil {
			if err := json.Unmarshal(text, &same); err != nil {
				t.Errorf("%q is accepted: %v", text, err)
			}
			return
		}
		e, ok := err.(*fault.Error)
		if !ok || len(e.Field) > 2*maxField || !utf8.ValidString(e.Field) {
			t.Errorf("%q: %v, field %q", text, err, e.Field)
		}
	})
}
