package cli

import (
	"strings"
	"testing"
)

// TestHelp: every command has help, in which every flag is explained.
func TestHelp(t *testing.T) {
	c := newCLI(t, nil)
	overview, _, code := c.run(t, "", "help")
	if code != 0 {
		t.Errorf("help exits with %d", code)
	}
	for _, cmd := range commands() {
		out, errs, code := c.run(t, "", cmd.name, "--help")
		if code != 0 || errs != "" || !strings.HasPrefix(out, "usage: sandgate "+cmd.name) || !strings.Contains(out, cmd.short) {
			t.Errorf("%s --help: %d, %q, %q", cmd.name, code, errs, out)
		}
		if !strings.Contains(overview, "  "+cmd.name) {
			t.Errorf("the overview lacks %s", cmd.name)
		}
		if again, _, _ := c.run(t, "", "help", cmd.name); again != out {
			t.Errorf("help %s differs from %s --help", cmd.name, cmd.name)
		}
	}
	if _, _, code := c.run(t, ""); code != usageExit {
		t.Errorf("without a command: %d", code)
	}
}
