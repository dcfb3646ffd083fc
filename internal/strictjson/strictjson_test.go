package strictjson

import (
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

type item struct {
	Size int `json:"size"`
}

// Ref is embedded, as in the parameters of file operations.
type Ref struct {
	Path string `json:"path"`
}

type request struct {
	Ref
	Limits  *item             `json:"limits"`
	Items   []item            `json:"items"`
	Env     map[string]string `json:"env"`
	Network *protocol.Network `json:"network"`
}

// TestErrorsNameTheField decodes values that do not fit, and compares the field in the error.
func TestErrorsNameTheField(t *testing.T) {
	for text, want := range map[string]string{
		`{"path":"a","limits":{"size":1},"items":[{"size":2}],"env":{"any":"x"}}`: "",
		`{"Path":"a"}`:                            "", // as encoding/json
		`null`:                                    "",
		`{"network":{"allow":["a"]}}`:             "",
		`{"paht":"a"}`:                            "paht",
		`{"limits":{"sise":1}}`:                   "limits.sise",
		`{"items":[{"size":1},{"a.b":1}]}`:        "items[1].a.b",
		`{"Ref":{"path":"a"}}`:                    "Ref",
		`{"path":"a","":1}`:                       "",
		`{"path":1}`:                              "path",
		`{"limits":{"size":"x"}}`:                 "limits.size",
		`{"network":{"alow":[]}}`:                 "network",
		`{"` + strings.Repeat("x", 1000) + `":1}`: strings.Repeat("x", maxField),
	} {
		var v request
		err := Unmarshal("test", []byte(text), &v)
		if want == "" && !strings.Contains(text, `""`) {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if p := fault.PublicOf(err); !fault.Is(err, fault.InvalidArgument) || p.Field != want {
			t.Errorf("%.60s: field %q (%v), want %q", text, p.Field, err, want)
		}
	}
}

// TestMalformed: text that is not one JSON value.
func TestMalformed(t *testing.T) {
	for _, text := range []string{"", "{", `{"path":"a"} {}`, "x"} {
		var v request
		if err := Decode("test", strings.NewReader(text), &v); !fault.Is(err, fault.Malformed) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
