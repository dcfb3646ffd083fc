package session

import (
	"strconv"
	"time"
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

// hasSandbox reports whether a session in this state holds a sandbox, or the
// place for one.
func (s State) hasSandbox() bool { return s == running || s == paused || s == resuming }

// transitions lists, for each state, the states that may follow it.
var transitions = [numStates][numStates]bool{
	running:    {paused: true, hibernated: true, lost: true},
	paused:     {running: true, lost: true},
	hibernated: {resuming: true, lost: true},
	resuming:   {running: true, hibernated: true, lost: true},
	lost:       {},
}

// transition changes the session's state and updates all that follows from it.
// It is the only place that assigns the state of a session. It returns false,
// and changes nothing, when the table does not allow the change. A change to
// the present state is allowed unless the session is lost, and does nothing.
// Preconditions: s.mu is held.
func (s *Session) transition(to State) bool {
	from := s.state
	switch {
	case from == to && from != lost:
		return true
	case !transitions[from][to]:
		if from != lost { // which every caller expects
			s.m.totals.forbid()
			s.m.log.Error("a session was to change its state in a way that cannot be", "session", s.spec.ID, "from", from, "to", to)
		}
		return false
	}
	s.state = to
	s.recount()
	if to == running {
		s.volumes.NotifyRunning()
	}
	return true
}

// conclude makes the session a lost one, for a reason. It returns false when it
// was lost before: the first reason counts. Preconditions: s.mu is held.
func (s *Session) conclude(reason, message string) bool {
	if !s.transition(lost) {
		return false
	}
	s.reason, s.message, s.lostAt = reason, message, time.Now()
	s.end(s.lostErrorLocked())
	return true
}

// enter is transition for a caller that does not hold s.mu.
func (s *Session) enter(to State) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.transition(to)
}
