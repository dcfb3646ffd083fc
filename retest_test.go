package sandgate

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRetest runs deploy/retest with logs of failed runs, and with commands that pass or fail.
func TestRetest(t *testing.T) {
	t.Parallel()
	const one = "--- FAIL: TestA (1.0s)\n    --- FAIL: TestA/b (0.5s)\nFAIL\nFAIL\tm/one\t2.0s\n"
	for _, c := range []struct {
		name, log, command string
		again              []string // the packages and patterns that run again
		passes             bool
	}{
		{name: "passes alone", log: one, again: []string{`m/one ^\QTestA\E$`}, passes: true},
		{name: "fails again", log: one, command: "exit 1", again: []string{`m/one ^\QTestA\E$`}},
		{
			name: "matches nothing", log: one, command: "echo testing: warning: no tests to run",
			again: []string{`m/one ^\QTestA\E$`},
		},
		{
			name: "a part of a test", passes: true,
			log: "--- FAIL: TestPrograms (9s)\n    --- FAIL: TestPrograms/c++ (1s)\n" +
				"        --- FAIL: TestPrograms/c++/code (1s)\nFAIL\tm/one\t9s\n" + one,
			again: []string{`m/one ^\QTestPrograms\E$/^\Qc++\E$`, `m/one ^\QTestA\E$`},
		},
		{
			name: "a test of parts without a failed part", passes: true,
			log:   "--- FAIL: TestSDK (9s)\nFAIL\tm/one\t9s\n",
			again: []string{`m/one ^\QTestSDK\E$`},
		},
		{name: "a data race", log: "WARNING: DATA RACE\n" + one},
		{name: "a panic", log: "panic: test timed out after 45m0s\n" + one},
		{name: "a failed build", log: one + "FAIL\tm/two [build failed]\n"},
		{name: "a package without a failed test", log: one + "FAIL\tm/two\t1s\n"},
		{name: "many tests", log: strings.Repeat(one, 9)},
		{name: "no failed test", log: "ok  \tm/one\t1s\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log, calls := filepath.Join(dir, "log"), filepath.Join(dir, "calls")
			command := filepath.Join(dir, "command")
			script := "#!/bin/sh\necho \"$4 $3\" >>" + calls + "\n" + c.command + "\n"
			if err := os.WriteFile(log, []byte(c.log), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("deploy/retest", log, command).CombinedOutput()
			if (err == nil) != c.passes {
				t.Errorf("%v:\n%s", err, out)
			}
			ran, _ := os.ReadFile(calls)
			if want := strings.Join(c.again, "\n"); strings.TrimSpace(string(ran)) != want {
				t.Errorf("ran again:\n%s\nwant:\n%s", ran, want)
			}
			if c.passes && !strings.Contains(string(out), "each is a defect to correct") {
				t.Errorf("the failed tests are not named:\n%s", out)
			}
		})
	}
}
