package session

import (
	"context"
	"strconv"
	"time"

	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/lockorder"
	"github.com/sandgate/sandgate/protocol/fault"
)

// State is where a session is in its life.
type State uint8

// The states of a session.
const (
	// running sessions have a sandbox that runs.
	running State = iota
	// paused sessions have a sandbox that is frozen in memory.
	paused
	// hibernated sessions are on disk and have no sandbox.
	hibernated
	// resuming sessions are hibernated ones whose sandbox is being restored.
	resuming
	// lost sessions have ended. They do not come back.
	lost

	numStates = iota
)

var stateNames = [numStates]string{"running", "paused", "hibernated", "resuming", "lost"}

// String returns the state's name, as clients see it.
func (s State) String() string {
	if int(s) >= len(stateNames) {
		return "state(" + strconv.Itoa(int(s)) + ")"
	}
	return stateNames[s]
}

// hasSandbox reports whether a session in this state holds a sandbox, or the place for one.
func (s State) hasSandbox() bool { return s == running || s == paused || s == resuming }

// transitions lists, for each state, the states that may follow it.
var transitions = [numStates][numStates]bool{
	running:    {paused: true, hibernated: true, lost: true},
	paused:     {running: true, lost: true},
	hibernated: {resuming: true, lost: true},
	resuming:   {running: true, hibernated: true, lost: true},
	lost:       {},
}

// lifeState is the state of a session and the reason for its end. It is a part of Session, whose
// other fields its mutex guards too.
type lifeState struct {
	// life ends when the session is lost, with LostError as its cause.
	life context.Context
	end  context.CancelCauseFunc
	// changed is called after each change of the state, and refused for each change that the table
	// does not allow. Both are called with mu held.
	changed func(from, to State)
	refused func(from, to State)
	// lifecycle is held while the session is paused, hibernated or resumed, and by Acquire.
	lifecycle ctxlock.Lock

	mu      lockorder.Mutex[sessionRank] // guards all below, and the fields of Session that name it
	state   State                        // assigned only by transition
	reason  string                       // for the end
	message string                       // the reason in words
	lostAt  time.Time
}

func newLifeState(state State) lifeState {
	life, end := context.WithCancelCause(context.Background())
	return lifeState{life: life, end: end, lifecycle: ctxlock.New(), state: state}
}

// transition changes the state. It returns false, and changes nothing, when the table does not
// allow the change. A change to the present state is allowed unless the session is lost, and does
// nothing. Preconditions: mu is held.
func (l *lifeState) transition(to State) bool {
	from := l.state
	switch {
	case from == to && from != lost:
		return true
	case !transitions[from][to]:
		if from != lost { // callers expect a lost session
			l.refused(from, to)
		}
		return false
	}
	l.state = to
	l.changed(from, to)
	return true
}

// enter is transition for a caller that does not hold mu.
func (l *lifeState) enter(to State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.transition(to)
}

// conclude makes the session a lost one. It returns false when the session was lost before: the
// first reason counts. Preconditions: mu is held.
func (l *lifeState) conclude(reason, message string) bool {
	if !l.transition(lost) {
		return false
	}
	l.reason, l.message, l.lostAt = reason, message, time.Now()
	l.end(l.lostErrorLocked())
	return true
}

func (l *lifeState) is(state State) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == state
}

// State returns the state as in protocol.Session.
func (l *lifeState) State() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.String()
}

// Life returns a context that ends when the session is lost.
func (l *lifeState) Life() context.Context { return l.life }

// IsLost reports whether the session has ended.
func (l *lifeState) IsLost() bool { return l.life.Err() != nil }

// lostReason returns the reason for the end of a lost session.
func (l *lifeState) lostReason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// lostBefore reports whether the session was lost before t.
func (l *lifeState) lostBefore(t time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == lost && l.lostAt.Before(t)
}

// LostError returns the error of a lost session, a SandboxLost.
func (l *lifeState) LostError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lostErrorLocked()
}

// lostErrorLocked is LostError. Preconditions: mu is held.
func (l *lifeState) lostErrorLocked() error {
	return &fault.Error{
		Kind: fault.SandboxLost, Op: "session.use",
		Message: "the session's sandbox has ended (" + l.reason + "): " + l.message,
	}
}

// lockLifecycle locks lifecycle. Errors: SandboxLost, and the error of ctx.
func (l *lifeState) lockLifecycle(ctx context.Context, op string) error {
	ended, err := l.lifecycle.LockUntil(ctx, l.life.Done())
	switch {
	case ended:
		return l.LostError()
	case err != nil:
		return fault.Wrap(fault.KindOf(err), op, err)
	}
	return nil
}

// followState connects the session's state with the manager's totals, with the feed of events, and
// with the volumes.
func followState(s *Session) {
	s.changed = func(from, to State) {
		s.recount()
		if s.published && !s.thawing {
			s.m.emit(s.about().Changed(from.String(), to.String()))
		}
		s.services.SetAwake(to == running)
		if to == running {
			s.volumes.NotifyRunning()
		}
	}
	s.refused = func(from, to State) {
		s.m.totals.Forbid()
		s.m.log.Error("a session was to change its state in a way that cannot be", "session",
			s.spec.ID, "from", from, "to", to)
	}
}
