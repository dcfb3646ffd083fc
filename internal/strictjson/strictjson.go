// Package strictjson decodes the JSON of requests. A field that the Go type does not have is an
// error that names the field: a misspelled limit must not become the default.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// maxField bounds the name of a field in an error, in bytes.
const maxField = 128

// Decode reads one JSON value from body into v, a pointer. It rejects fields that v does not have,
// and a second value. An error is Malformed if the body is not JSON, and InvalidArgument with the
// path of the field if a value does not fit v. An error of the body that has a kind is returned
// unchanged.
func Decode(op string, body io.Reader, v any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		if known, ok := errors.AsType[*fault.Error](err); ok {
			return known
		}
		return malformed(op, err)
	}
	return Unmarshal(op, text, v)
}

// Unmarshal is like Decode for text in memory.
func Unmarshal(op string, text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return describe(op, text, v, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return fault.New(fault.Malformed, op, "the body has more than one JSON value")
	}
	return nil
}

func malformed(op string, err error) error {
	return &fault.Error{Kind: fault.Malformed, Op: op, Message: "the body is not valid JSON", Err: err}
}

// describe returns the public form of an error of encoding/json.
func describe(op string, text []byte, v any, err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		field := fault.JSONField(wrong.Field)
		return fault.Invalid(op, field, "this value must not be a JSON %s", wrong.Value)
	}
	// encoding/json has no type for this error, and it gives the name without its path.
	name, ok := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !ok {
		return malformed(op, err)
	}
	name = strings.Trim(name, `"`)
	if path := unknownField(text, v); path != "" {
		name = path
	}
	if len(name) > maxField {
		name = strings.ToValidUTF8(name[:maxField], "")
	}
	return fault.Invalid(op, name, "there is no such field")
}
