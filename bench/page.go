package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/sandgate/sandgate/e2e"
)

// measurePage prints how quick the web application is in headless Chromium. A key's echo is measured
// from the key to the frame that is drawn after the page has parsed the echo, in an idle terminal and
// in one with a flood of output. A notebook is measured when it is opened and during a flood.
func measurePage(ctx context.Context, keys int) error {
	s, err := e2e.Start(ctx, "pool: {size: 1, memory: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	var echo struct{ Quiet, Flood []float64 }
	if err := inPage(ctx, s, &echo, "page.mjs", strconv.Itoa(keys)); err != nil {
		return err
	}
	var notebook struct{ Paint, Task []float64 }
	if err := inPage(ctx, s, &notebook, "notebook.mjs"); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		all  []float64
	}{
		{"echo of a key in the page", echo.Quiet},
		{"echo of a key in the page, it floods", echo.Flood},
		{"first paint of a notebook", notebook.Paint},
		{"longest task while 100,000 lines come", notebook.Task},
	} {
		fmt.Printf("%-40s %6.2f %6.2f %6.2f ms: median, 99th percentile, most\n", f.name,
			quantile(f.all, 0.5), quantile(f.all, 0.99), quantile(f.all, 1))
	}
	return nil
}

// inPage runs a program of this folder that drives Chromium, and reads what it measured.
func inPage(ctx context.Context, s *e2e.Server, found any, program ...string) error {
	cmd := exec.CommandContext(ctx, "node", program...)
	cmd.Dir = "bench"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", program[0], err)
	}
	return json.Unmarshal(out, found)
}
