package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
)

// Network bounds the network access of a session. In JSON it is true for everything that the server
// allows, false for nothing, or {"allow": [...]} for some hosts.
type Network struct {
	// Off is true when the JSON value is false.
	Off bool
	// Allow is a list of hosts: git.example.org:22, *.example.org, or a preset such as python. A
	// host without a port means the ports 80 and 443. A nil list means everything that the server
	// allows.
	Allow []string
}

type networkAllow struct {
	Allow []string `json:"allow"`
}

// MarshalJSON implements json.Marshaler.
func (n Network) MarshalJSON() ([]byte, error) {
	switch {
	case n.Off:
		return []byte("false"), nil
	case n.Allow == nil:
		return []byte("true"), nil
	}
	return json.Marshal(networkAllow{n.Allow})
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Network) UnmarshalJSON(b []byte) error {
	var on bool
	if json.Unmarshal(b, &on) == nil {
		*n = Network{Off: !on}
		return nil
	}
	v := networkAllow{Allow: []string{}}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		var known *json.UnmarshalTypeError
		if !errors.As(err, &known) { // a type that lets the caller name the field
			err = &json.UnmarshalTypeError{
				Value: "value with fields other than allow",
				Type:  reflect.TypeFor[networkAllow](),
			}
		}
		return err
	}
	if v.Allow == nil {
		v.Allow = []string{}
	}
	*n = Network{Allow: v.Allow}
	return nil
}
