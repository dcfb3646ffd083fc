package main

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/e2e"
)

// measureE2B prints figures of E2B's JavaScript SDK beside those of Sandgate's TypeScript client,
// which the same program takes by turns: creating a sandbox from a full pool, a command, a cell, and
// large output. A third column is the time of the SDK alone, with a responder that does nothing. At
// the end 20 clients create and kill 200 sandboxes.
func measureE2B(ctx context.Context, rounds, calls, megabytes int) error {
	s, err := e2e.Start(ctx, "pool: {size: 4, memory: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	idle := httptest.NewServer(http.HandlerFunc(answerAtOnce))
	defer idle.Close()
	cmd := exec.CommandContext(ctx, "node", "e2b.mjs", strconv.Itoa(rounds), strconv.Itoa(calls),
		strconv.Itoa(megabytes))
	cmd.Dir = "bench"
	cmd.Env = append(os.Environ(), "SANDGATE_URL="+s.URL, "SANDGATE_TOKEN="+s.Token,
		"E2B_API_URL="+s.URL, "E2B_SANDBOX_URL="+s.URL,
		"E2B_API_KEY=e2b_"+hex.EncodeToString([]byte(s.Token)), "RESPONDER_URL="+idle.URL)
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
	fmt.Printf("%-34s %14s %14s %14s %5s\n", "median", "E2B's SDK", "native", "SDK alone", "n")
	for _, f := range figures {
		line := fmt.Sprintf("%-34s", f.Name)
		for _, values := range [][]float64{f.E2B, f.Native, f.Alone} {
			if len(values) == 0 {
				line += fmt.Sprintf(" %14s", "")
				continue
			}
			line += fmt.Sprintf(" %9.2f %-4s", median(values), f.Unit)
		}
		fmt.Printf("%s %5d\n", line, len(f.E2B))
	}
	return nil
}

// sdkFigure is a measurement of e2b.mjs: the times of E2B's SDK, those of Sandgate's own client, and
// those of the SDK with a responder that does nothing.
type sdkFigure struct {
	Name, Unit         string
	E2B, Native, Alone []float64
}

// answerAtOnce answers as a sandbox whose code ends when it begins. The first event of a command is
// sent some time before the last one.
func answerAtOnce(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/process.Process/Start":
		w.Header().Set("Content-Type", "application/connect+json")
		envelope(w, 0, `{"event":{"start":{"pid":1}}}`)
		_ = http.NewResponseController(w).Flush() // the next write fails as well
		time.Sleep(commandTakes)
		envelope(w, 0, `{"event":{"end":{"exited":true,"status":"exit status 0"}}}`)
		envelope(w, 2, `{}`)
	case "/execute":
		w.Header().Set("Content-Type", "application/x-ndjson")
		fmt.Fprintln(w, `{"type":"number_of_executions","execution_count":1}`)
		fmt.Fprintln(w, `{"type":"result","is_main_result":true,"text":"1"}`)
		fmt.Fprintln(w, `{"type":"end_of_execution"}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintln(w, `{"sandboxID":"i","templateID":"t","clientID":"c","envdVersion":"0.5.7",`+
			`"envdAccessToken":"a"}`)
	}
}

// commandTakes is the time between the two events. e2b.mjs subtracts it.
const commandTakes = 20 * time.Millisecond

// envelope writes a message of a stream of Connect.
func envelope(w io.Writer, flags byte, text string) {
	head := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(text)))
	_, _ = w.Write(append(head, text...)) // the client notices the failure
}

// promised returns the names of the figures that SPECIFICATION.md refers to.
func promised() []string {
	return []string{
		"Sandbox.create()", "commands.run of true", "runCode of 1",
		"50 MB of output of a command", "200 sandboxes of 20 clients",
	}
}
