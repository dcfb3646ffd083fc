package filesystem

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/remote"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/internal/nodecall"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

const (
	// defaultPing is the idle time after which a stream has a keepalive event.
	defaultPing = 90 * time.Second
	// channel is the number of a watch on its link.
	channel = 1
	// watchRequest is the number of the request for a watch. The link has smaller numbers before.
	watchRequest = 1 << 20
)

// watch is a folder that is watched. One goroutine uses it.
type watch struct {
	link    *remote.Link
	folder  string
	pending []protocol.FileChanges // received before the reply
	entries *remote.Link           // describes files; nil if events have no entries
}

// changes are the next changes of a watch.
type changes struct {
	events []*wire.FilesystemEvent
	lost   bool // changes were left out
	ended  bool // the folder is gone
}

// startWatch begins to watch a folder until ctx ends.
func (s *Service) startWatch(ctx context.Context, h http.Header, r *wire.WatchDirRequest) (
	_ *watch, err error,
) {
	l, folder, err := s.open(ctx, h, r.Path)
	if err != nil {
		return nil, err
	}
	w := &watch{link: l, folder: folder}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := isFolder(l, folder); err != nil {
		return nil, err
	}
	if r.IncludeEntry {
		if w.entries, err = remote.Open(ctx, s.cfg.Config, l.Target); err != nil {
			return nil, err
		}
	}
	late := time.AfterFunc(s.cfg.Call, func() { _ = l.Close() })
	defer late.Stop()
	err = nodecall.Call(l, watchRequest, protocol.OpFileWatch, channel, protocol.FileWatch{
		FileRef: l.Ref(folder), Recursive: r.Recursive, Each: true,
	}, nil, func(f frame.Frame) error {
		if c, ok := changesIn(f); ok {
			w.pending = append(w.pending, c)
		}
		return nil
	})
	if err != nil {
		return nil, failed(remote.Gone(err), folder)
	}
	return w, nil
}

func (w *watch) close() {
	_ = w.link.Close()
	if w.entries != nil {
		_ = w.entries.Close()
	}
}

// changesIn returns the changes in an event of the watch.
func changesIn(f frame.Frame) (c protocol.FileChanges, ok bool) {
	var e protocol.Reply
	if f.Type != frame.Control || json.Unmarshal(f.Body, &e) != nil ||
		e.Event != protocol.EventFile || e.Ch != channel {
		return c, false
	}
	return c, json.Unmarshal(e.Params, &c) == nil
}

// next waits for the next changes.
func (w *watch) next() (changes, error) {
	if len(w.pending) > 0 {
		c := w.pending[0]
		w.pending = w.pending[1:]
		return w.translate(c)
	}
	for {
		f, err := nodecall.Next(w.link)
		if err != nil {
			return changes{}, remote.Gone(err)
		}
		if c, ok := changesIn(f); ok {
			return w.translate(c)
		}
	}
}

// translate returns changes in the form of envd.
func (w *watch) translate(c protocol.FileChanges) (changes, error) {
	out := changes{lost: c.Overflow, ended: c.Ended}
	if c.Error != nil {
		return out, remote.Gone(c.Error.Err("filesystem.watch"))
	}
	for _, one := range c.Changes {
		e := &wire.FilesystemEvent{Name: below(w.folder, one.Path), Type: eventOf(one.Kind)}
		if w.entries != nil && e.Type != wire.EventRemove && e.Type != wire.EventRename {
			if f, err := w.entries.Stat(one.Path, true); err == nil {
				e.Entry = entryOf(f)
			}
		}
		out.events = append(out.events, e)
	}
	return out, nil
}

// below returns the path of a file relative to a folder.
func below(folder, file string) string {
	if rest, ok := strings.CutPrefix(file, strings.TrimSuffix(folder, "/")+"/"); ok {
		return rest
	}
	return "."
}

// eventOf returns the type of a kind of change.
func eventOf(kind string) string {
	return map[string]string{
		"created": wire.EventCreate, "modified": wire.EventWrite, "removed": wire.EventRemove,
		"moved": wire.EventRename, "mode": wire.EventChmod,
	}[kind]
}

// lostError is the error after changes that were left out.
func lostError() error {
	return wire.NewError(connect.CodeResourceExhausted,
		"there were more changes than can be reported; list the folder and watch it again")
}

// watchDir sends the changes of a folder until the client disconnects or the folder is gone.
func (s *Service) watchDir(ctx context.Context, h http.Header, r *wire.WatchDirRequest,
	send func(*wire.WatchDirResponse) error,
) error {
	w, err := s.startWatch(ctx, h, r)
	if err != nil {
		return err
	}
	type batch struct {
		changes
		err error
	}
	batches, quit, done := make(chan batch), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := w.next()
			select {
			case batches <- batch{c, err}:
			case <-quit:
				return
			}
			if err != nil || c.ended {
				return
			}
		}
	}()
	defer func() { close(quit); w.close(); <-done }()
	if err := send(&wire.WatchDirResponse{Start: &wire.WatchStarted{}}); err != nil {
		return err
	}
	ping := pingOf(h)
	timer := time.NewTimer(ping)
	defer timer.Stop()
	for {
		select {
		case b := <-batches:
			for _, e := range b.events {
				if err := send(&wire.WatchDirResponse{Filesystem: e}); err != nil {
					return err
				}
			}
			switch {
			case b.err != nil || b.ended:
				return b.err
			case b.lost:
				return lostError()
			}
		case <-timer.C:
			if err := send(&wire.WatchDirResponse{KeepAlive: &wire.KeepAlive{}}); err != nil {
				return err
			}
		case <-ctx.Done():
			return fault.Wrap(fault.KindOf(ctx.Err()), "filesystem.watch", ctx.Err())
		case <-s.cfg.Base.Done():
			return http.ErrAbortHandler
		}
		timer.Reset(ping)
	}
}

// pingOf returns the idle time after which the client wants a keepalive event.
func pingOf(h http.Header) time.Duration {
	seconds, err := strconv.ParseUint(h.Get("Keepalive-Ping-Interval"), 10, 16)
	if err != nil || seconds == 0 {
		return defaultPing
	}
	return time.Duration(seconds) * time.Second
}
