package snapshot

import (
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/stream"
)

// Capture is the state of a session at one moment. Its memory is already in a folder, and its logs
// are not yet.
type Capture struct {
	Record Record
	Forks  []*stream.Fork // forks of the channels' logs, in their order
	At     time.Time
	// Pause is how long the session was paused for the capture.
	Pause time.Duration
}

// Manifest returns the manifest of the copy of a session.
func (c *Capture) Manifest(session string) *Manifest {
	return &Manifest{Record: c.Record, At: c.At, Pause: c.Pause, Session: session}
}

// WriteLogs adds the logs to the folder of the copy. It may be called once.
func (c *Capture) WriteLogs(dir string) error {
	for i := range c.Record.Channels {
		ch := &c.Record.Channels[i]
		var err error
		if ch.Log, err = c.Forks[i].Write(filepath.Join(dir, "logs", ch.ID)); err != nil {
			return err
		}
	}
	c.Forks = nil
	return nil
}
