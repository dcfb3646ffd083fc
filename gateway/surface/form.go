package surface

import (
	"errors"
	"io"

	"github.com/sandgate/sandgate/protocol/fault"
)

// FormError returns the error of a body that is not a form. An error of the body itself, or of the
// node, is returned unchanged. The operation op is that of a new error.
func FormError(op string, err error) error {
	if known, ok := errors.AsType[*fault.Error](err); ok {
		return known
	}
	return &fault.Error{
		Kind: fault.Malformed, Op: op, Message: "the body is not a valid form", Err: err,
	}
}

// FormPart reads a part of a form. Its errors are those of FormError.
type FormPart struct {
	io.Reader
	Op string
}

// Read reads the part.
func (p FormPart) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	if err != nil && err != io.EOF {
		err = FormError(p.Op, err)
	}
	return n, err
}
