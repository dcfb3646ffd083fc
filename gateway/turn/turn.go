// Package turn lets requests that use one session take turns. The lock is a process of the session,
// so it holds for all gateways, and nothing is lost with a gateway.
package turn

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// file is locked by the request whose turn it is, and taken is the exit status of the command that
// did not get the lock in time.
const (
	file  = "/tmp/.sandgate-turn"
	taken = 99
)

// The gateway sends a byte in each period renewal. The process with the lock ends when it has got
// none for the time expiry, in seconds.
const (
	renewal = 2 * time.Second
	expiry  = 6
)

// hold returns the commands of the process: it reports the lock, and keeps it while bytes come.
func hold(seconds int) string {
	return `echo; while [ "$(timeout ` + strconv.Itoa(seconds) + ` head -c 1)" ]; do :; done`
}

// endGrace is how long the end of a lock may take.
const endGrace = 20 * time.Second

// Node is the part of a node that turns need.
type Node interface {
	// Open opens a link that acts for who. The caller closes it.
	Open(ctx context.Context, who noderpc.Principal) (nodecall.Link, error)
	// Call performs one operation for who.
	Call(ctx context.Context, who noderpc.Principal, op string, params, result any) error
}

// Turns are the turns of requests. Every field is required.
type Turns struct {
	Node Node
	Log  *slog.Logger
	// Call is how long a request to the node may take.
	Call time.Duration
}

// TakeTurn waits until no other request uses a session, at most for the time wait. The turn ends with
// release, or seconds after the gateway was killed. A template without the command flock has no
// turns. Errors: Conflict if others take too long.
func (t Turns) TakeTurn(ctx context.Context, who noderpc.Principal, session string,
	wait time.Duration,
) (release func(), err error) {
	none := func() {}
	p, err := t.start(ctx, who, session, wait)
	if fault.PublicOf(err).Field == "argv" {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	defer context.AfterFunc(ctx, p.Close)()
	end := func() {
		t.endTurn(who, session, p.Channel())
		p.Close()
	}
	for {
		batch, err := p.Next()
		if err != nil {
			end()
			if ctx.Err() != nil {
				err = fault.Wrap(fault.Canceled, "turn.take", ctx.Err())
			}
			return none, err
		}
		for _, o := range batch {
			switch {
			case len(o.Stdout) > 0:
				renewing, stop := context.WithCancel(context.Background())
				go renew(renewing, p)
				return func() { stop(); end() }, nil
			case o.Exit != nil && o.Exit.Code == taken:
				return none, &fault.Error{
					Kind: fault.Conflict, Op: "turn.take", Field: "session",
					Message: "other requests use the session",
				}
			case o.Exit != nil:
				return none, nil
			}
		}
	}
}

// renew lets a process keep the lock until ctx or the link ends.
func renew(ctx context.Context, p *processclient.Client) {
	tick := time.NewTicker(renewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.Write([]byte("+"), false) != nil {
				return // the session or the link has ended, and the lock with it
			}
		}
	}
}

// start starts the process that waits for the lock, reports it and keeps it.
func (t Turns) start(ctx context.Context, who noderpc.Principal, session string,
	wait time.Duration,
) (*processclient.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, t.Call)
	defer cancel()
	link, err := t.Node.Open(ctx, who)
	if err != nil {
		return nil, err
	}
	return processclient.Open(ctx, link, protocol.ChannelOpen{
		Session: session, Kind: "process", Stdin: true, Argv: []string{
			"flock", "-o", "-w", strconv.Itoa(int(wait/time.Second) + 1), "-E",
			strconv.Itoa(taken), file, "sh", "-c", hold(expiry),
		},
	}, protocol.Attach{Writer: "renewal"})
}

// endTurn ends the process with the lock.
func (t Turns) endTurn(who noderpc.Principal, session, channel string) {
	ctx, cancel := context.WithTimeout(context.Background(), endGrace)
	defer cancel()
	err := t.Node.Call(ctx, who, protocol.OpChannelClose,
		protocol.ChannelRef{Session: session, Channel: channel}, nil)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.SandboxLost) {
		t.Log.Warn("the turn of a session could not be ended", "session", session, "error", err)
	}
}
