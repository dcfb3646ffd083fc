package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
)

// wireGrace is how long a machine may take to end after the end of its agent's wire, and to report
// the reason.
const wireGrace = 2 * time.Second

// machineEnd describes the end of a machine.
type machineEnd struct {
	reason  string // as in protocol.Session
	message string // for users
	detail  string // for the operator
}

// awaitMachine waits for the end of a machine. Agent is closed when the wire of the machine's agent
// has ended. It returns false when stop is closed or the life of the session ends first.
func awaitMachine(life context.Context, machine sandbox.Machine,
	agent, stop <-chan struct{},
) (end machineEnd, ended bool) {
	select {
	case <-machine.Done():
	case <-life.Done():
		return end, false
	case <-stop:
		return end, false
	case <-agent:
		timer := time.NewTimer(wireGrace)
		defer timer.Stop()
		select {
		case <-machine.Done():
		case <-life.Done():
			return end, false
		case <-timer.C:
			return machineEnd{
				"crashed", "the agent in the sandbox does not answer any more",
				"the agent's wire has ended",
			}, true
		}
	}
	return endOf(machine.Exit()), true
}

// endOf describes the exit of a sandbox.
func endOf(e sandbox.Exit) machineEnd {
	detail := e.String()
	switch e.Reason {
	case sandbox.Memory:
		return machineEnd{"memory", "it used more memory than it may", detail}
	case sandbox.Exited:
		return machineEnd{"exited", "its first process exited", detail}
	case sandbox.Crashed:
		return machineEnd{"crashed", "it crashed", detail}
	case sandbox.HostMemory:
		return machineEnd{"host", "the machine ran out of memory", detail}
	}
	return machineEnd{"killed", "it was killed", detail}
}
