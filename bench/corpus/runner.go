package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/sandgate/sandgate/client/wire"
)

// sessionPrograms is after how many programs a session is replaced.
const sessionPrograms = 100

// runner runs the programs of a corpus, one after the other.
type runner struct {
	client  *wire.Client
	source  corpus
	known   []reason
	details *json.Encoder
	began   time.Time

	box    *box
	used   int
	report report
}

// references runs programs without a kernel, if the corpus compares with such runs.
func (r *runner) references(ctx context.Context, programs []*program) error {
	if r.source.references == nil {
		return nil
	}
	for part := range slices.Chunk(programs, sessionPrograms) {
		b, err := open(ctx, r.client, r.source.language)
		if err != nil {
			return err
		}
		err = errors.Join(r.source.references(ctx, b, part), b.close(ctx))
		if err != nil {
			return err
		}
	}
	return nil
}

// program runs a program in the kernel of the programs before it. If a cell fails, the program
// runs again in a new kernel. A cell that fails there too is run without a kernel.
func (r *runner) program(ctx context.Context, p *program) error {
	if err := r.renew(ctx); err != nil {
		return err
	}
	if r.source.prepare != nil {
		if err := r.source.prepare(ctx, r.box, p); err != nil {
			return err
		}
	}
	if p.fresh {
		if err := r.restart(ctx); err != nil {
			return err
		}
	}
	failed, err := r.attempt(ctx, p)
	if err != nil || len(failed) > 0 && !p.fresh {
		if err := r.restart(ctx); err != nil {
			return err
		}
		first := failed
		if failed, err = r.attempt(ctx, p); err != nil {
			return err
		}
		for c, why := range first {
			if _, again := failed[c]; !again {
				r.report.fresh++
				r.detail(p, c, "passes in a new kernel only", why)
			}
		}
	}
	for _, c := range p.cells {
		why := failed[c]
		switch {
		case c.skip != "":
			r.report.skip(c.skip)
			continue
		case why == "":
			r.report.passed++
			continue
		}
		skip, err := r.skips(ctx, p, c)
		if err != nil {
			return err
		}
		if skip != "" {
			r.report.skip(skip)
			r.detail(p, c, skip, why)
			continue
		}
		name := nameOf(r.known, p.name+"/"+c.name+"\n"+c.code, why)
		r.report.fail(name)
		r.detail(p, c, name, why)
	}
	return nil
}

// skips returns the reason why a cell that failed does not apply, or nothing.
func (r *runner) skips(ctx context.Context, p *program, c *cell) (string, error) {
	if r.source.applies == nil {
		return "", nil
	}
	return r.source.applies(ctx, r.box, p, c)
}

// renew makes sure that there is a session, which is not too old.
func (r *runner) renew(ctx context.Context) error {
	if r.box != nil && r.used < sessionPrograms {
		r.used++
		return nil
	}
	if r.box != nil {
		if err := r.box.close(ctx); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", time.Since(r.began).Round(time.Second), r.report.sum())
	}
	var err error
	r.box, err = open(ctx, r.client, r.source.language)
	r.used = 1
	return err
}

// restart replaces the kernel, or the session if that fails.
func (r *runner) restart(ctx context.Context) error {
	if r.box == nil {
		return r.renew(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	if err := r.box.kernel.Restart(limited); err == nil {
		return nil
	}
	_ = r.box.close(ctx)
	r.box = nil
	return r.renew(ctx)
}

// attempt runs all cells, and returns why cells failed.
func (r *runner) attempt(ctx context.Context, p *program) (map[*cell]string, error) {
	failed := map[*cell]string{}
	setup := "" // why a cell of the setup failed
	for _, code := range p.setup {
		o, err := r.box.cell(ctx, code, &cell{})
		if err != nil && !errors.Is(err, errSlow) {
			return failed, err
		}
		if o.failed {
			setup = " (setup: " + o.name + ": " + o.value + ")"
		}
	}
	for _, c := range p.cells {
		if c.skip != "" && c.code == "" {
			continue
		}
		o, err := r.box.cell(ctx, c.code, c)
		switch {
		case errors.Is(err, errSlow):
			failed[c] = err.Error()
		case err != nil:
			failed[c] = "the session: " + err.Error()
			if err := r.restart(ctx); err != nil {
				return failed, err
			}
		default:
			if c.skip != "" {
				break // it runs for the cells after it
			}
			if why := r.check(ctx, c, o); why != "" {
				failed[c] = why + setup
			}
		}
	}
	return failed, nil
}

// check returns why the outcome of a cell is wrong, also together with that of the cell after it.
func (r *runner) check(ctx context.Context, c *cell, o outcome) string {
	why := c.check(o)
	if why == "" || c.after == "" {
		return why
	}
	if more, err := r.box.cell(ctx, c.after, &cell{}); err == nil && c.check(o.and(more)) == "" {
		return ""
	}
	return why
}

// detail writes a line of details.
func (r *runner) detail(p *program, c *cell, name, why string) {
	if r.details != nil {
		_ = r.details.Encode(map[string]string{
			"program": p.name, "cell": c.name, "reason": name, "why": why, "code": c.code,
		})
	}
}
