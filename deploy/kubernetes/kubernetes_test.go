package kubernetes

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sandgate/sandgate/config"
)

// kubecheck holds a folder to the types of k8s.io/api.
func kubecheck(t *testing.T, dir string) (string, error) {
	t.Helper()
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the first build of the types
	defer cancel()
	out, err := exec.CommandContext(ctx, "go", "-C", "../../tools", "run", "./kubecheck", abs).CombinedOutput()
	return string(out), err
}

// TestManifests reads the tree as Kubernetes would, and sees that mistakes
// are found.
func TestManifests(t *testing.T) {
	if out, err := kubecheck(t, "."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, change := range map[string][3]string{
		"a field that is not there": {"statefulset.yaml", "terminationGracePeriodSeconds", "terminationGraceSeconds"},
		"a selector of nothing":     {"policy.yaml", "app.kubernetes.io/name: sandgate", "app.kubernetes.io/name: other"},
		"a volume that is not":      {"statefulset.yaml", "- name: data\n              mountPath", "- name: date\n              mountPath"},
	} {
		dir := t.TempDir()
		files, _ := filepath.Glob("*.yaml")
		for _, f := range files {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text := string(b)
			if f == change[0] {
				if text = strings.Replace(text, change[1], change[2], 1); text == string(b) {
					t.Fatalf("%s: %s has no %q", name, f, change[1])
				}
			}
			if err := os.WriteFile(filepath.Join(dir, f), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := kubecheck(t, dir); err == nil {
			t.Errorf("%s is not found: %s", name, out)
		}
	}
}

// TestConfigMapLoads has the server's own reader take the settings.
func TestConfigMapLoads(t *testing.T) {
	b, err := os.ReadFile("config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct{ Data map[string]string }
	if err := yaml.Unmarshal(b, &object); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(object.Data["config.yaml"]), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(&config.Flags{File: file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.Listen != "0.0.0.0:8080" || !c.Insecure || len(c.Hosts) < 2 {
		t.Errorf("%+v", c)
	}
}
