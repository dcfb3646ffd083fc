package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gofiber/fiber/v2"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/gateway/run"
)

const (
	// recheck is how long after a check that failed the next one may be.
	recheck = 15 * time.Second
	// checkLimit bounds a self-check.
	checkLimit = 45 * time.Second
)

// selfCheck remembers how the last cell went that the gateway has run for
// itself. It is begun by a question, at most once in Times.SelfCheck, so that
// a stranger's questions do not become load, and nothing runs where nobody
// asks.
type selfCheck struct {
	mu   sync.Mutex // guards all below
	busy bool
	at   time.Time // of the last end; zero before the first
	took time.Duration
	full bool // there was no place for a session, as may be
	err  error
}

// live says that the process answers. Whether it can do its work is ready's.
func (g *Gateway) live(q *request) error {
	return q.json(fiber.StatusOK, map[string]string{"status": "live"})
}

type readiness struct {
	Status string `json:"status"`
	// Check is ok, full when all capacity was in use, or off.
	Check string `json:"check"`
	// AgeSeconds is how long ago that was, MS how long the cell took.
	AgeSeconds int     `json:"age_seconds"`
	MS         float64 `json:"ms,omitempty"`
}

// ready says whether clients should be sent here: the node answers and has
// told of its keys, and a cell has really been run.
func (g *Gateway) ready(q *request) error {
	if err := g.info.alive(g.base); err != nil {
		return err
	}
	if _, err := g.auth.Keys.Index(); err != nil {
		return err
	}
	if g.cfg.Times.SelfCheck < 0 {
		return q.json(fiber.StatusOK, readiness{Status: "ready", Check: "off"})
	}
	c := &g.check
	c.mu.Lock()
	life := g.cfg.Times.SelfCheck
	if c.err != nil {
		life = min(life, recheck)
	}
	if !c.busy && (c.at.IsZero() || time.Since(c.at) > life) && g.begin() {
		c.busy = true
		go g.runCheck()
	}
	at, took, full, err := c.at, c.took, c.full, c.err
	c.mu.Unlock()
	switch {
	case at.IsZero():
		return &fault.Error{Kind: fault.Unavailable, Op: "gateway.ready", Message: "the first self-check has not ended yet", RetryAfter: 1}
	case err != nil:
		return &fault.Error{Kind: fault.Unavailable, Op: "gateway.ready", Message: "the last self-check failed", RetryAfter: 5, Err: err}
	}
	r := readiness{Status: "ready", Check: "ok", AgeSeconds: int(time.Since(at).Seconds()), MS: float64(took.Microseconds()) / 1000}
	if full {
		r.Check, r.MS = "full", 0
	}
	return q.json(fiber.StatusOK, r)
}

// runCheck runs one cell and remembers how that went.
func (g *Gateway) runCheck() {
	defer g.wg.Done()
	ctx, cancel := context.WithTimeout(g.base, checkLimit)
	defer cancel()
	began := time.Now()
	err := g.checkCell(ctx)
	c := &g.check
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.at, c.took, c.full = false, time.Now(), time.Since(began), fault.Is(err, fault.Exhausted)
	if c.full {
		err = nil // what runs is proof enough
	}
	if err != nil {
		g.log.Error("the self-check failed", "error", err)
		g.stats.checks.WithLabelValues("failed").Inc()
	} else {
		g.stats.checks.WithLabelValues("ok").Inc()
	}
	c.err = err
}

// checkCell runs a cell in a session of its own and looks at what it prints.
func (g *Gateway) checkCell(ctx context.Context) error {
	const op = "gateway.check"
	languages, err := g.info.languages(ctx)
	if err != nil {
		return err
	}
	p := run.Request{Code: "1", TimeoutMS: 20_000, MaxOutputBytes: 4 << 10}
	want := ""
	for _, l := range languages {
		if l.Name == "python" {
			p.Language, p.Code, want = "python", "print(6 * 7)", "42"
		}
	}
	r, err := g.runs.Start(ctx, run.Spec{Who: gatewayItself(), Request: p})
	if err != nil {
		return err
	}
	var followed sync.WaitGroup
	defer followed.Wait()
	defer r.Stop()
	followed.Go(r.Follow)
	out, err := r.Collect(ctx)
	if err == nil && (out.Status != "ok" || want != "" && strings.TrimSpace(out.Stdout) != want) {
		err = fault.New(fault.Internal, op, "%s ended with status %q and printed %q", p.Code, out.Status, out.Stdout)
	}
	return err
}
