package ports

import "testing"

func TestPortNames(t *testing.T) {
	for in, ok := range map[string]bool{
		"": true, "localhost": true, "ports.example.org": true, "https://p.example.org:8443": true,
		"ftp://x": false, "https://": false, "a b": false, "x:99999": false, "x/y": false,
		"*.x": false,
	} {
		if _, err := ParseDomain(in); (err == nil) != ok {
			t.Errorf("%q: %v", in, err)
		}
	}
	d, _ := ParseDomain("https://P.example.org:8443")
	if got := d.URL("s_abc2", 80, "api.example.org"); got != "https://80-abc2.p.example.org:8443/" {
		t.Error(got)
	}
	for host, want := range map[string]string{
		"80-abc2.p.example.org": "s_abc2:80", "80-ABC2.P.example.org:8443": "s_abc2:80",
		"0-abc2.p.example.org": "", "080-abc2.p.example.org": "", "70000-abc2.p.example.org": "",
		"80-.p.example.org":    "",
		"80-a.b.p.example.org": "", "80-s_abc.p.example.org": "", "80-abc2.q.example.org": "",
		"p.example.org": "", "": "",
		"80-abc2.p.example.org.evil.org": "",
	} {
		got := ""
		if p, ok := d.Target(host); ok {
			got = p.Key()
		}
		if got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
	local, _ := ParseDomain("localhost")
	for host, want := range map[string]string{
		"127.0.0.1:8080":  "http://80-abc2.localhost:8080/",
		"[::1]:8080":      "http://80-abc2.localhost:8080/",
		"localhost":       "http://80-abc2.localhost/",
		"app.example.org": "",
	} {
		if got := local.URL("s_abc2", 80, host); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
	for host, want := range map[string]string{
		"127.0.0.1:8080":           "http://*.localhost:8080",
		"app.example.org":          "",
		"localhost:1;script-src":   "",
		"localhost:1,script-src-x": "",
	} {
		if got := local.Source(host); got != want {
			t.Errorf("%q: %q", host, got)
		}
	}
	if got := d.Source("api.example.org"); got != "https://*.p.example.org:8443" {
		t.Error(got)
	}
	if got := (Domain{}).Source("localhost"); got != "" {
		t.Error(got)
	}
}
