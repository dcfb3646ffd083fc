// Package machine waits for the end of the machine of a session, and describes it.
package machine

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
)

// wireGrace is how long a machine may take to end after the end of its agent's wire, and to report
// the reason.
const wireGrace = 20 * time.Second

// End describes the end of a machine.
type End struct {
	Reason  string // as in protocol.Session
	Message string // for users
	Detail  string // for the operator
}

// Await waits for the end of a machine. Agent is closed when the wire of the machine's agent
// has ended. It returns false when stop is closed or the life of the session ends first.
func Await(life context.Context, m sandbox.Machine,
	agent, stop <-chan struct{},
) (end End, ended bool) {
	select {
	case <-m.Done():
	case <-life.Done():
		return end, false
	case <-stop:
		return end, false
	case <-agent:
		timer := time.NewTimer(wireGrace)
		defer timer.Stop()
		select {
		case <-m.Done():
		case <-life.Done():
			return end, false
		case <-timer.C:
			return End{
				"crashed", "the agent in the sandbox does not answer any more",
				"the agent's wire has ended",
			}, true
		}
	}
	return endOf(m.Exit()), true
}

// endOf describes the exit of a sandbox.
func endOf(e sandbox.Exit) End {
	detail := e.String()
	switch e.Reason {
	case sandbox.Memory:
		return End{"memory", "it used more memory than it may", detail}
	case sandbox.Exited:
		return End{"exited", "its first process exited", detail}
	case sandbox.Crashed:
		return End{"crashed", "it crashed", detail}
	case sandbox.HostMemory:
		return End{"host", "the machine ran out of memory", detail}
	}
	return End{"killed", "it was killed", detail}
}
