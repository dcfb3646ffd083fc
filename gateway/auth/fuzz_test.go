package auth

import (
	"net/http"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// FuzzCredentials fails when text that was not issued is accepted as a credential: a bearer token, a
// ticket, a run token, a link, a token in an address, or a cookie.
func FuzzCredentials(f *testing.F) {
	a := testAuthenticator(f, Config{})
	who := noderpc.Principal{Tenant: "t", Subject: userSubject + "s"}
	link, _, err := a.NewFileLinkToken(who, protocol.FileRef{Session: "s_a", Path: "x"}, false,
		24*time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	if _, _, err := a.OpenFileLink(link); err != nil {
		f.Fatalf("a link is refused: %v", err)
	}
	for _, text := range []string{
		"", "Bearer", "Bearer sgk_a_b", "bearer  sgs_AAAA", "Bearer sgv_", "Basic eDp5",
		"Bearer " + RunTokenPrefix + "a_b", TicketPrefix + "a", filePrefix, userMark + "x",
		"zzzzzz-a.b", "1.", "zzzzzzz.AAAA", link[:len(link)-1], link + "A", "e2b_" + "00",
		"__Host-sandgate=x; a=b", "\x00\xff", SessionCookie + "=" + link,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, r := range map[string]Request{
			"header": {Authorization: text, RunTokens: true},
			"bearer": {Authorization: "Bearer " + text, RunTokens: true},
			"ticket": {Subprotocols: []string{text, TicketPrefix + text}},
			"cookie": {SessionCookie: text, CookieOnly: true},
		} {
			if got, err := a.Authenticate(t.Context(), r); err == nil {
				t.Errorf("%s: %q is accepted for %+v", name, text, got)
			}
		}
		for _, token := range []string{text, filePrefix + text} {
			if _, _, err := a.OpenFileLink(token); err == nil && token != link {
				t.Errorf("%q opens a file", token)
			}
		}
		if _, _, err := a.OpenJupyterToken(text); err == nil {
			t.Errorf("%q is a token of Jupyter", text)
		}
		if _, ok := a.OpenPortCookie(text, "s_a:80"); ok {
			t.Errorf("%q opens a port", text)
		}
		if cookies, err := http.ParseCookie(text); err == nil {
			for _, c := range cookies {
				if _, ok := a.OpenPortCookie(c.Value, "s_a:80"); ok {
					t.Errorf("%q opens a port", text)
				}
			}
		}
	})
}
