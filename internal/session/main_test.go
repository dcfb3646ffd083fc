package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sandgate/sandgate/internal/agent/agenttest"
	"github.com/sandgate/sandgate/internal/testenv"
)

// built contains files that the tests need and do not create themselves.
var built struct {
	exe, runsc, image string
}

// TestMain also runs the agent and the language driver that the native tests start.
func TestMain(m *testing.M) {
	os.Exit(agenttest.Main(m, &built.exe, map[string]func() int{
		"agent": agentMain, "driver": func() int { driverMain(); return 0 },
	}, findBuilt))
}

// findBuilt finds the runtime and the image.
func findBuilt() error {
	find := func(variable, name string) (string, error) {
		file := os.Getenv(variable)
		if file == "" {
			file = testenv.Path("bin", name)
		}
		file, err := filepath.Abs(file)
		if err == nil {
			_, err = os.Stat(file)
		}
		return file, err
	}
	var noRunsc, noImage error
	built.runsc, noRunsc = find("SANDGATE_RUNSC", "runsc")
	built.image, noImage = find("SANDGATE_IMAGE", "image.erofs")
	if err := errors.Join(noRunsc, noImage); err != nil {
		return fmt.Errorf(
			"these tests run real sandboxes: run make build, or set SANDGATE_RUNSC and SANDGATE_IMAGE: %w", err)
	}
	return nil
}
