package filesystem

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/sandgate/sandgate/gateway/e2b/envd/user"
	"github.com/sandgate/sandgate/gateway/e2b/envd/wire"
	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of watchers, whose events clients ask for.
const (
	maxWatchers   = 1024   // on one gateway
	maxOfSession  = 16     // in one sandbox
	maxWaiting    = 10_000 // events that wait in one watcher
	watcherUnused = time.Hour
)

// watcherKey names a watcher. A client can only name those of its own sandbox.
type watcherKey struct{ session, id string }

// watchers are the watchers of all sandboxes. They live in the memory of one gateway.
type watchers struct {
	mu     sync.Mutex // guards all below
	all    map[watcherKey]*watcher
	counts map[string]int // by session
	closed bool
}

// watcher keeps the events of a watch until the client asks for them.
type watcher struct {
	cancel func() // ends the watch
	timer  *time.Timer

	mu     sync.Mutex // guards all below; a leaf
	events []*wire.FilesystemEvent
	lost   bool
	err    error // the watch has ended
}

func newWatchers() *watchers {
	return &watchers{all: map[watcherKey]*watcher{}, counts: map[string]int{}}
}

// reserve counts a watcher of a session. Errors: Exhausted.
func (all *watchers) reserve(session string) error {
	all.mu.Lock()
	defer all.mu.Unlock()
	total := 0
	for _, n := range all.counts {
		total += n
	}
	switch {
	case all.closed:
		return fault.New(fault.Unavailable, "filesystem.watcher", "the server ends")
	case all.counts[session] >= maxOfSession:
		return fault.New(fault.Exhausted, "filesystem.watcher", "a sandbox has at most %d watchers",
			maxOfSession)
	case total >= maxWatchers:
		return fault.New(fault.Exhausted, "filesystem.watcher", "the server has %d watchers",
			maxWatchers)
	}
	all.counts[session]++
	return nil
}

// uncount is the opposite of reserve.
func (all *watchers) uncount(session string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.counts[session]--; all.counts[session] == 0 {
		delete(all.counts, session)
	}
}

// add adds a watcher, which removes itself after it was not used for a time.
func (all *watchers) add(key watcherKey, w *watcher) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.all[key] = w
	w.timer = time.AfterFunc(watcherUnused, func() { all.remove(key) })
	if all.closed {
		w.cancel()
	}
}

// find returns a watcher and starts its time again. It returns nil if there is none.
func (all *watchers) find(key watcherKey) *watcher {
	all.mu.Lock()
	defer all.mu.Unlock()
	w := all.all[key]
	if w != nil {
		w.timer.Reset(watcherUnused)
	}
	return w
}

// remove ends a watcher. It returns false if there is none.
func (all *watchers) remove(key watcherKey) bool {
	all.mu.Lock()
	w := all.all[key]
	delete(all.all, key)
	all.mu.Unlock()
	if w == nil {
		return false
	}
	w.timer.Stop()
	w.cancel()
	all.uncount(key.session)
	return true
}

// close ends all watchers, and refuses new ones.
func (all *watchers) close() {
	all.mu.Lock()
	all.closed = true
	var keys []watcherKey
	for key := range all.all {
		keys = append(keys, key)
	}
	all.mu.Unlock()
	for _, key := range keys {
		all.remove(key)
	}
}

// collect keeps the events of a watch until it ends.
func (w *watcher) collect(from *watch) error {
	for {
		c, err := from.next()
		w.mu.Lock()
		w.lost = w.lost || c.lost
		if len(w.events)+len(c.events) > maxWaiting {
			w.lost = true
		} else {
			w.events = append(w.events, c.events...)
		}
		w.err = err
		w.mu.Unlock()
		if err != nil || c.ended {
			return err
		}
	}
}

// collected returns the events that wait. The error comes after them.
func (w *watcher) collected() ([]*wire.FilesystemEvent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	switch {
	case w.lost:
		w.lost = false
		return nil, lostError()
	case len(events) == 0 && w.err != nil:
		return nil, w.err
	case events == nil:
		events = []*wire.FilesystemEvent{}
	}
	return events, nil
}

// createWatcher watches a folder until the watcher is removed or not used for an hour.
func (s *Service) createWatcher(ctx context.Context, h http.Header, r *wire.CreateWatcherRequest) (
	*wire.CreateWatcherResponse, error,
) {
	t := s.cfg.Target(ctx)
	if err := s.watchers.reserve(t.Session); err != nil {
		return nil, err
	}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(s.cfg.Base, cancel)
	watching, err := s.startWatch(life, h, &wire.WatchDirRequest{
		Path: r.Path, Recursive: r.Recursive, IncludeEntry: r.IncludeEntry,
	})
	if err != nil {
		stop()
		cancel()
		s.watchers.uncount(t.Session)
		return nil, err
	}
	var id [12]byte
	_, _ = rand.Read(id[:]) // never fails
	key := watcherKey{t.Session, "w" + hex.EncodeToString(id[:])}
	w := &watcher{cancel: cancel}
	s.watchers.add(key, w)
	go func() {
		defer stop()
		defer watching.close()
		if err := w.collect(watching); errors.Is(err, http.ErrAbortHandler) {
			s.watchers.remove(key) // the sandbox has ended
		}
	}()
	return &wire.CreateWatcherResponse{WatcherID: key.id}, nil
}

func (s *Service) watcherEvents(ctx context.Context, h http.Header,
	r *wire.GetWatcherEventsRequest,
) (*wire.GetWatcherEventsResponse, error) {
	if err := user.CheckHeader(h); err != nil {
		return nil, err
	}
	w := s.watchers.find(watcherKey{s.cfg.Target(ctx).Session, r.WatcherID})
	if w == nil {
		return nil, noWatcher(r.WatcherID)
	}
	events, err := w.collected()
	if err != nil {
		return nil, err
	}
	return &wire.GetWatcherEventsResponse{Events: events}, nil
}

func (s *Service) removeWatcher(ctx context.Context, h http.Header, r *wire.RemoveWatcherRequest) (
	*wire.RemoveWatcherResponse, error,
) {
	if err := user.CheckHeader(h); err != nil {
		return nil, err
	}
	if !s.watchers.remove(watcherKey{s.cfg.Target(ctx).Session, r.WatcherID}) {
		return nil, noWatcher(r.WatcherID)
	}
	return &wire.RemoveWatcherResponse{}, nil
}

func noWatcher(id string) error {
	return wire.NewError(connect.CodeNotFound, "there is no watcher with the id "+
		wireText(id)+"; it was removed, or not used for an hour")
}

// wireText bounds a text of a client in a message.
func wireText(s string) string { return s[:min(len(s), 64)] }
