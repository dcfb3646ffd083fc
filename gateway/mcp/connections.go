package mcp

import (
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of connections of clients of older revisions.
const (
	maxConnections     = 4096
	maxUserConnections = 256
	// connectionLife is how long a connection may be without requests.
	connectionLife = 30 * time.Minute
)

// connections are the connections that began at this gateway.
type connections struct {
	mu    sync.Mutex // guards all below; a leaf
	users map[string]string
	// counts has the connections of each user, and those that begin.
	counts map[string]int
	total  int
}

func newConnections() *connections {
	return &connections{users: map[string]string{}, counts: map[string]int{}}
}

// has reports whether a connection began here and has not ended.
func (c *connections) has(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.users[id]
	return ok
}

// admit counts a connection that begins. done must be called with its id, or with none if it did not
// begin. Errors: Exhausted if there are too many.
func (c *connections) admit(user string) (done func(server *sdk.Server, id string), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total >= maxConnections || c.counts[user] >= maxUserConnections {
		return nil, &fault.Error{
			Kind: fault.Exhausted, Op: "mcp.begin", RetryAfter: 60,
			Message: "there are too many connections; end some, or wait until unused ones end",
		}
	}
	c.total++
	c.counts[user]++
	return func(server *sdk.Server, id string) {
		if session := find(server, id); session != nil {
			c.mu.Lock()
			c.users[id] = user
			c.mu.Unlock()
			go func() {
				_ = session.Wait() // the reason of the end has no consequence
				c.remove(user, id)
			}()
			return
		}
		c.remove(user, "")
	}, nil
}

func (c *connections) remove(user, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.users, id)
	c.total--
	if c.counts[user]--; c.counts[user] == 0 {
		delete(c.counts, user)
	}
}

// find returns the connection with an id; nil if it has ended.
func find(server *sdk.Server, id string) *sdk.ServerSession {
	if id == "" {
		return nil
	}
	for s := range server.Sessions() {
		if s.ID() == id {
			return s
		}
	}
	return nil
}
