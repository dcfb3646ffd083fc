package main

import (
	"sync"
	"time"
)

const (
	// maxUnsent bounds the bytes that wait for one socket of a kernel that does not read.
	maxUnsent = 32 << 20
	// redialPause is the time between two attempts to restore a connection.
	redialPause = 50 * time.Millisecond
)

// arrival is a message of a channel, or the news that its connection was made again.
type arrival struct {
	channel channel
	parts   [][]byte
	again   bool
	err     error // the message was dropped
}

// link is the connection to one channel. If the connection ends and the kernel lives, it connects
// again with the same identity.
type link struct {
	process  *process
	channel  channel
	identity string
	arrivals chan<- arrival

	mu     sync.Mutex
	more   sync.Cond
	unsent [][]byte
	bytes  int
	socket *socket
	over   bool // the kernel has ended
}

// open starts the reading and the writing of a channel with its first connection.
func open(p *process, c channel, identity string, s *socket, arrivals chan<- arrival) *link {
	l := &link{process: p, channel: c, identity: identity, arrivals: arrivals, socket: s}
	l.more.L = &l.mu
	if c == iopub {
		l.subscribe(s)
	}
	go l.readMessages()
	go l.transmit()
	return l
}

// subscribe asks for all topics.
func (l *link) subscribe(s *socket) { _ = s.write(appendFrame(nil, 0, []byte{1})) }

// send queues a message. It reports false if too much waits.
func (l *link) send(message []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes+len(message) > maxUnsent && l.bytes > 0 {
		return false
	}
	l.unsent = append(l.unsent, message)
	l.bytes += len(message)
	l.more.Signal()
	return true
}

// transmit writes the queued messages in their order.
func (l *link) transmit() {
	for {
		l.mu.Lock()
		for !l.over && (len(l.unsent) == 0 || l.socket == nil) {
			l.more.Wait()
		}
		if l.over {
			l.mu.Unlock()
			return
		}
		s, message := l.socket, l.unsent[0]
		l.mu.Unlock()
		err := s.write(message)
		l.mu.Lock()
		if err == nil {
			l.unsent = l.unsent[1:]
			l.bytes -= len(message)
		} else if l.socket == s {
			l.socket = nil // readMessages notices the same end and connects again
			s.close()
		}
		l.mu.Unlock()
	}
}

// readMessages reads until the kernel has ended.
func (l *link) readMessages() {
	s := l.socket
	for {
		parts, err := s.receive()
		if err == nil {
			l.arrivals <- arrival{channel: l.channel, parts: parts}
			continue
		}
		s.close()
		l.mu.Lock()
		l.socket = nil
		l.mu.Unlock()
		if err == errTooLarge {
			l.arrivals <- arrival{channel: l.channel, err: err}
		}
		if s = l.redial(); s == nil {
			l.mu.Lock()
			l.over = true
			l.more.Signal()
			l.mu.Unlock()
			return
		}
		l.arrivals <- arrival{channel: l.channel, again: true}
		l.mu.Lock()
		l.socket = s
		l.more.Signal()
		l.mu.Unlock()
	}
}

// redial connects again. It returns nil if the kernel has ended.
func (l *link) redial() *socket {
	for {
		select {
		case <-l.process.exited:
			return nil
		case <-time.After(redialPause):
		}
		s, err := l.process.dial(l.channel, l.identity)
		if err == nil {
			if l.channel == iopub {
				l.subscribe(s)
			}
			return s
		}
	}
}
