package admin

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/config"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
	"github.com/sandgate/sandgate/internal/testenv"
)

// TestCertificates checks certificates that are good, that end soon, that have ended, that have
// another name or no wildcard, and files that are missing or that everybody can read.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	day := 24 * time.Hour
	file := func(life time.Duration, mode os.FileMode, names ...string) string {
		chain, key, err := testenv.Certificate(time.Now().Add(life), names...)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, strings.ReplaceAll(t.Name()+names[0]+life.String(), "/", "_"))
		if err := os.WriteFile(path, append(chain, key...), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	main := file(90*day, 0o600, "code.example.org")
	wildcard := file(90*day, 0o640, "*.sbx.example.org")
	soon := file(7*day, 0o600, "*.sbx.example.org")
	ended := file(-time.Minute, 0o600, "*.sbx.example.org")
	public := file(80*day, 0o644, "*.sbx.example.org")
	for name, c := range map[string]struct {
		items []string
		want  map[gvisor.Status]string // a part of each finding that is not OK
	}{
		"good":  {[]string{main, wildcard}, nil},
		"early": {[]string{main, soon}, map[gvisor.Status]string{gvisor.Warn: "ends on"}},
		"late":  {[]string{main, ended}, map[gvisor.Status]string{gvisor.Fail: "ended on"}},
		"no wildcard": {[]string{main}, map[gvisor.Status]string{
			gvisor.Fail: "no certificate is for *.sbx.example.org, which e2b_domain names",
		}},
		"another name": {[]string{wildcard}, map[gvisor.Status]string{
			gvisor.Fail: "no certificate is for code.example.org, which allowed_hosts names",
		}},
		"everybody reads": {[]string{main, public}, map[gvisor.Status]string{gvisor.Fail: "every user can read"}},
		"missing":         {[]string{main, dir + "/none"}, map[gvisor.Status]string{gvisor.Fail: "cannot read"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config.Default()
			cfg.Hosts, cfg.E2B = []string{"code.example.org"}, "sbx.example.org:8443"
			cfg.TLS.Certificates = c.items
			got := map[gvisor.Status]string{}
			for _, f := range certificates(cfg, time.Now()) {
				if f.Status != gvisor.OK {
					got[f.Status] += f.What
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			for status, part := range c.want {
				if !strings.Contains(got[status], part) {
					t.Errorf("%v, want %q", got, part)
				}
			}
		})
	}
}

// TestClusterCertificates: doctor checks the certificates of the roles that this machine has, and warns
// before they expire.
func TestClusterCertificates(t *testing.T) {
	ca, dir := t.TempDir(), t.TempDir()
	if err := noderpc.MakeCA(ca); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default()
	cfg.Cluster.Dir = dir
	issue := func(role string) {
		t.Helper()
		if err := noderpc.Issue(ca, dir, role, "n1"); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, after time.Duration, all ...gvisor.Status) (found []gvisor.Finding) {
		t.Helper()
		found = clusterCertificates(cfg, time.Now().Add(after))
		var got []gvisor.Status
		for _, f := range found {
			got = append(got, f.Status)
		}
		if !slices.Equal(got, all) {
			t.Errorf("%s: %+v, want %v", what, found, all)
		}
		return found
	}
	const day = 24 * time.Hour
	issue(noderpc.RoleNode)
	want("without a cluster", 0)
	cfg.Cluster.Redis = "redis://127.0.0.1:6379/0"
	want("a node", 0, gvisor.OK)
	issue(noderpc.RoleGateway)
	want("both roles", 0, gvisor.OK, gvisor.OK)
	want("before the end", 360*day, gvisor.Warn, gvisor.Warn)
	want("before the begin", -day, gvisor.Fail, gvisor.Fail)
	late := want("after the end", 366*day, gvisor.Fail, gvisor.Fail)
	if len(late) > 0 && (!strings.Contains(late[0].What, filepath.Join(dir, "node.crt")+" ended on") ||
		!strings.Contains(late[0].Repair, "sandgate cluster join")) {
		t.Errorf("after the end: %+v", late[0])
	}
	if err := os.WriteFile(filepath.Join(dir, "node.key"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	want("a damaged key", 0, gvisor.Fail, gvisor.OK)
}
