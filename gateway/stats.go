package gateway

import "sync/atomic"

type counters struct {
	connections                        atomic.Int64
	refused, slow, denied, badRequests atomic.Int64 // slow lacks the WebSockets
	requests, runs, notesLost          atomic.Int64
}

// Stats is what a gateway counts. All but the first two only grow.
type Stats struct {
	// Connections and Sockets are open now.
	Connections int64 `json:"connections"`
	Sockets     int64 `json:"sockets"`
	// Requests were let in by the door, Denied were not.
	Requests int64 `json:"requests"`
	Denied   int64 `json:"denied"`
	// Refused met a limit: connections, requests in flight or tickets.
	Refused int64 `json:"refused"`
	// Slow clients took nothing for too long and were cut off.
	Slow int64 `json:"slow"`
	// BadRequests could not be parsed.
	BadRequests int64 `json:"bad_requests"`
	// PingsIgnored were over a client's 50 a second.
	PingsIgnored int64 `json:"pings_ignored"`
	Runs         int64 `json:"runs"`
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	s, ws := &g.stats, g.sockets.Stats()
	return Stats{
		Connections: s.connections.Load(), Sockets: ws.Open.Load(),
		Requests: s.requests.Load(), Denied: s.denied.Load(), Refused: s.refused.Load(),
		Slow: s.slow.Load() + ws.Slow.Load(), BadRequests: s.badRequests.Load(), PingsIgnored: ws.PingsIgnored.Load(),
		Runs: s.runs.Load(),
	}
}
