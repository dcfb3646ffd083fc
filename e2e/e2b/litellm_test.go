package e2b

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
)

// TestLiteLLM sends the requests of LiteLLM's client of E2B: it creates a sandbox, runs code at the
// sandbox's own host by TLS, and deletes the sandbox.
func TestLiteLLM(t *testing.T) {
	t.Parallel()
	d := server(t)
	ctx := deadline(t)
	a := d.api(t, "POST", "/sandboxes", map[string]any{
		"templateID": "code-interpreter-v1", "timeout": 120, "secure": true,
		"allow_internet_access": false,
	})
	expect(t, "create", a, 201)
	var made struct{ SandboxID, EnvdAccessToken, Domain, TrafficAccessToken string }
	check(t, json.Unmarshal(a.body, &made))
	if made.SandboxID == "" || made.EnvdAccessToken == "" || made.Domain != d.domain {
		t.Fatalf("the sandbox is %s", a.body)
	}
	client := tlsClient(t, d)
	execute := func(code string, env map[string]string) (types []string, stdout, failed string) {
		t.Helper()
		text, err := json.Marshal(map[string]any{"code": code, "context_id": nil, "env_vars": env})
		check(t, err)
		req, err := http.NewRequestWithContext(ctx, "POST",
			"https://49999-"+made.SandboxID+"."+made.Domain+"/execute", bytes.NewReader(text))
		check(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Access-Token", made.EnvdAccessToken)
		res, err := client.Do(req)
		check(t, err)
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("execute: %d", res.StatusCode)
		}
		for in := json.NewDecoder(res.Body); ; {
			var l struct{ Type, Text, Name, Value string }
			if err := in.Decode(&l); err == io.EOF {
				return types, stdout, failed
			} else if err != nil {
				t.Fatal(err)
			}
			types = append(types, l.Type)
			if l.Type == "stdout" {
				stdout += l.Text
			}
			failed += l.Name
		}
	}
	types, stdout, failed := execute("import os\nprint(os.environ['NAME'])\n6 * 7",
		map[string]string{"NAME": "value"})
	if stdout != "value\n" || failed != "" || !slices.Contains(types, "number_of_executions") ||
		!slices.Contains(types, "result") {
		t.Errorf("the lines are %v, the output is %q, the error %q", types, stdout, failed)
	}
	if types, _, failed := execute("1/0", nil); failed != "ZeroDivisionError" {
		t.Errorf("the lines are %v, the error is %q", types, failed)
	}
	expect(t, "delete", d.api(t, "DELETE", "/sandboxes/"+made.SandboxID, nil), 204)
}

// tlsClient returns a client that finds all names at the server, and trusts its certificate.
func tlsClient(t *testing.T, d *deployment) *http.Client {
	t.Helper()
	pem, err := os.ReadFile(d.certificate)
	check(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatal("no certificate")
	}
	_, port, err := net.SplitHostPort(d.domain)
	check(t, err)
	var dialer net.Dialer
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}
