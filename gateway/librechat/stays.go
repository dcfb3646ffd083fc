package librechat

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/turn"
)

// maxStays is the most sessions that stays remembers.
const maxStays = 10_000

// staying is a session that stays.
type staying struct {
	session string
	// shows is true if the session has the backend of matplotlib.
	shows bool
}

// stays finds the sessions that stay. It remembers them by the ids that clients have for them. This
// saves requests to the node, which knows them all.
type stays struct {
	node  conversation.Node
	turns turn.Turns
	// call is how long a request to the node may take, and wait how long a run waits for its turn.
	call, wait time.Duration

	mu       sync.Mutex // guards sessions
	sessions map[string]staying
}

// place returns a session, and waits for its turn. While the node looks for the session, the run
// already waits for its turn in the session that it was the last time, and lists its files.
func (x *stays) place(ctx context.Context, u store.User, runtime string, policy conversation.Policy,
	list func(ctx context.Context, session string) (map[string]entry, error),
) (place, error) {
	type taken struct {
		release func()
		before  map[string]entry
		err     error
	}
	last := x.get(runtime).session
	early := make(chan taken, 1)
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	if last != "" {
		go func() {
			var t taken
			if t.release, t.err = x.turns.TakeTurn(waiting, u.Who, last, x.wait); t.err == nil {
				t.before, _ = list(waiting, last) // without it the run lists them later
			}
			early <- t
		}()
	}
	ensuring, cancel := context.WithTimeout(ctx, x.call)
	defer cancel()
	v, err := conversation.Sessions{Node: x.node}.Ensure(ensuring, u.Who, conversation.Place{
		Surface: surfaceStays, User: u.Key, Conversation: runtime,
	}, policy)
	if last != "" && v.ID != last {
		leave()
		if t := <-early; t.err == nil {
			t.release()
		}
	}
	if err != nil {
		return place{}, err
	}
	var t taken
	if v.ID == last {
		t = <-early
	} else {
		t.release, t.err = x.turns.TakeTurn(ctx, u.Who, v.ID, x.wait)
		x.set(runtime, staying{session: v.ID})
	}
	return place{v.ID, runtime, !v.Created, t.before, t.release}, t.err
}

// get returns a session; the zero value if it is not remembered.
func (x *stays) get(runtime string) staying {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.sessions[runtime]
}

// set remembers a session. It forgets another one if there are too many.
func (x *stays) set(runtime string, v staying) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sessions[runtime] = v
	for other := range x.sessions {
		if len(x.sessions) <= maxStays {
			break
		}
		if other != runtime {
			delete(x.sessions, other)
		}
	}
}
