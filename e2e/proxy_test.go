package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/testenv"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
)

const proxyName = "code.example.org"

// certificate writes a certificate for proxyName, and returns a pool that trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: proxyName},
		DNSNames:  []string{proxyName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	check(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "cert.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "key.pem"),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	parsed, err := x509.ParseCertificate(der)
	check(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return pool
}

// proxy changes the addresses and folders in an example, and returns the command that
// runs it. The rest of the example stays as it is.
func proxy(t *testing.T, kind, dir, port, upstream string) *exec.Cmd {
	t.Helper()
	example := map[string]string{"nginx": "nginx.conf", "caddy": "Caddyfile"}[kind]
	b, err := os.ReadFile("../deploy/proxy/" + example)
	check(t, err)
	text := string(b)
	replace := func(old, by string) {
		if !strings.Contains(text, old) {
			t.Fatalf("%s has no %q", example, old)
		}
		text = strings.ReplaceAll(text, old, by)
	}
	replace("127.0.0.1:8080", upstream)
	file := filepath.Join(dir, example)
	if kind == "nginx" {
		replace("listen 443 ssl", "listen 127.0.0.1:"+port+" ssl")
		replace("/etc/ssl/certs/code.example.org.pem", dir+"/cert.pem")
		replace("/etc/ssl/private/code.example.org.key", dir+"/key.pem")
		main := "daemon off;\nuser root;\npid " + dir +
			"/pid;\nerror_log stderr warn;\nevents {}\nhttp {\naccess_log off;\n"
		for _, p := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
			main += p + "_temp_path " + dir + "/" + p + ";\n"
		}
		check(t, os.WriteFile(filepath.Join(dir, "main.conf"),
			[]byte(main+"include "+file+";\n}\n"), 0o644))
		check(t, os.WriteFile(file, []byte(text), 0o644))
		return exec.Command("nginx", "-e", "stderr", "-p", dir, "-c",
			filepath.Join(dir, "main.conf"))
	}
	replace("\n"+proxyName+" {\n", "\n{\n\tadmin off\n\tauto_https disable_redirects\n}\nhttps://"+
		proxyName+":"+port+" {\n\tbind 127.0.0.1\n\ttls "+dir+"/cert.pem "+dir+"/key.pem\n")
	check(t, os.WriteFile(file, []byte(text), 0o644))
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", file)
	cmd.Env = []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir}
	return cmd
}

// TestProxies runs the examples of deploy/proxy before a gateway.
func TestProxies(t *testing.T) {
	ctx, cancel := context.WithTimeout(deadline(t), 10*time.Minute)
	defer cancel()
	srv, err := Start(ctx, "pool: {size: 1, languages: [python]}\nallowed_hosts: ["+proxyName+"]")
	check(t, err)
	defer func() { check(t, srv.Stop()) }()
	for _, kind := range []string{"nginx", "caddy"} {
		t.Run(kind, func(t *testing.T) { throughProxy(t, ctx, srv, kind) })
	}
}

func throughProxy(t *testing.T, ctx context.Context, srv *Server, kind string) {
	dir := t.TempDir()
	trusted := certificate(t, dir)
	address, err := testenv.FreeAddress()
	check(t, err)
	_, port, _ := net.SplitHostPort(address)
	cmd := proxy(t, kind, dir, port, strings.TrimPrefix(srv.URL, "http://"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s", said.String())
		}
	})
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	https := &http.Client{Transport: &http.Transport{
		DialContext:     dial,
		TLSClientConfig: &tls.Config{RootCAs: trusted},
	}}
	defer https.CloseIdleConnections()
	url := "https://" + proxyName + ":" + port
	ask := func(origin string) int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1", nil)
		check(t, err)
		req.Header.Set("Authorization", "Bearer "+srv.Token)
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		resp, err := https.Do(req)
		if err != nil {
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	eventually(t, "the proxy answers", func() bool { return ask("") == http.StatusOK })
	if own, foreign := ask(url), ask("https://evil.example"); own != http.StatusOK ||
		foreign != http.StatusForbidden {
		t.Errorf("a page of the proxy gets %d, a foreign page %d", own, foreign)
	}

	otherTargets(t, srv, address, trusted)

	c, err := wire.New(url, srv.Token, wire.Options{HTTP: https})
	check(t, err)
	made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	check(t, err)
	defer c.DeleteSession(context.WithoutCancel(ctx), made.ID)
	conn, err := c.Connect(ctx)
	check(t, err)
	defer conn.Close()
	k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
	check(t, err)
	s := &session{t, ctx, c, conn, k, made.ID}

	// Output arrives before the program continues.
	wait := "import time, os\nprint('first', flush=True)\nwhile not os.path.exists('go%d'): time.sleep(0.01)\nprint('second')"
	first := false
	out := s.collect(s.begin(strings.Replace(wait, "%d", "1", 1)), func(r frame.Record) {
		if r.Kind == frame.KindStdout && !first {
			first = true
			_, err := c.Upload(ctx, s.id, "go1", 0, strings.NewReader(""))
			check(t, err)
		}
	})
	if !first || out.stdout != "first\nsecond\n" {
		t.Errorf("over the WebSocket: %q", out.stdout)
	}
	var run string
	check(t, c.Run(ctx, protocol.RunRequest{
		Session: s.id, Language: "python",
		Code: strings.Replace(wait, "%d", "2", 1),
	}, func(e protocol.RunEvent) error {
		if e.Type != "stdout" {
			return nil
		}
		if run == "" {
			_, err := c.Upload(ctx, s.id, "go2", 0, strings.NewReader(""))
			check(t, err)
		}
		run += e.Text
		return nil
	}))
	if run != "first\nsecond\n" {
		t.Errorf("over HTTP: %q", run)
	}
	// A body over every default limit of a proxy, in both directions.
	large := make([]byte, 20<<20)
	_, _ = rand.Read(large)
	_, err = c.Upload(ctx, s.id, "large", 0, bytes.NewReader(large))
	check(t, err)
	file, err := c.Download(ctx, s.id, "large")
	check(t, err)
	back, err := io.ReadAll(file)
	check(t, err)
	file.Close()
	if !bytes.Equal(back, large) {
		t.Errorf("%d bytes were returned, of %d, and they differ", len(back), len(large))
	}
	// The gateway dies. The client reconnects through the proxy.
	before := conn.Reconnects()
	pid, err := srv.Child("gateway")
	check(t, err)
	check(t, syscall.Kill(pid, syscall.SIGKILL))
	s.run("ok", "print(1)")
	if conn.Reconnects() == before {
		t.Error("the gateway was not killed")
	}
	if kind == "nginx" {
		for _, m := range regexp.MustCompile(
			`proxy_(?:read|send)_timeout (\S+);`).FindAllStringSubmatch(
			string(mustRead(t, "../deploy/proxy/nginx.conf")), -1) {
			// A ping is sent every 25 s, and its answer may take 20 s.
			if d, err := time.ParseDuration(m[1]); err != nil || d <= 45*time.Second {
				t.Errorf("%s ends a silent WebSocket", m[0])
			}
		}
	}
}

func mustRead(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	check(t, err)
	return b
}

// otherTargets sends requests whose target names another host than their header. A proxy passes one
// of the two names on. The gateway answers if that one is its own.
func otherTargets(t *testing.T, srv *Server, address string, trusted *x509.CertPool) {
	t.Helper()
	const evil = "evil.example"
	for _, c := range []struct{ target, host string }{
		{"http://" + evil, proxyName},
		{"https://" + proxyName, evil},
		{"http://" + evil, evil},
		{"", evil},
	} {
		conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: trusted, ServerName: proxyName})
		check(t, err)
		check(t, conn.SetDeadline(time.Now().Add(3*time.Minute)))
		_, err = io.WriteString(conn, "GET "+c.target+"/v1 HTTP/1.1\r\nHost: "+c.host+
			"\r\nAuthorization: Bearer "+srv.Token+"\r\nConnection: close\r\n\r\n")
		check(t, err)
		answer, err := io.ReadAll(conn)
		check(t, err)
		conn.Close()
		own := strings.Contains(c.target+c.host, proxyName)
		if got := strings.Contains(string(answer), `"protocol":`); got && !own {
			t.Errorf("GET %s/v1 with the host %s: %s", c.target, c.host, answer)
		}
		if strings.Contains(string(answer), evil) {
			t.Errorf("the answer names the other host: %s", answer)
		}
	}
}
