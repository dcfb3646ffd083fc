package archive

import (
	"context"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// listed is a blob store in memory that has only the times of its objects.
type listed struct {
	mu    sync.Mutex // guards times
	times map[string]time.Time
}

func (l *listed) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, there := l.times[name]
	return there
}

func (l *listed) Put(_ context.Context, name string, write func(io.Writer) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.times[name] = time.Now()
	return write(io.Discard)
}

func (l *listed) Get(context.Context, string) (io.ReadCloser, error) {
	return nil, fault.New(fault.NotFound, "test", "there is no content")
}

func (l *listed) Remove(_ context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.times, name)
	return nil
}

func (l *listed) Walk(_ context.Context, folder string, f func(string, time.Time) error) error {
	l.mu.Lock()
	times := maps.Clone(l.times)
	l.mu.Unlock()
	for name, changed := range times {
		if !strings.HasPrefix(name, folder+"/") {
			continue
		}
		if err := f(name, changed); err != nil {
			return err
		}
	}
	return nil
}

// TestRunRemovesOldRecords: a node that runs removes the records of a node that has gone once they are
// older than Keep, within an hour.
func TestRunRemovesOldRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := root + "/" + FolderOf("gone", "0123") + "/" + alive
		s := &listed{times: map[string]time.Time{gone: time.Now()}}
		a := archiveOf(s, FolderOf("n1", "0123")) // it keeps records for an hour
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.Run(ctx); close(done) }()
		<-time.After(59 * time.Minute)
		synctest.Wait()
		if !s.has(gone) {
			t.Error("the records were removed too early")
		}
		<-time.After(62 * time.Minute)
		synctest.Wait()
		if s.has(gone) {
			t.Error("the old records were not removed")
		}
		cancel()
		<-done
	})
}
