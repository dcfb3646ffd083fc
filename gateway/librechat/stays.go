package librechat

import (
	"context"
	"sync"
	"time"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/gateway/librechat/store"
	"github.com/sandgate/sandgate/gateway/turn"
	"github.com/sandgate/sandgate/protocol/fault"
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

// place returns a session, and waits for its turn. A turn with a note is in a session that is still
// there: no other request is necessary.
func (x *stays) place(ctx context.Context, u store.User, runtime string, policy conversation.Policy,
) (place, error) {
	last := x.get(runtime).session
	var t *turn.Turn
	if last != "" {
		var err error
		t, err = x.turns.TakeNoted(ctx, u.Who, last, x.wait)
		if err == nil && t.Note != "" {
			return place{
				session: last, runtime: runtime, reused: true, cursor: t.Note, turn: t,
			}, nil
		}
		if fault.Is(err, fault.Conflict) || ctx.Err() != nil {
			return place{}, err
		}
	}
	ensuring, cancel := context.WithTimeout(ctx, x.call)
	defer cancel()
	v, err := conversation.Sessions{Node: x.node}.Ensure(ensuring, u.Who, conversation.Place{
		Surface: surfaceStays, User: u.Key, Conversation: runtime,
	}, policy)
	if t != nil && (err != nil || v.ID != last) {
		t.End("")
		t = nil
	}
	if err != nil {
		return place{}, err
	}
	if v.ID != last {
		x.set(runtime, staying{session: v.ID})
	}
	if t == nil {
		t, err = x.turns.TakeNoted(ctx, u.Who, v.ID, x.wait)
	}
	if err != nil {
		return place{}, err
	}
	return place{
		session: v.ID, runtime: runtime, reused: !v.Created, cursor: t.Note, turn: t,
	}, nil
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
