package gvisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol/fault"
)

func TestCheckHost(t *testing.T) {
	cfg := testConfig(t)
	before := take(t, cfg.StateDir)
	probe := testSpec()
	probe.Args = []string{"/agent", "true"}
	all := CheckHost(t.Context(), cfg, &probe)
	for _, f := range all {
		t.Logf("%-4s %s: %s (%s)", f.Status, f.Name, f.What, f.Repair)
		if f.Status == Fail || (f.Status == OK) != (f.Repair == "") || f.Name == "" ||
			f.What == "" {
			t.Errorf("%+v", f)
		}
	}
	if last := all[len(all)-1]; last.Name != "a sandbox" || last.Status != OK {
		t.Errorf("the last finding is %+v", last)
	}
	now := take(t, cfg.StateDir)
	before.compare(t, now)

	probe.Args = []string{"/agent"}
	probe.Args = []string{"/none"}
	if last := CheckHost(t.Context(), cfg, &probe); last[len(last)-1].Status != Fail {
		t.Errorf("a program that is not there: %+v", last[len(last)-1])
	}
}

func TestNewRuntimeRefuses(t *testing.T) {
	private := filepath.Join(t.TempDir(), "private")
	fatal(t, os.Mkdir(private, 0o700))
	fatal(t, os.Symlink(testRunsc, filepath.Join(private, "runsc")))
	for _, test := range []struct {
		name string
		harm func(*Config)
		want string
	}{
		{"no runsc", func(c *Config) { c.Runsc = "" }, "make build"},
		{"runsc that is not there", func(c *Config) { c.Runsc = "/no/runsc" }, "make build"},
		{"not a runsc", func(c *Config) { c.Runsc = "/bin/true" }, "make build"},
		{
			"runsc in a private directory",
			func(c *Config) { c.Runsc = filepath.Join(private, "runsc") }, "chmod o+x",
		},
		{"relative state directory", func(c *Config) { c.StateDir = "state" }, "absolute path"},
		{
			"long state directory", func(c *Config) {
				c.StateDir = "/tmp/" +
					strings.Repeat("x", 60)
			},
			"at most 60",
		},
		{"platform", func(c *Config) { c.Platform = "ptrace" }, "systrap"},
		{"cgroup parent", func(c *Config) { c.CgroupParent = "a:b:c" }, "/sandgate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := testConfig(t)
			test.harm(&cfg)
			r, err := NewRuntime(cfg)
			if err == nil {
				fatal(t, r.Close(t.Context()))
			}
			if !fault.Is(err, fault.Host) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("NewRuntime: %v, want kind host and %q", err, test.want)
			}
		})
	}
}
