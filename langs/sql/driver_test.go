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
	if out, err := exec.CommandContext(t.Context(), python, "-B",
		"tests/test_requests.py").CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
