package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/stream"
)

// transfer is a file on its way, in either direction.
type transfer struct {
	s   *Server
	id  uint32
	win window // of a read

	mu      sync.Mutex // guards all below
	q       []byte     // of a write: what has come and is not yet written
	end     bool
	aborted bool
	taken   uint64
	told    uint64
	moved   chan struct{} // capacity 1: something above, or the window, has changed
}

func (t *transfer) wake() {
	select {
	case t.moved <- struct{}{}:
	default:
	}
}

// abort gives the transfer up.
func (t *transfer) abort() {
	t.mu.Lock()
	t.aborted, t.q = true, nil
	t.mu.Unlock()
	t.wake()
}

func (t *transfer) isAborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

// file begins a file operation, beside the wire and as the user.
func (s *Server) file(r Request) {
	op := "agent." + r.Op
	var q FileWrite // has what FileRead has
	err := params(r, &q)
	var path string
	if err == nil {
		var bad *fault.Error
		if path, bad = s.path(op, q.Path); bad != nil {
			err = bad
		}
	}
	t := &transfer{s: s, id: r.Channel, moved: make(chan struct{}, 1)}
	t.win.wake = t.wake
	if err == nil {
		err = s.begin(op, t, r.Op != OpFileStat)
	}
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	go func() {
		defer s.wg.Done()
		defer s.forget(t, r.Op != OpFileStat)
		if err := s.becomeUser(); err != nil {
			s.respond(r.ID, nil, err)
			return
		}
		switch r.Op {
		case OpFileStat:
			info, err := os.Stat(path)
			if err != nil {
				s.respond(r.ID, nil, fileError(op, err))
				return
			}
			s.respond(r.ID, statOf(path, info), nil)
		case OpFileWrite:
			stat, err := writeFile(path, q.Mode, t)
			s.respond(r.ID, stat, err)
		case OpFileRead:
			f, stat, err := openFile(path)
			s.respond(r.ID, stat, err)
			if err == nil {
				defer f.Close()
				t.send(f, stat.Size)
			}
		}
	}()
}

// begin takes a place, and the number if the transfer has Data.
func (s *Server) begin(op string, t *transfer, data bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.SandboxLost, op, "the sandbox is ending")
	}
	if s.files >= MaxTransfers {
		s.refused.Add(1)
		return fault.New(fault.Exhausted, op, "%d files are on their way", MaxTransfers)
	}
	if data {
		if c := s.channels[t.id]; c != nil && !c.isOver() || s.transfers[t.id] != nil {
			return fault.New(fault.Conflict, op, "number %d is in use", t.id)
		}
		s.transfers[t.id] = t
	}
	s.files++
	s.wg.Add(1)
	return nil
}

func (s *Server) forget(t *transfer, data bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files--
	if data && s.transfers[t.id] == t {
		delete(s.transfers, t.id)
	}
}

// data takes a part of a file that is written, or the news that a transfer is
// given up.
func (s *Server) data(f stream.Frame) {
	s.mu.Lock()
	t := s.transfers[f.Channel]
	s.mu.Unlock()
	if t == nil {
		s.stray.Add(1) // a write that has failed
		return
	}
	if f.Flags&FlagAbort != 0 {
		t.abort()
		return
	}
	t.mu.Lock()
	switch {
	case t.end || t.aborted:
	case len(t.q)+len(f.Body) > 2*Window+stream.MaxBody: // the host broke its window
		t.aborted, t.q = true, nil
		s.refused.Add(1)
	default:
		t.q = append(t.q, f.Body...)
		t.end = f.Flags&stream.FlagEnd != 0
	}
	t.mu.Unlock()
	t.wake()
}

// Read gives what the host has sent, for a write.
func (t *transfer) Read(p []byte) (int, error) {
	for {
		t.mu.Lock()
		n := copy(p, t.q)
		if n > 0 {
			t.q = t.q[:copy(t.q, t.q[n:])]
			t.taken += uint64(n)
		}
		end, aborted := t.end, t.aborted
		var ack uint64
		if t.taken-t.told >= ackEvery {
			t.told, ack = t.taken, t.taken
		}
		t.mu.Unlock()
		if ack > 0 {
			t.s.wire.write(appendAck(nil, t.id, ack))
		}
		switch {
		case aborted:
			return 0, context.Canceled
		case n > 0:
			return n, nil
		case end:
			return 0, io.EOF
		}
		<-t.moved
	}
}

// send sends size bytes of a file, for a read.
func (t *transfer) send(f *os.File, size int64) {
	buf := make([]byte, stream.HeaderSize+fileChunk)
	for {
		n := int(min(size, fileChunk))
		for !t.win.room(n) {
			<-t.moved
			if t.isAborted() {
				return
			}
		}
		if t.isAborted() {
			return
		}
		m, err := io.ReadFull(f, buf[stream.HeaderSize:stream.HeaderSize+n])
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = fault.New(fault.Conflict, "agent.file.read", "the file became shorter while it was read")
			}
			body, _ := json.Marshal(fault.PublicOf(fileError("agent.file.read", err)))
			t.s.wire.write(stream.AppendFrame(nil, stream.Frame{Type: stream.Data, Flags: stream.FlagEnd | FlagAbort, Channel: t.id, Body: body}))
			return
		}
		size -= int64(m)
		h := stream.Frame{Type: stream.Data, Channel: t.id}
		if size == 0 {
			h.Flags = stream.FlagEnd
		}
		stream.AppendFrame(buf[:0], h)
		binary.BigEndian.PutUint32(buf, uint32(m))
		t.win.sentBytes(m)
		t.s.wire.write(buf[:stream.HeaderSize+m])
		if size == 0 {
			return
		}
	}
}
