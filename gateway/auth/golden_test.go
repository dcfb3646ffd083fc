package auth

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/tenant"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/golden"
)

// TestGoldenValues compares the JSON of sealed and stored values.
func TestGoldenValues(t *testing.T) {
	types := map[string]any{
		"sealed ticket": ticket{}, "sealed run ticket": RunToken{}, "sealed view link": viewLink{},
		"sealed file link": FileLink{},
		"sealed user":      User{}, "sealed sign-in": attempt{}, "sealed": sealed[viewLink]{},
		"sealed visit": Visit{}, "sealed Jupyter token": jupyterToken{},
	}
	golden.Records(t, "values.json", types, protocol.Network{Allow: []string{"example.org"}})
	golden.Covers(t, types, "sealed")
}

// TestGoldenSealed opens values that commit 80200dc sealed: view links, cookies and tickets that
// are still in use when a gateway is replaced.
func TestGoldenSealed(t *testing.T) {
	keys := testAuthenticator(t, Config{}).Keys
	keys.Update(tenant.News{Table: tenant.Table{Version: 2, Seal: bytes.Repeat([]byte{1}, 32)}})
	var link viewLink
	var u User
	var a attempt
	var one ticket
	var run RunToken
	var who noderpc.Principal
	for _, v := range []any{&link, &u, &a, &one, &run, &who} {
		golden.Fill(t, v, protocol.Network{})
	}
	run.Binding = RunBinding{} // run tickets had none
	checkSealed(t, keys, "view link", link)
	checkSealed(t, keys, "session cookie", u)
	checkSealed(t, keys, "session token", u)
	checkSealed(t, keys, "sign-in cookie", a)
	checkSealed(t, keys, "ticket connect:name", one)
	checkSealed(t, keys, "run ticket id", run)
	checkSealed(t, keys, "port cookie s_x:80", who)
	golden.Lines(t, "prefixes.txt", map[string]string{
		"purposes": fmt.Sprintf("%q", []string{
			purposeView, purposeCookie, purposeToken,
			purposeSignIn, purposeRun, purposePort, purposeFile,
			purposeVisit,
		}),
		"tokens": fmt.Sprintf("%q", []string{
			RunTokenPrefix, userPrefix, viewPrefix, filePrefix,
			TicketPrefix,
		}),
		"cookies": fmt.Sprintf("%q", []string{SessionCookie, SignInCookie}),
	})
}

func checkSealed[T any](t *testing.T, keys *KeyCache, purpose string, want T) {
	t.Helper()
	for line := range strings.Lines(golden.Read(t, "sealed-80200dc.txt")) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if key != purpose {
			continue
		}
		if got, ok, err := unseal[T](keys, purpose, text); err != nil || !ok ||
			!reflect.DeepEqual(got, want) {
			t.Errorf("%s: opened as %+v, %v, %v; want %+v", purpose, got, ok, err, want)
		}
		return
	}
	t.Errorf("nothing was sealed for %q", purpose)
}
