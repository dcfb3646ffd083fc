package protocol

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
)

// Network says what a session may reach outside: in JSON true for all that the
// server lets out, false for nothing, or {"allow": [...]} for some of it.
type Network struct {
	// Off is for what is false.
	Off bool
	// Allow are hosts: git.example.org:22, *.example.org, or a preset such as python. Without
	// a port, 80 and 443 are meant. nil is all that the server lets out.
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
		if !errors.As(err, &known) { // so that the caller can name the field
			err = &json.UnmarshalTypeError{Value: "value with other fields than allow", Type: reflect.TypeFor[networkAllow]()}
		}
		return err
	}
	if v.Allow == nil {
		v.Allow = []string{}
	}
	*n = Network{Allow: v.Allow}
	return nil
}
