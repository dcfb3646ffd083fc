package e2bname

import (
	"regexp"
	"testing"
)

// TestHexKey checks the form that clients of E2B accept, and that it is read back.
func TestHexKey(t *testing.T) {
	const secret = "sgk_abc_d3f"
	key := HexKey(secret)
	if !regexp.MustCompile(`^e2b_[0-9a-f]+$`).MatchString(key) {
		t.Errorf("%q has another form", key)
	}
	if got, ok := FromHexKey(key); !ok || got != secret {
		t.Errorf("%q became %q, %t", key, got, ok)
	}
	for _, wrong := range []string{"", secret, "e2b_", "e2b_0", "e2b_xy", key[1:]} {
		if got, ok := FromHexKey(wrong); ok {
			t.Errorf("%q is taken for the key %q", wrong, got)
		}
	}
}
