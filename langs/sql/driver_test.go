// Package sql_test runs the tests of the SQL driver, which are written in Python.
package sql_test

import (
	"os/exec"
	"testing"
)

func TestDriver(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this machine has no python3")
	}
	for _, file := range []string{"tests/test_requests.py", "tests/test_kept.py"} {
		out, err := exec.CommandContext(t.Context(), python, "-B", file).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v:\n%s", file, err, out)
		}
	}
}
