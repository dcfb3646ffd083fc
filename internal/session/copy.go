package session

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/kernel/queue"
	"github.com/sandgate/sandgate/stream"
)

// stillLimit bounds what is done while a session stands still, beside the
// writing of its memory.
const stillLimit = 10 * time.Second

// partial ends the name of a copy that is being written, or removed.
const partial = ".partial"

// A copy of a session is a folder: snapshot/ holds its sandbox, logs/ a folder
// for each channel's log, and session.json all else. It has its name once it
// is whole. What goes on from a copy leaves it as it is.

// captured is a session as it was at one moment.
type captured struct {
	saved saved
	forks []*stream.Fork // of the channels' logs, in their order
	at    time.Time
	pause time.Duration
}

// copied is the file session.json of a copy.
type copied struct {
	saved
	At      time.Time     `json:"at"`
	Pause   time.Duration `json:"pause"`
	ID      string        `json:"copy,omitempty"` // a snapshot's
	Label   string        `json:"label,omitempty"`
	Ends    time.Time     `json:"ends,omitzero"`
	Session string        `json:"of"`
	Bytes   int64         `json:"bytes"`
}

// copyTo makes a copy of the session as it is now in dir. It calls release,
// which releases lifecycle, when the session goes on, which is before the
// copy is on disk. Preconditions: lifecycle is held, no request is under way, and
// the machine runs.
func (s *Session) copyTo(ctx context.Context, dir string, volatile bool, release func(*captured)) (*captured, error) {
	s.lifecycle.Held()
	var st *captured
	var taken time.Duration
	machine := s.currentMachine()
	if !s.m.cfg.Backend.Capabilities().Fork {
		release(nil)
		return nil, fault.New(fault.Unsupported, "session.copy", "this server cannot copy sessions")
	}
	parking, cancel := context.WithTimeout(ctx, parkLimit)
	defer cancel()
	if err := s.agent.Quiesce(parking); err != nil {
		release(nil)
		return nil, err
	}
	begin := time.Now()
	resumed := sync.OnceFunc(func() {
		s.agent.Unquiesce()
		taken = time.Since(begin)
		release(st)
	})
	defer resumed()
	// What has begun is ended, whatever becomes of the one who asked.
	err := machine.Snapshot(context.WithoutCancel(ctx), filepath.Join(dir, "snapshot"), sandbox.SnapshotOptions{
		Volatile: volatile,
		Paused: func() (err error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stillLimit)
			defer cancel()
			st, err = s.capture(ctx)
			return err
		},
		Resumed: resumed,
	})
	if err != nil {
		return nil, err
	}
	st.pause = taken
	return st, st.write(dir)
}

func (s *Session) currentMachine() sandbox.Machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine
}

// ensureRunning resumes the machine if it is paused or hibernated.
// Preconditions: lifecycle is held.
func (s *Session) ensureRunning(ctx context.Context) error {
	s.lifecycle.Held()
	s.mu.Lock()
	state, machine := s.state, s.machine
	s.mu.Unlock()
	switch state {
	case lost:
		return s.LostError()
	case hibernated:
		return s.wake(ctx)
	case paused:
		if err := machine.SetPaused(ctx, false); err != nil {
			return err
		}
		s.m.count.resumes.Add(1)
		if !s.enter(running) {
			return s.LostError()
		}
	}
	return nil
}

// capture records the session while its machine is paused.
func (s *Session) capture(ctx context.Context) (*captured, error) {
	wire, err := s.agent.Capture(ctx)
	if err != nil {
		return nil, err
	}
	v, all := s.header()
	st := &captured{at: time.Now()}
	for _, c := range all {
		sc := c.header()
		if c.queue != nil {
			q, d, err := c.queue.Copy(ctx, s.outstanding)
			if err != nil {
				return nil, err
			}
			if d, ok := d.(*driver); ok {
				sc.Wire = d.wire
			}
			sc.Queue = &q
		}
		st.forks = append(st.forks, c.log.Fork())
		c.state(&sc)
		v.Channels = append(v.Channels, sc)
	}
	v.Agent = wire
	s.wires(v)
	st.saved = *v
	return st, nil
}

// outstanding reports whether a driver owes the reply to an execute.
func (s *Session) outstanding(d queue.Driver) bool {
	own, ok := d.(*driver)
	return ok && s.agent.Kernels.Outstanding(own.wire)
}

// write adds the logs to a copy's folder.
func (st *captured) write(dir string) error {
	for i := range st.saved.Channels {
		c := &st.saved.Channels[i]
		var err error
		if c.Log, err = st.forks[i].Write(filepath.Join(dir, "logs", c.ID)); err != nil {
			return err
		}
	}
	st.forks = nil
	return nil
}

// detach changes the record of a session into the one that a copy begins with.
func (v *saved) detach(passed time.Duration) {
	for i := range v.Channels {
		c := &v.Channels[i]
		if c.Queue != nil {
			q := c.Queue.ForClone(owed(v.Agent, c.Wire), passed)
			c.Queue = &q
		}
	}
}

func owed(a client.Saved, wire uint32) bool { return a.Flows[wire].Asked != 0 }

// commit completes a copy: it writes all to the disk and gives the copy its name.
func commit(dir string, c *copied) error {
	work := dir + partial
	size, err := sizeOfTree(work)
	if err != nil {
		return err
	}
	c.Bytes = size
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(work, "session.json"), data); err != nil {
		return err
	}
	if err := syncTree(filepath.Join(work, "logs")); err != nil {
		return err
	}
	for _, d := range []string{work, filepath.Dir(dir)} {
		if d != work {
			if err := os.Rename(work, dir); err != nil {
				return err
			}
		}
		if err := syncPath(d); err != nil {
			return err
		}
	}
	return nil
}

// readCopy reads the file of a copy.
func readCopy(dir string) (*copied, error) {
	const op = "session.copy"
	data, err := os.ReadFile(filepath.Join(dir, "session.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.NotFound, op, "there is no such copy")
	}
	if err != nil {
		return nil, fault.Wrap(fault.Host, op, err)
	}
	c := new(copied)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fault.Wrap(fault.Malformed, op, err)
	}
	if c.Version != savedVersion {
		return nil, fault.New(fault.Conflict, op, "the copy is of version %d", c.Version)
	}
	return c, nil
}

// removeCopy removes a copy so that a crash half way leaves none that looks
// whole.
func removeCopy(dir string) error {
	gone := dir + partial
	if err := os.RemoveAll(gone); err != nil {
		return err
	}
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(gone)
}

// sizeOfTree is how many bytes the files below dir have.
func sizeOfTree(dir string) (n int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// syncTree brings the files below dir, and their names, to the disk.
func syncTree(dir string) error {
	err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncPath(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a session without channels
	}
	return err
}

func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// linkTree makes a folder whose files are those of another. It takes no space.
func linkTree(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
