package redis

import (
	"context"
	"sync"
)

// maxRelayed is how many messages wait for the server. Further ones are dropped.
const maxRelayed = 256

// Relay sends messages to all gateways of a cluster. The server keeps none: a gateway that is not
// connected at that moment misses a message.
type Relay struct {
	c       *Client
	waiting chan []byte

	mu      sync.Mutex // guards receive; leaf
	receive func([]byte)
}

// Relay returns the relay of the cluster.
func (c *Client) Relay() *Relay { return c.relay }

func (c *Client) relayChannel() string { return c.prefix + "relay" }

// Send sends a message. It waits for nothing and reports false if too many messages wait.
func (r *Relay) Send(message []byte) bool {
	select {
	case r.waiting <- message:
		return true
	default:
		return false
	}
}

// Receive sets the function that is called with each message, also with those that this client has
// sent. The function must not wait.
func (r *Relay) Receive(f func([]byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.receive = f
}

func (r *Relay) deliver(message []byte) {
	r.mu.Lock()
	f := r.receive
	r.mu.Unlock()
	if f != nil {
		f(message)
	}
}

// run sends the waiting messages until ctx ends.
func (r *Relay) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-r.waiting:
			step, cancel := context.WithTimeout(ctx, r.c.timeout)
			err := r.c.client.Publish(step, r.c.relayChannel(), m).Err()
			cancel()
			if err != nil && ctx.Err() == nil {
				r.c.log.Warn("a message did not reach the other gateways", "error", err)
			}
		}
	}
}
