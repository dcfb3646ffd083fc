// Package user checks the users that clients of E2B ask for. A sandbox has one user.
package user

import (
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Name is the name of the user of all sandboxes.
const Name = "user"

// Check checks the name of a user; empty means the default. Errors: Unsupported for root,
// Unauthenticated for other users.
func Check(name string) error {
	const op = "user.check"
	switch name {
	case "", Name:
		return nil
	case "root":
		return fault.New(fault.Unsupported, op,
			"sandboxes of this server have no root; use the default user")
	}
	return fault.New(fault.Unauthenticated, op, "there is no user %.64q; the user is %q", name, Name)
}

// CheckHeader checks the user in the header of a request: Authorization with the scheme Basic and an
// empty password. It follows the rules of Check. Other schemes name no user.
func CheckHeader(h http.Header) error {
	scheme, rest, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return nil
	}
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return fault.New(fault.Unauthenticated, "user.check", "the header Authorization is not valid")
	}
	name, _, _ := strings.Cut(string(text), ":")
	return Check(name)
}
