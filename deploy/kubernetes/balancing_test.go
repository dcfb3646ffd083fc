package kubernetes

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestAnyGatewayServes: no file for a cluster sends a client to the same gateway each time, by a hash
// or a cookie. Any gateway serves any request.
func TestAnyGatewayServes(t *testing.T) {
	sticky := regexp.MustCompile(`(?i)(ip|url|uri|header)_hash|hash-by|consistent|sessionAffinity:` +
		`\s*ClientIP|affinity:\s*"?cookie|lb_policy\s+(cookie|query|client_ip)|\bsticky\b`)
	for _, line := range []string{
		"lb_policy ip_hash", "lb_policy cookie lb", "sessionAffinity: ClientIP", "ip_hash;",
		"nginx.ingress.kubernetes.io/upstream-hash-by: $uri",
		`nginx.ingress.kubernetes.io/affinity: "cookie"`,
	} {
		if !sticky.MatchString(line) {
			t.Errorf("%q is not found", line)
		}
	}
	files := 0
	for _, dir := range []string{".", "../compose", "../proxy"} {
		if err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) == ".go" || filepath.Ext(path) == ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			if found := sticky.Find(text); found != nil {
				t.Errorf("%s has %q", path, found)
			}
			files++
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if files < 20 {
		t.Errorf("only %d files were read", files)
	}
}
