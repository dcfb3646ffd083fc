package agent

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// transfer is a file, an archive, a watch or a connection on the wire.
type transfer struct {
	s   *Server
	id  uint32
	win window // of a read
	// conn marks a connection to a port, which goes both ways. The goroutine that
	// sends waits for room.
	conn bool
	// egress marks a connection to the outside, which also goes both ways. answers
	// has capacity 1 and gets the host's answer.
	egress  bool
	answers chan wire.EgressAnswer
	// watch marks a watch for changes of files.
	watch bool
	room  chan struct{} // capacity 1

	mu      sync.Mutex // guards all below
	q       []byte     // of a write: data that is not written yet
	end     bool
	aborted bool
	cut     func() // of a connection: closes it
	taken   uint64
	told    uint64
	changed chan struct{} // capacity 1: a field above, or the window, has changed
}

func (t *transfer) wake() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// signalRoom wakes the goroutine that waits for the window.
func (t *transfer) signalRoom() {
	select {
	case t.room <- struct{}{}:
	default:
	}
}

// abort ends the transfer.
func (t *transfer) abort() {
	t.mu.Lock()
	t.aborted, t.q = true, nil
	cut := t.cut
	t.mu.Unlock()
	t.wake()
	t.signalRoom()
	if cut != nil {
		cut()
	}
}

func (t *transfer) isAborted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.aborted
}

// fileParams has the parameters of all operations on files.
type fileParams struct {
	wire.FileWrite
	Offset    int64  `json:"offset"`
	Length    int64  `json:"length"`
	IfRange   string `json:"if_range"`
	Limit     int    `json:"limit"`
	After     string `json:"after"`
	To        string `json:"to"`
	Overwrite bool   `json:"overwrite"`
	Recursive bool   `json:"recursive"`
	Archive   string `json:"archive"`
	Target    string `json:"target"`
}

// start carries out an operation on files in a goroutine of its own, as the
// user.
func (o *files) start(r wire.Request) {
	op := "agent." + r.Op
	var q fileParams
	err := params(r, &q)
	var path, to string
	if err == nil {
		var bad *fault.Error
		if path, bad = absPath(o.s.cfg.Home, op, q.Path); bad == nil && (r.Op == wire.OpFileMove || r.Op == wire.OpFileCopy) {
			if to, bad = absPath(o.s.cfg.Home, op, q.To); bad != nil {
				bad.Field = "to"
			}
		}
		if bad != nil {
			err = bad
		}
	}
	data := false
	switch r.Op {
	case wire.OpFileWrite, wire.OpFileRead, wire.OpFileWatch, wire.OpTreeRead, wire.OpTreeWrite:
		data = true
	}
	inHome := strings.HasPrefix(path, o.s.cfg.Home+"/")
	t := &transfer{s: o.s, id: r.Channel, watch: r.Op == wire.OpFileWatch, changed: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	t.win.wake = t.signalRoom
	if err == nil {
		err = o.s.addTransfer(op, t, data)
	}
	if err != nil {
		o.s.respond(r.ID, nil, err)
		return
	}
	go func() {
		defer o.s.wg.Done()
		defer o.s.removeTransfer(t, data)
		if r.Op == wire.OpFileLink && !inHome {
			// The creator of the session asks for this link, before any user code runs.
			o.s.respond(r.ID, struct{}{}, makeLink(path, q.Target, false))
			return
		}
		if err := o.becomeUser(); err != nil {
			o.s.respond(r.ID, nil, err)
			return
		}
		o.perform(r, t, q, path, to)
	}()
}

// perform carries out an operation on files. Preconditions: the calling goroutine
// has the user's rights.
func (o *files) perform(r wire.Request, t *transfer, q fileParams, path, to string) {
	var result any = struct{}{}
	var err error
	switch r.Op {
	case wire.OpFileStat:
		result, err = statFile(path)
	case wire.OpFileList:
		result, err = listFolder(path, wire.FileList{Limit: q.Limit, After: q.After})
	case wire.OpFileMkdir:
		result, err = makeFolder(path)
	case wire.OpFileMove:
		result, err = o.moveFile(path, wire.FileMove{Overwrite: q.Overwrite}, to)
	case wire.OpFileCopy:
		result, err = o.copyFile(path, wire.FileMove{Overwrite: q.Overwrite}, to)
	case wire.OpFileRemove:
		err = o.removeFile(path, wire.FileRemove{Recursive: q.Recursive})
	case wire.OpFileLink:
		err = makeLink(path, q.Target, true)
	case wire.OpFileWatch:
		o.watchFile(r, t, path, q.Recursive)
		return
	case wire.OpFileWrite:
		result, err = o.writeFile(path, q.FileWrite, t)
	case wire.OpTreeWrite:
		result, err = unpack(path, t)
	case wire.OpTreeRead:
		var stat wire.FileStat
		stat, err = openTree(path, wire.TreeRead{Archive: q.Archive})
		o.s.respond(r.ID, stat, err)
		if err == nil {
			out := &dataWriter{t: t}
			if err = pack(path, q.Archive, out); err == nil {
				err = out.flush()
			}
			t.finish(r.Op, err)
		}
		return
	case wire.OpFileRead:
		f, stat, err := openFile(path)
		var part wire.FileOpened
		if err == nil {
			defer f.Close()
			part, err = partOf(f, stat, q)
		}
		o.s.respond(r.ID, part, err)
		if err == nil {
			t.finish(r.Op, t.send(f, part.Length))
		}
		return
	}
	o.s.respond(r.ID, result, err)
}

// partOf returns the requested part of a file and seeks to its beginning.
func partOf(f io.Seeker, stat wire.FileStat, q fileParams) (wire.FileOpened, error) {
	const op = "agent.file.read"
	part := wire.FileOpened{FileStat: stat, Length: stat.Size}
	if q.Length < 0 {
		return part, fault.Invalid(op, "length", "a length is not below 0")
	}
	if q.IfRange != "" && q.IfRange != stat.ETag {
		return part, nil
	}
	part.Offset = q.Offset
	if q.Offset < 0 {
		part.Offset = max(stat.Size+q.Offset, 0)
	}
	part.Length = max(stat.Size-part.Offset, 0)
	if q.Length > 0 {
		part.Length = min(part.Length, q.Length)
	}
	if part.Offset == 0 {
		return part, nil
	}
	if _, err := f.Seek(part.Offset, io.SeekStart); err != nil {
		return part, fileError(op, err)
	}
	return part, nil
}

// addTransfer registers a transfer, also by its number if it has Data.
func (s *Server) addTransfer(op string, t *transfer, data bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fault.New(fault.SandboxLost, op, "the sandbox is ending")
	}
	switch {
	case t.watch && s.watches >= wire.MaxWatches:
		s.refused.Add(1)
		return fault.New(fault.Exhausted, op, "files are watched in %d places already", wire.MaxWatches)
	case t.egress && s.egressConns >= wire.MaxEgress:
		s.refused.Add(1)
		return fault.New(fault.Exhausted, op, "%d connections to the outside are open", wire.MaxEgress)
	case !t.conn && !t.watch && !t.egress && s.fileOps >= wire.MaxTransfers:
		s.refused.Add(1)
		return fault.New(fault.Exhausted, op, "%d files are on their way", wire.MaxTransfers)
	case t.conn && s.portConns >= wire.MaxConns:
		s.refused.Add(1)
		return fault.New(fault.Exhausted, op, "%d connections to ports are open", wire.MaxConns)
	}
	if data {
		if c := s.channels[t.id]; c != nil && !c.isOver() || s.transfers[t.id] != nil {
			return fault.New(fault.Conflict, op, "number %d is in use", t.id)
		}
		s.transfers[t.id] = t
	}
	if t.conn {
		s.portConns++
	} else if t.egress {
		s.egressConns++
	} else if t.watch {
		s.watches++
	} else {
		s.fileOps++
	}
	s.wg.Add(1)
	return nil
}

func (s *Server) removeTransfer(t *transfer, data bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.conn {
		s.portConns--
	} else if t.egress {
		s.egressConns--
	} else if t.watch {
		s.watches--
	} else {
		s.fileOps--
	}
	if data && s.transfers[t.id] == t {
		delete(s.transfers, t.id)
	}
}

// data takes a part of a file that is written, or the abort of a transfer.
func (s *Server) data(f stream.Frame) {
	s.mu.Lock()
	t := s.transfers[f.Channel]
	s.mu.Unlock()
	if t == nil {
		s.stray.Add(1) // the write has failed
		return
	}
	if f.Flags&wire.FlagAbort != 0 {
		t.abort()
		return
	}
	t.mu.Lock()
	switch {
	case t.end || t.aborted:
	case len(t.q)+len(f.Body) > 2*wire.Window+stream.MaxBody: // the host broke its window
		t.aborted, t.q = true, nil
		s.refused.Add(1)
	default:
		t.q = append(t.q, f.Body...)
		t.end = f.Flags&stream.FlagEnd != 0
	}
	t.mu.Unlock()
	t.wake()
}

// Read returns data from the host, for a write.
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
		if t.taken-t.told >= wire.AckEvery {
			t.told, ack = t.taken, t.taken
		}
		t.mu.Unlock()
		if ack > 0 {
			t.s.host.write(appendAck(nil, t.id, ack))
		}
		switch {
		case aborted:
			return 0, context.Canceled
		case n > 0:
			return n, nil
		case end:
			return 0, io.EOF
		}
		<-t.changed
	}
}

// put sends n bytes of buf, which has room for a header in front, once the
// host's window has room.
func (t *transfer) put(buf []byte, n int) error {
	for !t.win.room(n) {
		<-t.room
		if t.isAborted() {
			return context.Canceled
		}
	}
	if t.isAborted() {
		return context.Canceled
	}
	stream.AppendFrame(buf[:0], stream.Frame{Type: stream.Data, Channel: t.id})
	binary.BigEndian.PutUint32(buf, uint32(n))
	t.win.sentBytes(n)
	t.s.host.write(buf[:stream.HeaderSize+n])
	return nil
}

// send sends size bytes of a file.
func (t *transfer) send(f io.Reader, size int64) error {
	buf := make([]byte, stream.HeaderSize+wire.FileChunk)
	for size > 0 {
		n := int(min(size, wire.FileChunk))
		m, err := io.ReadFull(f, buf[stream.HeaderSize:stream.HeaderSize+n])
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return fault.New(fault.Conflict, "agent.file.read", "the file became shorter while it was read")
		}
		if err != nil {
			return err
		}
		if err := t.put(buf, m); err != nil {
			return err
		}
		size -= int64(m)
	}
	return nil
}

// finish sends the end of the data, or the error.
func (t *transfer) finish(op string, err error) {
	if t.isAborted() {
		return
	}
	end := stream.Frame{Type: stream.Data, Flags: stream.FlagEnd, Channel: t.id}
	if err != nil {
		end.Flags |= wire.FlagAbort
		end.Body, _ = json.Marshal(fault.PublicOf(fileError("agent."+op, err)))
	}
	t.s.host.write(stream.AppendFrame(nil, end))
}

// dataWriter gathers data into Data frames. flush sends the rest.
type dataWriter struct {
	t   *transfer
	buf []byte
	n   int
}

func (p *dataWriter) Write(b []byte) (int, error) {
	if p.buf == nil {
		p.buf = make([]byte, stream.HeaderSize+wire.FileChunk)
	}
	for done := 0; done < len(b); {
		m := copy(p.buf[stream.HeaderSize+p.n:], b[done:])
		p.n += m
		done += m
		if p.n == wire.FileChunk {
			if err := p.flush(); err != nil {
				return done, err
			}
		}
	}
	return len(b), nil
}

func (p *dataWriter) flush() error {
	n := p.n
	p.n = 0
	if n == 0 {
		return nil
	}
	return p.t.put(p.buf, n)
}
