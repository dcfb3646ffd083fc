// Bench prints the figures of SPECIFICATION.md: Sandgate through its public WebSocket, and Debian's
// jupyter-server with ipykernel on the same machine. Both are measured by turns, so that the same
// noise affects both. The figures are medians.
//
// It needs root, `make build`, and Debian's packages jupyter-server and python3-ipykernel, which
// bench/run installs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/e2e"
)

// result is the run of one cell as a client saw it.
type result struct {
	first, done time.Duration
	bytes       int64
	gap         bool
}

// block is the number of cells that one side runs before the other side's turn.
const block = 20

// figure is one line of the report.
type figure struct {
	Name     string  `json:"name"`
	Unit     string  `json:"unit"`
	Sandgate float64 `json:"sandgate"`
	Jupyter  float64 `json:"jupyter,omitempty"`
	N        int     `json:"n"`
}

// better returns how many times better Sandgate is than Jupyter.
func (f figure) better() float64 {
	if strings.HasSuffix(f.Unit, "/s") {
		return f.Sandgate / f.Jupyter
	}
	return f.Jupyter / f.Sandgate
}

func main() {
	rounds := flag.Int("rounds", 7, "sessions and kernels created on each side")
	cells := flag.Int("cells", 200, "trivial cells run on each side")
	code := flag.String("code", "print(1)", "the trivial cell")
	megabytes := flag.Int("flood", 50, "size of the flood in MB")
	asJSON := flag.Bool("json", false, "print JSON")
	languages := flag.String("languages", "",
		"measure these languages instead, separated by commas; all for all")
	terminals := flag.Bool("terminals", false, "measure terminals and connections instead")
	keys := flag.Int("keys", 200, "keys typed for a figure of terminals")
	idle := flag.Int("idle", 10_000, "idle connections")
	page := flag.Bool("page", false,
		"measure the terminal of the web application, in Chromium, instead")
	rest := flag.Bool("rest", false, "measure sessions that rest, and neighbours, instead")
	calls := flag.Bool("calls", false, "measure single requests and events instead")
	life := flag.Bool("life", false, "measure hibernation, forks and snapshots instead")
	cycles := flag.Int("cycles", 100, "hibernations of one session, its hashes compared after each")
	sleepers := flag.Int("sleepers", 1000, "sessions that are asleep together")
	load := flag.Int("load", 0, "have this many sessions run cells through two gateways instead")
	sandboxes := flag.Int("sandboxes", 12, "sandboxes of each of the two nodes, with -load")
	recovery := flag.Bool("recovery", false, "measure how a cluster recovers instead")
	e2b := flag.Bool("e2b", false, "measure E2B's SDK beside the TypeScript client instead")
	api := flag.Bool("jupyter", false,
		"measure Jupyter's interface beside the native one and jupyter-server instead")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	var err error
	var figures []figure
	switch {
	case *languages != "":
		err = measureLanguages(ctx, *languages, *rounds, *cells)
	case *load > 0:
		err = measureLoad(ctx, *load, *sandboxes, *rounds)
	case *recovery:
		err = measureRecovery(ctx, *rounds)
	case *e2b:
		err = measureE2B(ctx, *rounds, *cells, *megabytes)
	case *api:
		err = measureJupyter(ctx, *rounds, *cells, *megabytes)
	case *calls:
		err = measureCalls(ctx, *cells)
	case *life:
		err = measureLife(ctx, *rounds, *cycles, *sleepers)
	case *terminals:
		err = errors.Join(measureTerminals(ctx, *keys, *idle), measureViewers(ctx, *keys))
	case *page:
		err = measurePage(ctx, *keys)
	case *rest:
		err = measureRest(ctx, *rounds, *keys)
	default:
		figures, err = measure(ctx, *rounds, *cells, *megabytes, *code)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	printFigures(figures, *asJSON)
}

// printFigures prints figures beside Jupyter's, or as JSON.
func printFigures(figures []figure, asJSON bool) {
	if len(figures) == 0 {
		return
	}
	if asJSON {
		json.NewEncoder(os.Stdout).Encode(figures)
		return
	}
	fmt.Printf("%-34s %14s %14s %8s %5s\n", "median", "sandgate", "jupyter", "better", "n")
	for _, f := range figures {
		line := fmt.Sprintf("%-34s %9.2f %-4s", f.Name, f.Sandgate, f.Unit)
		if f.Jupyter != 0 {
			line += fmt.Sprintf(" %9.2f %-4s %7.1fx", f.Jupyter, f.Unit, f.better())
		} else {
			line += strings.Repeat(" ", 24)
		}
		fmt.Printf("%s %5d\n", line, f.N)
	}
}

// comparison measures Sandgate and Jupyter in one run.
type comparison struct {
	server  *e2e.Server
	jupyter *jupyter
	figures []figure
}

// add adds the medians of both sides. A nil slice means that the side has no such figure.
func (c *comparison) add(name, unit string, sandgate, jupyter []float64) {
	c.figures = append(c.figures, figure{
		name, unit, median(sandgate), median(jupyter),
		len(sandgate),
	})
}

func measure(ctx context.Context, rounds, cells, megabytes int, trivial string) ([]figure, error) {
	s, err := e2e.Start(ctx, "pool: {size: 2, memory: 0}")
	if err != nil {
		return nil, err
	}
	defer s.Stop()
	j, err := startJupyter(ctx)
	if err != nil {
		return nil, err
	}
	defer j.close()
	c := &comparison{server: s, jupyter: j}
	if err := c.firstOutput(ctx, rounds); err != nil {
		return nil, err
	}
	if err := c.runs(ctx, rounds); err != nil {
		return nil, err
	}

	// The following measurements use one session and one kernel.
	if err := s.Warm(ctx); err != nil {
		return nil, err
	}
	w, err := dial(ctx, s)
	if err != nil {
		return nil, err
	}
	if _, _, err := w.session(ctx, "python", "print(1)"); err != nil {
		return nil, err
	}
	k, err := j.kernel(ctx)
	if err != nil {
		return nil, err
	}
	defer k.close(ctx)
	if _, err := k.run(ctx, "print(1)"); err != nil {
		return nil, err
	}
	if err := c.cells(ctx, w, k, cells, trivial); err != nil {
		return nil, err
	}
	err = c.floods(ctx, w, k, megabytes)
	return c.figures, err
}

// firstOutput measures the time to the first output of a new session.
func (c *comparison) firstOutput(ctx context.Context, rounds int) error {
	s, j := c.server, c.jupyter
	var ours, theirs []float64
	for range rounds {
		start := time.Now()
		k, err := j.kernel(ctx)
		if err != nil {
			return err
		}
		if _, err := k.run(ctx, "print(1)"); err != nil {
			return err
		}
		theirs = append(theirs, ms(time.Since(start)))
		k.close(ctx)

		if err := s.Warm(ctx); err != nil {
			return err
		}
		w, err := dial(ctx, s)
		if err != nil {
			return err
		}
		id, r, err := w.session(ctx, "python", "print(1)")
		if err != nil {
			return err
		}
		ours = append(ours, ms(r.first))
		w.conn.CloseNow()
		if _, err := s.JSON(ctx, "DELETE", "/v1/sessions/"+id, nil, nil); err != nil {
			return err
		}
	}
	c.add("claim to first output", "ms", ours, theirs)
	return nil
}

// runs measures POST /v1/run.
func (c *comparison) runs(ctx context.Context, rounds int) error {
	s := c.server
	var ours []float64
	for range rounds {
		if err := s.Warm(ctx); err != nil {
			return err
		}
		start := time.Now()
		status, err := s.JSON(ctx, "POST", "/v1/run",
			map[string]any{"language": "python", "code": "print(1)"}, nil)
		if err != nil {
			return err
		}
		if status != http.StatusOK {
			return fmt.Errorf("a run ended with status %d", status)
		}
		ours = append(ours, ms(time.Since(start)))
	}
	c.add("a run of its own, POST /v1/run", "ms", ours, nil)
	return nil
}

// cells measures trivial cells in blocks, so that neither side wakes from idleness for each cell
// while the other has its turn. Then it measures once more with a pause before each cell, as when
// people type.
func (c *comparison) cells(ctx context.Context, w *socket, k *jupyterKernel, n int,
	trivial string,
) error {
	for _, b := range []struct {
		name  string
		pause time.Duration
		n     int
	}{{"print(1), one after the other", 0, n}, {
		"print(1), 50 ms apart", 50 * time.Millisecond,
		n / 4,
	}} {
		var ours, theirs []float64
		for done := 0; done < b.n; done += block {
			for i := range block {
				time.Sleep(b.pause)
				r, err := w.run(ctx, 1, fmt.Sprint(b.name, done+i), trivial)
				if err != nil {
					return err
				}
				ours = append(ours, ms(r.done))
			}
			for range block {
				time.Sleep(b.pause)
				r, err := k.run(ctx, "print(1)")
				if err != nil {
					return err
				}
				theirs = append(theirs, ms(r.done))
			}
		}
		c.add(b.name, "ms", ours, theirs)
	}
	return nil
}

// floods measures large output and the gateway's memory before and after it.
func (c *comparison) floods(ctx context.Context, w *socket, k *jupyterKernel, megabytes int) error {
	gateway, err := c.server.Child("gateway")
	if err != nil {
		return err
	}
	before, err := rss(gateway)
	if err != nil {
		return err
	}
	floods := []struct{ name, code string }{
		{"flood in lines", fmt.Sprintf("line = 'x' * 99\nfor _ in range(%d): print(line)",
			megabytes*10_000)},
		{"flood in one print", fmt.Sprintf("print('x' * %d)", megabytes*1_000_000)},
	}
	for _, flood := range floods {
		var ours, theirs []float64
		for i := range 3 {
			r, err := w.run(ctx, 1, fmt.Sprint(flood.name, i), flood.code)
			if err != nil {
				return err
			}
			if want := int64(megabytes) * 1_000_000; r.bytes < want && !r.gap {
				return fmt.Errorf("%s: %d bytes arrived of %d, and no gap was told", flood.name,
					r.bytes, want)
			}
			ours = append(ours, float64(r.bytes)/1e6/r.done.Seconds())
			if r, err = k.run(ctx, flood.code); err != nil {
				return err
			}
			theirs = append(theirs, float64(r.bytes)/1e6/r.done.Seconds())
		}
		c.add(flood.name, "MB/s", ours, theirs)
	}
	after, err := rss(gateway)
	if err != nil {
		return err
	}
	c.add("gateway memory before the floods", "MiB", []float64{before}, nil)
	c.add("gateway memory after the floods", "MiB", []float64{after}, nil)
	return nil
}

// rss returns the largest memory that a process has held, in MiB.
func rss(pid int) (float64, error) { return memoryOf(pid, "VmHWM:") }

// memoryOf returns one figure of a process's memory, in MiB.
func memoryOf(pid int, name string) (float64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			var kib float64
			_, err := fmt.Sscan(rest, &kib)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d says no %s", pid, name)
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}
