package librechat

import (
	"context"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/processclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// turnFile is locked by the run whose turn it is in a session that stays, and turnTaken is the exit
// status of the command that did not get the lock in time.
const (
	turnFile  = "/tmp/.librechat-turn"
	turnTaken = 99
)

// takeTurn waits until no other run uses a session that stays. The lock is a process of the session,
// so it holds for all gateways, and ends after the longest time of a run if its gateway is killed. A
// template without the command flock has no turns. Errors: Conflict if other runs take too long.
func (s *Surface) takeTurn(ctx context.Context, u store.User, session string, q *request,
) (release func(), err error) {
	none := func() {}
	starting, cancel := context.WithTimeout(ctx, s.cfg.Call)
	defer cancel()
	link, err := s.cfg.Node.Open(starting, u.Who)
	if err != nil {
		return none, err
	}
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d/time.Second) + 1) }
	p, err := processclient.Start(starting, link, protocol.ChannelOpen{
		Session: session, Argv: []string{
			"flock", "-o", "-w", seconds(s.cfg.Timeout), "-E", strconv.Itoa(turnTaken), turnFile,
			"sh", "-c", "echo; exec sleep " + seconds(q.timeout+2*s.cfg.Call+endGrace),
		},
	}, nil)
	if fault.PublicOf(err).Field == "argv" {
		return none, nil
	}
	if err != nil {
		return none, err
	}
	defer context.AfterFunc(ctx, p.Close)()
	end := func() {
		s.endProgram(u, session, p.Channel())
		p.Close()
	}
	for {
		batch, err := p.Next()
		if err != nil {
			end()
			if ctx.Err() != nil {
				err = surface.ErrGone()
			}
			return none, err
		}
		for _, o := range batch {
			switch {
			case len(o.Stdout) > 0:
				return end, nil
			case o.Exit != nil && o.Exit.Code == turnTaken:
				return none, fault.New(fault.Conflict, "librechat.turn",
					"other runs of this conversation have not ended in time")
			case o.Exit != nil:
				return none, nil
			}
		}
	}
}
