package events

import (
	"crypto/rand"
	"encoding/json"
)

// Relay connects the hubs of the gateways of a cluster. It is redis.Relay.
type Relay interface {
	// Send sends a message to all gateways. It waits for nothing and reports false if it dropped the
	// message.
	Send(message []byte) bool
	// Receive sets the function that gets all messages, also those of this gateway.
	Receive(f func(message []byte))
}

// relayed is an event as gateways send it to each other.
type relayed struct {
	From   string `json:"from"`
	Tenant string `json:"tenant"`
	Event  Event  `json:"event"`
}

// relay gives the events of a hub to those of the other gateways, and theirs to this one.
type relay struct {
	to   Relay
	from string // the name of this hub
	full func()
}

// Connect connects the hub with those of other gateways. full is called for each event that they do
// not get. Connect is called before any other method.
func (h *Hub) Connect(r Relay, full func()) {
	h.relay = &relay{to: r, from: rand.Text(), full: full}
	r.Receive(func(message []byte) {
		var m relayed
		if json.Unmarshal(message, &m) == nil && m.From != h.relay.from {
			h.deliver(m.Tenant, m.Event)
		}
	})
}

func (r *relay) send(tenant string, e Event) {
	m, err := json.Marshal(relayed{From: r.from, Tenant: tenant, Event: e})
	if err != nil {
		return // Data is made of JSON
	}
	if !r.to.Send(m) {
		r.full()
	}
}
