package client

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"sync"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// file is a transfer as the host sees it.
type file struct {
	mu    sync.Mutex // guards all below
	parts [][]byte   // of a read: what has come and has not been written
	size  int        // of parts
	end   bool
	err   error
	acked uint64        // of a write: what the agent has taken
	moved chan struct{} // capacity 1: something above has changed
	freed chan struct{} // capacity 1: acked has, or the end has come
}

func (d *file) wake() {
	for _, c := range []chan struct{}{d.moved, d.freed} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// add takes a part of a file that is read.
func (d *file) add(f stream.Frame) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.wake()
	switch {
	case d.err != nil || d.end && f.Flags&wire.FlagAbort == 0:
		return false
	case f.Flags&wire.FlagAbort != 0:
		var p fault.Public
		if json.Unmarshal(f.Body, &p) != nil {
			p.Kind, p.Message = fault.Malformed, "the agent gave the file up and did not say why"
		}
		d.err = p.Err("agent.file.read")
	case d.size+len(f.Body) > 2*wire.Window:
		d.err = fault.New(fault.Malformed, "agent.file.read", "the agent sent more than it may")
	default:
		d.parts = append(d.parts, append([]byte(nil), f.Body...))
		d.size += len(f.Body)
		d.end = f.Flags&stream.FlagEnd != 0
	}
	return true
}

// ack notes what the agent has taken.
func (d *file) ack(total uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked = max(d.acked, total)
	d.wake()
}

func (d *file) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = err
	}
	d.wake()
}

// open registers a transfer.
func (c *Client) open(op string, ch uint32) (*file, func(), error) {
	d := &file{moved: make(chan struct{}, 1), freed: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, nil, c.err
	}
	if c.files[ch] != nil || c.flows[ch] != nil {
		return nil, nil, fault.New(fault.Conflict, op, "number %d is in use", ch)
	}
	c.files[ch] = d
	return d, func() {
		c.mu.Lock()
		delete(c.files, ch)
		c.mu.Unlock()
	}, nil
}

// giveUp tells the agent that a transfer is over.
func (c *Client) giveUp(ch uint32) {
	c.out.ack(stream.Frame{Type: stream.Data, Flags: stream.FlagEnd | wire.FlagAbort, Channel: ch})
}

// WriteFile writes body to a file in the sandbox, as the user. The file
// appears whole or not at all: when body fails, or ctx ends, nothing is left.
// A body that hangs is the caller's to close: ctx does not end its Read.
// ch is a number that no channel and no other transfer has or had.
func (c *Client) WriteFile(ctx context.Context, ch uint32, p wire.FileWrite, body io.Reader) (wire.FileStat, error) {
	var stat wire.FileStat
	return stat, c.upload(ctx, wire.OpFileWrite, ch, p, body, &stat)
}

// WriteTree unpacks a tar archive into a folder, as the user. See WriteFile;
// what was unpacked before an error stays.
func (c *Client) WriteTree(ctx context.Context, ch uint32, path string, body io.Reader) (wire.TreeStat, error) {
	var stat wire.TreeStat
	return stat, c.upload(ctx, wire.OpTreeWrite, ch, wire.FileRead{Path: path}, body, &stat)
}

// upload sends body as Data behind a request.
func (c *Client) upload(ctx context.Context, name string, ch uint32, p any, body io.Reader, result any) error {
	op := "agent." + name
	d, forget, err := c.open(op, ch)
	if err != nil {
		return err
	}
	defer forget()
	wait, cancel, err := c.ask(ctx, name, ch, p)
	if err != nil {
		return err
	}
	defer cancel()
	answer := func(r wire.Response, ok bool) error {
		if !ok {
			return c.Err()
		}
		return decode(op, r, result)
	}
	buf := make([]byte, wire.FileChunk)
	var sent uint64
	for end := false; !end; {
		n, err := io.ReadFull(body, buf)
		if end = err == io.EOF || err == io.ErrUnexpectedEOF; err != nil && !end {
			c.giveUp(ch)
			return fault.Wrap(fault.KindOf(err), op, err)
		}
		if err := ctx.Err(); err != nil { // above all before the last part
			c.giveUp(ch)
			return fault.Wrap(fault.KindOf(err), op, err)
		}
		for {
			d.mu.Lock()
			acked := d.acked
			d.mu.Unlock()
			if sent+uint64(n)-min(acked, sent) <= wire.Window {
				break
			}
			select {
			case <-d.moved:
			case r, ok := <-wait: // it has failed
				return answer(r, ok)
			case <-ctx.Done():
				c.giveUp(ch)
				return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
			}
		}
		f := stream.Frame{Type: stream.Data, Channel: ch, Body: buf[:n]}
		if end {
			f.Flags = stream.FlagEnd
		}
		if err := c.out.send(ctx, f); err != nil {
			c.giveUp(ch)
			return err
		}
		sent += uint64(n)
	}
	select {
	case r, ok := <-wait:
		return answer(r, ok)
	case <-ctx.Done():
		c.giveUp(ch)
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// ReadFile reads a part of a file in the sandbox, as the user, and writes it
// to w. It calls opened once, before the first byte. Exactly as many bytes
// come as the FileOpened says; if the file became shorter meanwhile, that is a
// Conflict. ch is a number that no channel and no other transfer has or had.
func (c *Client) ReadFile(ctx context.Context, ch uint32, p wire.FileRead, opened func(wire.FileOpened) error, w io.Writer) (part wire.FileOpened, err error) {
	err = c.download(ctx, wire.OpFileRead, ch, p, &part, func() (int64, error) {
		if opened == nil {
			return part.Length, nil
		}
		return part.Length, opened(part)
	}, w)
	return part, err
}

// ReadTree reads a folder as an archive. See ReadFile; nobody knows before how
// long it is.
func (c *Client) ReadTree(ctx context.Context, ch uint32, p wire.TreeRead, opened func(wire.FileStat) error, w io.Writer) error {
	var stat wire.FileStat
	return c.download(ctx, wire.OpTreeRead, ch, p, &stat, func() (int64, error) { return -1, opened(stat) }, w)
}

// download writes the Data that follows the response to a request to w. Once
// result is there, opened says how much will come; below 0 that is unknown.
func (c *Client) download(ctx context.Context, name string, ch uint32, p, result any, opened func() (int64, error), w io.Writer) error {
	op := "agent." + name
	d, forget, err := c.open(op, ch)
	if err != nil {
		return err
	}
	defer forget()
	if err := c.call(ctx, name, ch, p, result); err != nil {
		if ctx.Err() != nil {
			c.giveUp(ch)
		}
		return err
	}
	left, err := opened()
	if err != nil {
		c.giveUp(ch)
		return err
	}
	known := left >= 0
	var got, told uint64
	for {
		d.mu.Lock()
		parts, end, err := d.parts, d.end, d.err
		d.parts, d.size = nil, 0
		d.mu.Unlock()
		for _, p := range parts {
			if left -= int64(len(p)); left < 0 && known {
				c.giveUp(ch)
				return fault.New(fault.Malformed, op, "the agent sent more than the file holds")
			}
			if _, err := w.Write(p); err != nil {
				c.giveUp(ch)
				return err
			}
			got += uint64(len(p))
			if got-told >= wire.AckEvery {
				var body [8]byte
				binary.BigEndian.PutUint64(body[:], got)
				if err := c.out.send(ctx, stream.Frame{Type: stream.Ack, Channel: ch, Body: body[:]}); err != nil {
					c.giveUp(ch)
					return err
				}
				told = got
			}
		}
		switch {
		case err != nil:
			return err
		case end && known && left > 0:
			return fault.New(fault.Malformed, op, "the agent sent less than the file holds")
		case end:
			return nil
		}
		select {
		case <-d.moved:
		case <-ctx.Done():
			c.giveUp(ch)
			return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
		}
	}
}

// Stat describes a file.
func (c *Client) Stat(ctx context.Context, path string) (wire.FileStat, error) {
	var s wire.FileStat
	return s, c.call(ctx, wire.OpFileStat, 0, wire.FileRead{Path: path}, &s)
}

// List returns one page of what is in a folder.
func (c *Client) List(ctx context.Context, p wire.FileList) (wire.FileListing, error) {
	var l wire.FileListing
	return l, c.call(ctx, wire.OpFileList, 0, p, &l)
}

// Mkdir makes a folder and its parents.
func (c *Client) Mkdir(ctx context.Context, path string) (wire.FileStat, error) {
	var s wire.FileStat
	return s, c.call(ctx, wire.OpFileMkdir, 0, wire.FileRead{Path: path}, &s)
}

// Move moves a file or a folder.
func (c *Client) Move(ctx context.Context, p wire.FileMove) (wire.FileStat, error) {
	var s wire.FileStat
	return s, c.call(ctx, wire.OpFileMove, 0, p, &s)
}

// Copy copies a file or a folder.
func (c *Client) Copy(ctx context.Context, p wire.FileMove) (wire.FileStat, error) {
	var s wire.FileStat
	return s, c.call(ctx, wire.OpFileCopy, 0, p, &s)
}

// Remove removes a file, a link or a folder.
func (c *Client) Remove(ctx context.Context, p wire.FileRemove) error {
	return c.call(ctx, wire.OpFileRemove, 0, p, nil)
}
