package session

import (
	"context"
	"time"

	"github.com/sandgate/sandgate/internal/volume"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// volumeUser is a session as package volume sees it. It implements volume.Session.
type volumeUser struct{ *Session }

// volumeUsers returns the sessions with volumes.
func (m *Manager) volumeUsers() []volume.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []volume.Session
	for _, s := range m.sessions {
		if len(s.volumes.Mounts()) > 0 {
			all = append(all, volumeUser{s})
		}
	}
	return all
}

func (u volumeUser) Hold() *volume.Hold { return u.volumes }

func (u volumeUser) Running() bool { return u.is(running) }

func (u volumeUser) NotifyFull(name, limit string, bytes int64) {
	for _, c := range u.channels.All() {
		if c.Queue() != nil {
			c.NoteLimit(0, protocol.Reached{
				Limit: limit, Max: bytes,
				Lost: "the right to write to the volume " + name,
			})
		}
	}
}

func (u volumeUser) LockVolume(name string) (locked bool, err error) {
	machine := u.currentMachine()
	if machine == nil || !u.m.cfg.Backend.Capabilities().LiveMounts {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(u.life, time.Minute)
	defer cancel()
	err = machine.LockVolume(ctx, name)
	if err != nil && !fault.Is(err, fault.Conflict) && (u.IsLost() || !u.is(running)) {
		return false, nil
	}
	return err == nil, err
}

func (u volumeUser) End(message string) {
	u.m.work.Go(func() { u.lose("killed", message) })
}
