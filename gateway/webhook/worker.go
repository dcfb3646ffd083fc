// Package webhook sends the deliveries of webhooks. A worker takes deliveries from the node, each
// under a lease, sends them, and reports their outcomes.
//
// It connects only to public addresses and to the networks that the operator lists. It follows no
// redirect, uses no proxy, and reads at most 4 KiB of a response. An attempt takes at most 10 s. Up
// to 128 attempts run at once, and the node gives out at most 8 of one webhook.
package webhook

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/internal/egress"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	maxAttempts  = 128
	attemptLimit = 10 * time.Second
	maxResponse  = 4 << 10
	// takeWait is how long a request for deliveries waits, in seconds.
	takeWait  = 20
	callLimit = 40 * time.Second
	// retryAfter is the pause after a request that the node did not answer.
	retryAfter = time.Second
	// reportTries is how often the outcomes are reported.
	reportTries = 5
	maxReport   = 64
)

// Node is the part of a node that the worker needs.
type Node interface {
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Config configures a Worker. Node, Who and Log are required.
type Config struct {
	Node Node
	Who  noderpc.Principal
	Log  *slog.Logger
	// Version is in the header User-Agent.
	Version string
	// Allow are networks that are not public and that webhooks may reach.
	Allow []netip.Prefix
}

// Worker sends deliveries.
type Worker struct {
	cfg      Config
	client   *http.Client
	slots    chan struct{} // one token for each attempt under way
	outcomes chan protocol.WebhookOutcome
}

// New returns a Worker.
func New(cfg Config) *Worker {
	w := &Worker{
		cfg: cfg, slots: make(chan struct{}, maxAttempts),
		outcomes: make(chan protocol.WebhookOutcome, maxAttempts),
	}
	w.client = &http.Client{
		Timeout: attemptLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
		Transport: &http.Transport{
			Proxy: nil, DialContext: w.dial, ForceAttemptHTTP2: true,
			MaxIdleConns: maxAttempts, MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: attemptLimit, ResponseHeaderTimeout: attemptLimit,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
	return w
}

// dial connects to a public address, or to one that the operator allows.
func (w *Worker) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		return nil, err
	}
	all := []string{"*:" + portText}
	gate, err := egress.New(egress.Config{
		Allow: all, Private: w.cfg.Allow, Timeout: attemptLimit,
	})
	if err != nil {
		return nil, err
	}
	c, _, err := gate.Dial(ctx, egress.Rules{Allow: gate.Allowed()},
		egress.Target{Host: host, Port: port})
	return c, err
}

// Run sends deliveries until ctx ends. It then waits for the attempts under way.
func (w *Worker) Run(ctx context.Context) {
	var reports sync.WaitGroup
	reports.Go(w.report)
	var attempts sync.WaitGroup
	for ctx.Err() == nil {
		free := w.wait(ctx)
		if free == 0 {
			break
		}
		jobs, err := w.take(ctx, free)
		for range free - len(jobs) {
			<-w.slots
		}
		if err != nil && ctx.Err() == nil {
			w.cfg.Log.Debug("deliveries of webhooks cannot be taken", "error", err)
			pause(ctx, retryAfter)
		}
		for _, job := range jobs {
			attempts.Go(func() {
				defer func() { <-w.slots }()
				w.outcomes <- w.attempt(job)
			})
		}
	}
	attempts.Wait()
	close(w.outcomes)
	reports.Wait()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// wait waits for a free slot, and takes all free slots. It returns their number.
func (w *Worker) wait(ctx context.Context) (free int) {
	select {
	case w.slots <- struct{}{}:
		free = 1
	case <-ctx.Done():
		return 0
	}
	for {
		select {
		case w.slots <- struct{}{}:
			free++
		default:
			return free
		}
	}
}

func (w *Worker) take(ctx context.Context, limit int) ([]protocol.WebhookJob, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var out protocol.WebhookJobs
	err := w.cfg.Node.Call(ctx, w.cfg.Who, protocol.OpWebhookTake,
		protocol.WebhookTake{Limit: limit, WaitSeconds: takeWait}, &out)
	return out.Jobs[:min(len(out.Jobs), limit)], err
}

// attempt sends a delivery. It continues when the gateway begins to stop.
func (w *Worker) attempt(job protocol.WebhookJob) protocol.WebhookOutcome {
	out := protocol.WebhookOutcome{
		Webhook: job.Webhook, Delivery: job.Delivery, Lease: job.Lease,
	}
	ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.URL,
		strings.NewReader(job.Body))
	if err != nil {
		out.Error = "the URL is not valid"
		return out
	}
	h := req.Header
	h.Set("Content-Type", "application/json")
	h.Set("User-Agent", "Sandgate/"+w.cfg.Version)
	names := [...]string{"Signature", "Event", "Webhook", "Delivery"}
	prefix := "Sandgate-"
	if job.Format == protocol.WebhookE2B {
		names, prefix = [...]string{"signature", "event-type", "webhook-id", "delivery-id"}, "e2b-"
		h.Set("e2b-signature-version", "v1")
	}
	for i, value := range []string{job.Signature, job.Type, job.Webhook, job.Delivery} {
		h.Set(prefix+names[i], value)
	}
	res, err := w.client.Do(req)
	if err != nil {
		out.Error = describe(err)
		return out
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxResponse)) // so that it can be reused
	_ = res.Body.Close()
	out.Status = res.StatusCode
	return out
}

// describe returns the reason for a request without a response, as the owner of the webhook sees it.
func describe(err error) string {
	switch fault.KindOf(err) {
	case fault.PermissionDenied:
		return "the host has no public address (webhooks.allow)"
	case fault.NotFound:
		return "there is no such host"
	case fault.DeadlineExceeded:
		return "no answer in time"
	}
	if late, ok := err.(net.Error); ok && late.Timeout() {
		return "no answer in time"
	}
	if strings.Contains(err.Error(), "tls:") || strings.Contains(err.Error(), "x509:") {
		return "the TLS certificate or handshake was refused"
	}
	return "the connection failed"
}

// report reports the outcomes of attempts, several at a time, until all attempts have ended.
func (w *Worker) report() {
	for first := range w.outcomes {
		batch := []protocol.WebhookOutcome{first}
	more:
		for len(batch) < maxReport {
			select {
			case next, ok := <-w.outcomes:
				if !ok {
					break more
				}
				batch = append(batch, next)
			default:
				break more
			}
		}
		var err error
		for range reportTries {
			ctx, cancel := context.WithTimeout(context.Background(), attemptLimit)
			err = w.cfg.Node.Call(ctx, w.cfg.Who, protocol.OpWebhookDone,
				protocol.WebhookOutcomes{Outcomes: batch}, nil)
			cancel()
			if err == nil || !fault.Is(err, fault.Unavailable) {
				break
			}
			pause(context.Background(), retryAfter)
		}
		if err != nil {
			w.cfg.Log.Warn("the outcomes of webhooks were not reported; their events are sent again",
				"deliveries", len(batch), "error", err)
		}
	}
}
