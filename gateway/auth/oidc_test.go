package auth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol/fault"
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

// TestHardening_ProviderIsAwayForAll: while the provider does not answer, only one sign-in waits for
// it, and the next ones fail at once.
func TestHardening_ProviderIsAwayForAll(t *testing.T) {
	asked := make(chan struct{}, 100)
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer server.Close()
	p, err := newProvider(t.Context(), &SignIn{
		Issuer: server.URL, ClientID: "x", PublicURL: "http://localhost:1", Tenant: "t",
		Role: tenant.Owner,
	})
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { _, _, err := p.find(); first <- err }()
	<-asked
	close(answer)
	if err := <-first; !fault.Is(err, fault.Unavailable) {
		t.Errorf("the first: %v", err)
	}
	for range 50 {
		if _, _, err := p.find(); !fault.Is(err, fault.Unavailable) {
			t.Errorf("the next: %v", err)
		}
	}
	if n := len(asked); n > 0 {
		t.Errorf("the provider was asked %d more times", n)
	}
}

// TestHardening_SignInIsFinishedOnce: one sign-in makes one request to the provider.
func TestHardening_SignInIsFinishedOnce(t *testing.T) {
	p := &provider{}
	if !p.use("a") || p.use("a") || !p.use("b") {
		t.Error("a sign-in can be finished twice, or another one cannot")
	}
	for i := range maxUsed {
		p.use(strconv.Itoa(i))
	}
	if len(p.used) > maxUsed {
		t.Errorf("%d sign-ins are remembered", len(p.used))
	}
}

// TestHardening_ProviderSettings: a provider without TLS is on this machine, and no claim names the
// operator's tenant.
func TestHardening_ProviderSettings(t *testing.T) {
	s := SignIn{
		Issuer: "http://id.example.com", ClientID: "x", PublicURL: "https://a.test", Tenant: "t",
		Role: tenant.Owner,
	}
	if _, err := newProvider(t.Context(), &s); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("a provider without TLS: %v", err)
	}
	p := &provider{SignIn: SignIn{TenantClaim: "org", Role: tenant.Owner}}
	claims := map[string]json.RawMessage{"org": json.RawMessage(`"local"`)}
	if u, err := p.userOf("ann", claims); !fault.Is(err, fault.PermissionDenied) {
		t.Errorf("a claim made the user %+v, %v", u, err)
	}
}
