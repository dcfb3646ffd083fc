package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
)

// Network bounds the network access of a session. In JSON it is true for everything that the server
// allows, false for nothing, or {"allow": [...], "deny": [...]} for some hosts.
type Network struct {
	// Off is true when the JSON value is false.
	Off bool
	// Allow is a list of hosts: git.example.org:22, *.example.org, or a preset such as python. A
	// host without a port means the ports 80 and 443. A nil list means everything that the server
	// allows.
	Allow []string
	// Deny are addresses and networks that the session does not reach, also if Allow has a host
	// there: 192.0.2.1 or 198.51.100.0/24. The addresses of a host's name are compared.
	Deny []string
}

type networkAllow struct {
	Allow *[]string `json:"allow,omitempty"`
	Deny  []string  `json:"deny,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (n Network) MarshalJSON() ([]byte, error) {
	switch {
	case n.Off:
		return []byte("false"), nil
	case n.Allow == nil && len(n.Deny) == 0:
		return []byte("true"), nil
	case n.Allow == nil:
		return json.Marshal(networkAllow{Deny: n.Deny})
	}
	return json.Marshal(networkAllow{&n.Allow, n.Deny})
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Network) UnmarshalJSON(b []byte) error {
	var on bool
	if json.Unmarshal(b, &on) == nil {
		*n = Network{Off: !on}
		return nil
	}
	var v networkAllow
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		var known *json.UnmarshalTypeError
		if !errors.As(err, &known) { // a type that lets the caller name the field
			err = &json.UnmarshalTypeError{
				Value: "value with fields other than allow and deny",
				Type:  reflect.TypeFor[networkAllow](),
			}
		}
		return err
	}
	*n = Network{Deny: v.Deny}
	switch {
	case v.Allow != nil:
		n.Allow = *v.Allow
	case len(v.Deny) == 0:
		n.Allow = []string{} // an object without fields allows nothing
	}
	return nil
}
