package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"

	"github.com/sandgate/sandgate/e2e"
)

// measureE2B prints figures of E2B's JavaScript SDK beside those of Sandgate's TypeScript client,
// which the same program takes by turns: creating a sandbox from a full pool, a command, a cell, and
// large output. At the end 20 clients create and kill 200 sandboxes.
func measureE2B(ctx context.Context, rounds, calls, megabytes int) error {
	s, err := e2e.Start(ctx, "pool: {size: 4, memory: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	cmd := exec.CommandContext(ctx, "node", "e2b.mjs", strconv.Itoa(rounds), strconv.Itoa(calls),
		strconv.Itoa(megabytes))
	cmd.Dir = "bench"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token,
		"E2B_API_URL="+s.URL, "E2B_SANDBOX_URL="+s.URL,
		"E2B_API_KEY=e2b_"+hex.EncodeToString([]byte(s.Token)))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("e2b.mjs: %w", err)
	}
	var figures []sdkFigure
	if err := json.Unmarshal(out, &figures); err != nil {
		return err
	}
	for _, name := range promised() {
		if !slices.ContainsFunc(figures, func(f sdkFigure) bool { return f.Name == name }) {
			return fmt.Errorf("e2b.mjs: no figure %q", name)
		}
	}
	fmt.Printf("%-34s %14s %14s %5s\n", "median", "E2B's SDK", "native", "n")
	for _, f := range figures {
		line := fmt.Sprintf("%-34s %9.2f %-4s", f.Name, median(f.E2B), f.Unit)
		if len(f.Native) > 0 {
			line += fmt.Sprintf(" %9.2f %-4s", median(f.Native), f.Unit)
		} else {
			line += fmt.Sprintf(" %14s", "")
		}
		fmt.Printf("%s %5d\n", line, len(f.E2B))
	}
	return nil
}

// sdkFigure is a measurement of e2b.mjs: the times of E2B's SDK, and those of Sandgate's own client.
type sdkFigure struct {
	Name, Unit  string
	E2B, Native []float64
}

// promised returns the names of the figures that SPECIFICATION.md refers to.
func promised() []string {
	return []string{
		"Sandbox.create()", "commands.run of true", "runCode of 1",
		"50 MB of output of a command", "200 sandboxes of 20 clients",
	}
}
