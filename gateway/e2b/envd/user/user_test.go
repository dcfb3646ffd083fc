package user

import (
	"net/http"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

// TestCheckHeader checks the header of each user.
func TestCheckHeader(t *testing.T) {
	for header, want := range map[string]fault.Kind{
		"":                           "",
		"Bearer x":                   "",
		"Basic dXNlcjo=":             "",
		"basic dXNlcjo=":             "",
		"Basic Og==":                 "",
		"Basic cm9vdDo=":             fault.Unsupported,
		"Basic bm9ib2R5Og==":         fault.Unauthenticated,
		"Basic not base64":           fault.Unauthenticated,
		"Basic dXNlcjpwYXNzd29yZA==": "", // no user has a password
	} {
		if got := fault.KindOf(CheckHeader(http.Header{"Authorization": {header}})); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}
