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

// measurePage prints how long a key's echo takes in the web application, in headless Chromium: from
// the key to the frame that is drawn after the page has parsed the echo, in an idle terminal and in
// one with a flood of output.
func measurePage(ctx context.Context, keys int) error {
	s, err := e2e.Start(ctx, "pool: {size: 1, memory: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	cmd := exec.CommandContext(ctx, "node", "page.mjs", strconv.Itoa(keys))
	cmd.Dir = "bench"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("page.mjs: %w", err)
	}
	var found struct{ Quiet, Flood []float64 }
	if err := json.Unmarshal(out, &found); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		all  []float64
	}{{"echo of a key in the page", found.Quiet}, {
		"echo of a key in the page, it floods",
		found.Flood,
	}} {
		fmt.Printf("%-40s %6.2f %6.2f %6.2f ms: median, 99th percentile, most\n", f.name,
			quantile(f.all, 0.5), quantile(f.all, 0.99), quantile(f.all, 1))
	}
	return nil
}
