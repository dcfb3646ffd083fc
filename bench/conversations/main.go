// Conversations prints how late lines of output reach the clients of many sessions that print at the
// same time through one gateway, beside one session alone. It needs root, `make build`, an idle
// machine, and 60 MiB of memory for each session.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	// conversationLines is how many lines a program of a conversation prints, one each second.
	conversationLines = 15
	// ticker waits a part of a second, so that the programs do not print at the same moment, and then
	// prints lines that are the time. It starts no program, so that the processors measure little but
	// the way of the output.
	ticker = `rm -f /tmp/never; mkfifo /tmp/never; exec 3<>/tmp/never; read -rt %.3f -u 3
for ((i = 0; i < %d; i++)); do echo "$EPOCHREALTIME"; read -rt 1 -u 3; done`
	// flood prints more than the buffers of connections hold, so its gateway waits for its client.
	flood    = "yes | head -c 20000000; touch /tmp/printed; sleep 100"
	maxFlood = 64 << 20
	printed  = "until test -e /tmp/printed; do sleep 0.2; done"
)

func main() {
	sessions := flag.Int("sessions", 100, "sessions that print at the same time")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	if err := run(ctx, *sessions); err != nil {
		fmt.Fprintln(os.Stderr, "conversations:", err)
		os.Exit(1)
	}
}

// run measures one session alone, n sessions, and half of them while the clients of the other half
// do not read what their programs have printed.
func run(ctx context.Context, n int) error {
	s, err := e2e.Start(ctx, "pool: {size: 1, memory: 0, languages: [bash]}\n"+
		fmt.Sprintf("sessions: {max: %d, idle_pause: 0s, memory: 1TiB}", n+2))
	if err != nil {
		return err
	}
	defer s.Stop()
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	if err != nil {
		return err
	}
	ids := make([]string, n)
	for i := range ids {
		made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "bash"})
		if err != nil {
			return fmt.Errorf("session %d of %d: %w", i+1, n, err)
		}
		ids[i] = made.ID
	}
	for _, m := range []struct {
		name           string
		floods, prints []string
	}{
		{"one session", nil, ids[:1]},
		{fmt.Sprintf("%d sessions", n), nil, ids},
		{"half of them, the others' clients stuck", ids[:n/2], ids[n/2:]},
	} {
		lags, err := lagsOf(ctx, s, m.floods, m.prints)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		slices.Sort(lags)
		quantile := func(q float64) float64 {
			return lags[min(len(lags)-1, int(math.Floor(q*float64(len(lags)))))]
		}
		fmt.Printf("%-44s %7.2f %7.2f %7.2f ms: median, 99th percentile, most\n", m.name,
			quantile(0.5), quantile(0.99), quantile(1))
	}
	return nil
}

// line is one line of a program: when it was printed, and how late it arrived, in milliseconds.
type line struct {
	printed time.Time
	late    float64
}

// lagsOf runs programs in sessions, and returns how late the lines of those that print arrive. It
// leaves out the lines that were printed before the last program had begun.
func lagsOf(ctx context.Context, s *e2e.Server, floods, prints []string) ([]float64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, id := range floods {
		res, err := execStream(ctx, s, id, flood)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close() // nobody reads it
	}
	for _, id := range floods {
		var out struct{ Status string }
		if _, err := s.JSON(ctx, http.MethodPost, "/v1/sessions/"+id+"/exec",
			map[string]any{"cmd": printed, "files": false}, &out); err != nil {
			return nil, err
		}
		if out.Status != "ok" {
			return nil, fault.New(fault.Internal, "bench.flood", "it ended with %s", out.Status)
		}
	}
	var (
		mu    sync.Mutex // guards lines, begun and first
		lines []line
		begun time.Time // when the last program printed its first line
		first error
		all   sync.WaitGroup
	)
	for i, id := range prints {
		all.Go(func() {
			part, err := linesOfOne(ctx, s, id, float64(i+1)/float64(len(prints)))
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, part...)
			if len(part) > 0 && part[0].printed.After(begun) {
				begun = part[0].printed
			}
			if first == nil {
				first = err
			}
		})
	}
	all.Wait()
	var lags []float64
	for _, l := range lines {
		if !l.printed.Before(begun) {
			lags = append(lags, l.late)
		}
	}
	return lags, first
}

// execStream starts a command whose output comes as it is printed.
func execStream(ctx context.Context, s *e2e.Server, id, command string) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{
		"cmd": command, "files": false, "timeout_ms": 120_000, "max_output_bytes": maxFlood,
	})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		s.URL+"/v1/sessions/"+id+"/exec", strings.NewReader(string(body)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+s.Token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/x-ndjson")
	res, err := http.DefaultClient.Do(req)
	if err == nil && res.StatusCode != http.StatusOK {
		res.Body.Close()
		err = fault.New(fault.Internal, "bench.exec", "the status is %d", res.StatusCode)
	}
	return res, err
}

// linesOfOne runs the program that prints after a wait in seconds, and returns its lines. The clocks
// of the machine and of its sandboxes are the same.
func linesOfOne(ctx context.Context, s *e2e.Server, id string, wait float64,
) (lines []line, err error) {
	res, err := execStream(ctx, s, id, fmt.Sprintf(ticker, wait, conversationLines))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	events := bufio.NewScanner(res.Body)
	for events.Scan() {
		now := time.Now()
		var e protocol.ExecEvent
		if err := json.Unmarshal(events.Bytes(), &e); err != nil {
			return nil, err
		}
		for text := range strings.Lines(e.Text) {
			at, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				return nil, err
			}
			printed := time.UnixMicro(int64(at * 1e6))
			lines = append(lines, line{printed, float64(now.Sub(printed).Microseconds()) / 1000})
		}
	}
	if err := events.Err(); err != nil {
		return nil, err
	}
	if len(lines) != conversationLines {
		return nil, fault.New(fault.Internal, "bench.conversation", "%d lines of %d arrived",
			len(lines), conversationLines)
	}
	return lines, nil
}
