package protocol

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestNetworkJSON reads and writes each form of Network.
func TestNetworkJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`, `{"network":null}`: `{}`, `{"network":true}`: `{"network":true}`,
		`{"network":false}`:                       `{"network":false}`,
		`{"network":{"allow":["a.example"]}}`:     `{"network":{"allow":["a.example"]}}`,
		`{"network":{"deny":["192.0.2.1"]}}`:      `{"network":{"deny":["192.0.2.1"]}}`,
		`{"network":{"allow":[],"deny":["::1"]}}`: `{"network":{"allow":[],"deny":["::1"]}}`,
		`{"network":{"deny":[]}}`:                 `{"network":{"allow":[]}}`,
		`{"network":{}}`:                          `{"network":{"allow":[]}}`,
		`{"network":{"allow":null}}`:              `{"network":{"allow":[]}}`,
	} {
		var r SessionCreate
		err := json.Unmarshal([]byte(in), &r)
		out, _ := json.Marshal(r)
		if err != nil || string(out) != want {
			t.Errorf("%s is %s, %v", in, out, err)
		}
	}
	for in, field := range map[string]string{
		`5`: "network", `"*"`: "network", `["a"]`: "network", `{"hosts":[]}`: "network",
		`{"allow":"a"}`: "network.allow", `{"allow":[5]}`: "network.allow",
	} {
		err := json.Unmarshal([]byte(`{"network":`+in+`}`), new(SessionCreate))
		if wrong := (*json.UnmarshalTypeError)(nil); !errors.As(err, &wrong) ||
			wrong.Field != field {
			t.Errorf("%s: %v, which names another field than %s", in, err, field)
		}
	}
}
