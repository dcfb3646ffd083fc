// Package channel runs the channels of sessions: kernels, processes and terminals, each with a log
// of its output.
package channel

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/stream"
)

// LogsConfig configures Logs.
type LogsConfig struct {
	// Dir is the folder of all logs. A channel's log is in Dir/SESSION/CHANNEL.
	Dir string
	// Memory and Disk limit each log, in bytes.
	Memory, Disk int64
	Logger       *slog.Logger
}

// Logs are the logs of all channels of a node. Its methods are safe for concurrent use.
type Logs struct {
	cfg LogsConfig

	mu   sync.Mutex // guards all below; a leaf
	open map[*stream.Log]*account
	// accounts count the bytes on disk of the logs of each holder.
	accounts map[admission.Holder]*account
	closed   stream.LogStats // the counters of the logs that were closed
}

// NewLogs returns an empty collection. The folder exists.
func NewLogs(cfg LogsConfig) *Logs {
	return &Logs{
		cfg: cfg, open: map[*stream.Log]*account{}, accounts: map[admission.Holder]*account{},
	}
}

// Dir returns the folder of a session's logs.
func (x *Logs) Dir(session string) string { return filepath.Join(x.cfg.Dir, session) }

// Memory returns how many bytes a log holds in memory at most.
func (x *Logs) Memory() int64 { return x.cfg.Memory }

// Create returns a new log for a channel of a holder's session.
func (x *Logs) Create(h admission.Holder, session, channel string) (*stream.Log, error) {
	a := x.account(h)
	return x.add(a, func() (*stream.Log, error) {
		return stream.NewLog(x.options(a, session, channel))
	})
}

// Open returns the log of a channel that was saved.
func (x *Logs) Open(h admission.Holder, session, channel string, saved stream.Saved,
) (*stream.Log, error) {
	a := x.account(h)
	return x.add(a, func() (*stream.Log, error) {
		return stream.OpenLog(x.options(a, session, channel), saved)
	})
}

func (x *Logs) options(a *account, session, channel string) stream.LogOptions {
	return stream.LogOptions{
		Dir: filepath.Join(x.Dir(session), channel), Memory: x.cfg.Memory,
		Disk: x.cfg.Disk, Account: a,
	}
}

func (x *Logs) add(a *account, open func() (*stream.Log, error)) (*stream.Log, error) {
	l, err := open()
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil {
		x.uncountLog(a)
		return nil, err
	}
	x.open[l] = a
	return l, nil
}

// Save closes a log and keeps its files.
func (x *Logs) Save(l *stream.Log) (stream.Saved, error) {
	defer x.closeAccount(x.unlist(l))
	return l.Save()
}

// Drop closes a log and removes its files. It does nothing for a log that is closed.
func (x *Logs) Drop(l *stream.Log) {
	a := x.unlist(l)
	if a == nil {
		return
	}
	defer x.closeAccount(a)
	if err := l.Close(); err != nil {
		x.cfg.Logger.Warn("a log was not wholly removed", "error", err)
	}
}

// RemoveDir removes the folder of a session's logs if it is empty. While a log is still read, the
// folder stays, and the log's last reader calls RemoveDir again.
func (x *Logs) RemoveDir(session string) { _ = os.Remove(x.Dir(session)) }

// unlist removes a log from the collection and keeps its counters. It returns the log's account, or
// nil for a log that is closed. The caller releases the account when the log's files are gone.
func (x *Logs) unlist(l *stream.Log) *account {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.open[l]
	if a == nil {
		return nil
	}
	delete(x.open, l)
	addCounters(&x.closed, l.Stats())
	return a
}

// Sweep removes the folders of sessions that keep does not accept.
func (x *Logs) Sweep(keep func(session string) bool) error {
	entries, err := os.ReadDir(x.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if keep(e.Name()) {
			continue
		}
		if err := os.RemoveAll(x.Dir(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Close drops all logs and removes the folders that are empty. Folders with saved logs stay.
func (x *Logs) Close() {
	x.mu.Lock()
	all := x.open
	x.open, x.accounts = map[*stream.Log]*account{}, map[admission.Holder]*account{}
	x.mu.Unlock()
	var errs []error
	for l := range all {
		errs = append(errs, l.Close())
	}
	if err := errors.Join(errs...); err != nil {
		x.cfg.Logger.Warn("logs were not wholly removed", "error", err)
	}
	entries, _ := os.ReadDir(x.cfg.Dir)
	for _, e := range entries {
		_ = os.Remove(x.Dir(e.Name())) // fails for a folder with saved logs
	}
	_ = os.Remove(x.cfg.Dir)
}

// Stats adds up the statistics of all logs. The counters include the logs that were saved or
// dropped; the bytes and readers are those of open logs.
func (x *Logs) Stats() stream.LogStats {
	x.mu.Lock()
	defer x.mu.Unlock()
	sum := x.closed
	for l := range x.open {
		s := l.Stats()
		addCounters(&sum, s)
		sum.MemoryBytes += s.MemoryBytes
		sum.DiskBytes += s.DiskBytes
		sum.Readers += s.Readers
	}
	return sum
}

// addCounters adds the fields of s that only grow.
func addCounters(sum *stream.LogStats, s stream.LogStats) {
	sum.Records += s.Records
	sum.Joined += s.Joined
	sum.DroppedBytes += s.DroppedBytes
	sum.SpilledBytes += s.SpilledBytes
	sum.SpillErrors += s.SpillErrors
	sum.ReadErrors += s.ReadErrors
	sum.Stalls += s.Stalls
	sum.Gaps += s.Gaps
}

// RestLogs frees the memory of the logs of all channels of a set. The caller expects no output for a
// while.
func RestLogs(x *Set) {
	for _, c := range x.All() {
		c.log.Rest()
	}
}
