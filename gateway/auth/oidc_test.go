package auth

import (
	"strings"
	"testing"
)

func TestSignInReturnsHere(t *testing.T) {
	for to, want := range map[string]string{
		"": "/", "/s/a?b=c": "/s/a?b=c", "//evil.example": "/", "/\\evil.example": "/",
		"https://evil.example": "/", "/auth/login": "/",
		"/a\nb": "/", "/" + strings.Repeat("a", maxReturn): "/",
	} {
		if got := localPath(to); got != want {
			t.Errorf("%q leads to %q", to, got)
		}
	}
}
