package certificate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/testenv"
)

func issue(t *testing.T, names ...string) (chain, key []byte) {
	t.Helper()
	chain, key, err := testenv.Certificate(time.Now().Add(time.Hour), names...)
	if err != nil {
		t.Fatal(err)
	}
	return chain, key
}

// TestRead reads a certificate from two files and from one, and names the file that is missing, too
// large or of another certificate.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	chain, key := issue(t, "example.com", "*.example.com")
	_, foreign := issue(t, "example.org")
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a, b := write("chain.pem", chain), write("key.pem", key)
	both := write("both.pem", append(chain, key...))
	other := write("other.pem", foreign)
	large := write("large.pem", make([]byte, maxFile+1))
	items := []string{a + ":" + b, both}
	pairs, err := ReadAll(items)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Certificates(pairs)
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	for host, want := range map[string]bool{
		"example.com": true, "49983-i0.example.com": true, "a.b.example.com": false,
		"example.org": false,
	} {
		if _, ok := Covers(all, host); ok != want {
			t.Errorf("%s: %v", host, ok)
		}
	}
	for item, want := range map[string]string{
		a + ":" + other:        "other.pem are not a certificate with its key",
		dir + "/none.pem:" + b: "cannot read " + dir + "/none.pem",
		large:                  "has more than",
		a:                      "are not a certificate with its key",
	} {
		if _, err := ReadAll([]string{item}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", item, err, want)
		}
	}
	before := State(items)
	if State(items) != before {
		t.Error("the state of unchanged files differs")
	}
	if err := os.Rename(other, b); err != nil {
		t.Fatal(err)
	}
	if State(items) == before {
		t.Error("the state does not show that a file was replaced")
	}
}
