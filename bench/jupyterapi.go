package main

import (
	"context"
	"fmt"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/e2e"
)

// idleSockets is how many idle WebSockets of kernels are opened: fewer than one key may have.
const idleSockets = 250

// threeWays measures Jupyter's interface of Sandgate, its native one, and jupyter-server, by turns.
type threeWays struct {
	server  *e2e.Server
	jupyter jupyterAPI // Sandgate's
	other   *jupyter
}

// measureJupyter prints the figures of Jupyter's interface.
func measureJupyter(ctx context.Context, rounds, cells, megabytes int) error {
	s, err := e2e.Start(ctx, "pool: {size: 2, memory: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	other, err := startJupyter(ctx)
	if err != nil {
		return err
	}
	defer other.close()
	m := &threeWays{s, jupyterAPI{s.URL[len("http://"):] + "/jupyter", s.Token}, other}
	fmt.Printf("%-34s %14s %14s %14s %5s\n", "median", "by Jupyter", "native", "jupyter-server", "n")
	if err := m.starts(ctx, rounds); err != nil {
		return err
	}
	if err := s.Warm(ctx); err != nil {
		return err
	}
	if err := m.output(ctx, cells, megabytes); err != nil {
		return err
	}
	return m.idle(ctx)
}

// show prints one figure of the three sides. A nil slice means that a side has none.
func (m *threeWays) show(name, unit string, sides ...[]float64) {
	line := fmt.Sprintf("%-34s", name)
	for _, values := range sides {
		if values == nil {
			line += fmt.Sprintf(" %14s", "")
		} else {
			line += fmt.Sprintf(" %9.2f %-4s", median(values), unit)
		}
	}
	fmt.Printf("%s %5d\n", line, len(sides[0]))
}

// starts measures POST /api/kernels, with a full pool.
func (m *threeWays) starts(ctx context.Context, rounds int) error {
	sides := [2][]float64{}
	for range rounds {
		if err := m.server.Warm(ctx); err != nil {
			return err
		}
		for i, api := range []*jupyterAPI{&m.jupyter, &m.other.jupyterAPI} {
			began := time.Now()
			k, err := api.rest(ctx, "POST", "/api/kernels", map[string]string{"name": "python3"})
			if err != nil {
				return err
			}
			sides[i] = append(sides[i], ms(time.Since(began)))
			if _, err := api.rest(ctx, "DELETE", "/api/kernels/"+k["id"].(string), nil); err != nil {
				return err
			}
		}
	}
	m.show("POST /api/kernels", "ms", sides[0], nil, sides[1])
	return nil
}

// output measures cells and floods of one kernel on each side.
func (m *threeWays) output(ctx context.Context, cells, megabytes int) error {
	native, err := dial(ctx, m.server)
	if err != nil {
		return err
	}
	defer native.conn.CloseNow()
	if _, _, err := native.session(ctx, "python", "print(1)"); err != nil {
		return err
	}
	var kernels [2]*jupyterKernel
	for i, api := range []*jupyterAPI{&m.jupyter, &m.other.jupyterAPI} {
		if kernels[i], err = api.kernel(ctx); err != nil {
			return err
		}
		defer kernels[i].close(ctx)
	}
	turns := func(name string, n, of int, code string) ([3][]result, error) {
		var all [3][]result
		for done := 0; done < n; done += of {
			for side := range all {
				for i := range of {
					var r result
					var err error
					switch side {
					case 0:
						r, err = kernels[0].run(ctx, code)
					case 1:
						r, err = native.run(ctx, 1, fmt.Sprint(name, done+i), code)
					default:
						r, err = kernels[1].run(ctx, code)
					}
					if err != nil {
						return all, fmt.Errorf("%s of %s: %w", name,
							[...]string{"Jupyter's interface", "the native one", "jupyter-server"}[side], err)
					}
					all[side] = append(all[side], r)
				}
			}
		}
		return all, nil
	}
	if _, err := turns("first", 1, 1, "print(1)"); err != nil {
		return err
	}
	for _, f := range []struct {
		name, unit string
		n, of      int
		code       string
		value      func(result) float64
	}{
		{"print(1) by the interface", "ms", cells, block, "print(1)", func(r result) float64 {
			return ms(r.done)
		}},
		{
			"flood in lines by the interface", "MB/s", 3, 1, fmt.Sprintf(
				"line = 'x' * 99\nfor _ in range(%d): print(line)", megabytes*10_000),
			func(r result) float64 { return float64(r.bytes) / 1e6 / r.done.Seconds() },
		},
	} {
		all, err := turns(f.name, f.n, f.of, f.code)
		if err != nil {
			return err
		}
		var sides [3][]float64
		for i, results := range all {
			for _, r := range results {
				sides[i] = append(sides[i], f.value(r))
			}
		}
		m.show(f.name, f.unit, sides[:]...)
	}
	return nil
}

// idle measures the memory of idle WebSockets of one kernel.
func (m *threeWays) idle(ctx context.Context) error {
	k, err := m.jupyter.kernel(ctx)
	if err != nil {
		return err
	}
	defer k.close(ctx)
	memory := func() (all float64, err error) {
		for _, part := range []string{"gateway", "node"} {
			pid, err := m.server.Child(part)
			if err != nil {
				return 0, err
			}
			all += pss(pid) * 1024
		}
		return all, nil
	}
	before, err := memory()
	if err != nil {
		return err
	}
	for i := range idleSockets {
		conn, _, err := websocket.Dial(ctx, fmt.Sprintf(
			"ws://%s/api/kernels/%s/channels?session_id=idle%d&token=%s",
			m.jupyter.base, k.id, i, m.jupyter.token), nil)
		if err != nil {
			return err
		}
		defer conn.CloseNow()
	}
	after, err := memory()
	if err != nil {
		return err
	}
	m.show("an idle WebSocket of a kernel", "KiB", []float64{(after - before) / idleSockets})
	return nil
}
