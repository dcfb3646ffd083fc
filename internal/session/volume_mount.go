package session

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/warm"
	"github.com/sandgate/sandgate/protocol"
)

// held are the volumes of one session, from before its sandbox is made until
// after it is gone.
type held struct {
	mounts  []protocol.Mount
	volumes []*volume // in the order of mounts
	release func()

	mu     sync.Mutex // guards all below
	locked map[*volume]bool
	told   map[*volume]bool
	found  map[*volume]foundUse
}

// foundUse is what a volume held when a session was first seen to have it, or
// less, if it has shrunk since.
type foundUse struct {
	bytes int64
	at    time.Time
}

// checkMounts holds against the rules what a session asks for.
func checkMounts(op string, mounts []protocol.Mount) error {
	if len(mounts) > protocol.MaxMounts {
		return fault.Invalid(op, "volumes", "a session has at most %d volumes", protocol.MaxMounts)
	}
	names, paths := map[string]bool{}, map[string]bool{}
	for i, one := range mounts {
		field := fmt.Sprintf("volumes[%d].", i)
		if !volumeName.MatchString(one.Name) || names[one.Name] {
			return fault.Invalid(op, field+"name", "name each volume once")
		}
		names[one.Name] = true
		if one.Path == "" {
			continue
		}
		if err := CheckPath(op, field+"path", one.Path); err != nil {
			return err
		}
		below := strings.HasPrefix(one.Path, wire.Home+"/") || strings.Count(one.Path, "/") == 1
		if !filepath.IsAbs(one.Path) || filepath.Clean(one.Path) != one.Path || one.Path == "/" || !below || paths[one.Path] {
			return fault.Invalid(op, field+"path", "a link to a volume is a new name in %s, or directly below /, without . and ..", wire.Home)
		}
		paths[one.Path] = true
	}
	return nil
}

// withVolumes are the volumes of a session of a template: its own, and those of
// the template that it does not name itself.
func withVolumes(own, template []protocol.Mount) []protocol.Mount {
	all := slices.Clone(own)
	for _, one := range template {
		if !slices.ContainsFunc(own, func(o protocol.Mount) bool { return o.Name == one.Name }) {
			all = append(all, one)
		}
	}
	return all
}

// hold keeps volumes from being deleted while a session has them. Those behind
// the first own are its template's.
func (v *Volumes) hold(tenant string, mounts []protocol.Mount, own int) (*held, error) {
	h := &held{mounts: mounts, release: func() {}, locked: map[*volume]bool{}, told: map[*volume]bool{}, found: map[*volume]foundUse{}}
	if len(mounts) == 0 {
		return h, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, mount := range mounts {
		one, err := v.find(tenant, mount.Name)
		if err != nil {
			field, of := fmt.Sprintf("volumes[%d].name", i), ""
			if i >= own {
				field, of = "template", ", which sessions of this template have: create it first"
			}
			return nil, &fault.Error{Kind: fault.NotFound, Op: "volume.hold", Field: field, Message: fmt.Sprintf("there is no volume %.64q%s", mount.Name, of)}
		}
		h.volumes = append(h.volumes, one)
	}
	for _, one := range h.volumes {
		one.users++
	}
	h.release = sync.OnceFunc(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, one := range h.volumes {
			one.users--
		}
	})
	return h, nil
}

// sources are what a sandbox mounts.
func (h *held) sources() []sandbox.Volume {
	var out []sandbox.Volume
	for i, one := range h.volumes {
		out = append(out, sandbox.Volume{Name: one.Name, Dir: filepath.Join(one.dir, volumeData), ReadOnly: h.mounts[i].ReadOnly})
	}
	return out
}

// mount puts the volumes into a member that was claimed, and makes the links.
// live reports whether the backend can do that.
func (h *held) mount(ctx context.Context, mb *warm.Instance, live bool) error {
	const op = "session.create"
	if len(h.volumes) == 0 {
		return nil
	}
	if !live {
		return &fault.Error{Kind: fault.Unsupported, Op: op, Field: "volumes", Message: "this server has no volumes"}
	}
	if err := mb.Machine.Mount(ctx, h.sources()...); err != nil {
		return err
	}
	for i, one := range h.mounts {
		if one.Path == "" {
			continue
		}
		err := mb.Agent.Files.Link(ctx, wire.FileLink{Path: one.Path, Target: sandbox.VolumesPath + "/" + one.Name})
		if err != nil {
			return &fault.Error{Kind: fault.KindOf(err), Op: op, Field: fmt.Sprintf("volumes[%d].path", i), Message: fault.PublicOf(err).Message, Err: err}
		}
	}
	return nil
}

// A volume that a session can write to is measured as soon as it could be full,
// were it written to with volumeRate bytes a second: at least every
// volumeEvery, at most every volumeSoon, and in a tenth of the time. What is
// written faster goes as far beyond the limit.
const (
	volumeEvery = 5 * time.Second
	volumeSoon  = 50 * time.Millisecond
	volumeRate  = 1 << 30
)

// measure looks at what a volume holds, unless that was done a moment ago: in
// more than a tenth of the time nobody measures.
func (v *Volumes) measure(one *volume) {
	v.mu.Lock()
	fresh := one.gone || time.Since(one.measured) < max(10*one.cost, 20*time.Millisecond)
	v.mu.Unlock()
	if fresh {
		return
	}
	began := time.Now()
	u, err := useOf(filepath.Join(one.dir, volumeData))
	if err != nil {
		v.m.log.Warn("a volume could not be measured", "volume", one.ID, "error", err)
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	one.used, one.measured, one.cost = u, time.Now(), time.Since(began)
}

// wait is how long a volume need not be measured that was measured just now.
func (v *Volumes) wait(one *volume) time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	free := max(0, one.MaxBytes-one.used.bytes)
	soon := time.Duration(float64(free) / volumeRate * float64(time.Second))
	return min(max(soon, volumeSoon, 10*one.cost), max(v.m.cfg.VolumeEvery, 10*one.cost))
}

// volumeSlack is how much a session may write to a volume that it found full,
// to tidy up there.
const volumeSlack = 1 << 20

// full reports whether a volume holds more than it may because of that session:
// one who finds it full may tidy up, as long as it does not grow; where there
// is more than can be counted, for volumeEvery.
func (v *Volumes) full(one *volume, h *held) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	f, known := h.found[one]
	if !known {
		f = foundUse{one.used.bytes, time.Now()}
	}
	f.bytes = min(f.bytes, one.used.bytes)
	h.found[one] = f
	if one.used.beyond {
		return time.Since(f.at) >= volumeEvery
	}
	return one.used.bytes > max(one.MaxBytes, f.bytes+volumeSlack)
}

// volumeOver is how far beyond its limit a volume may be written to through
// files that were open: an eighth of the limit, or volumeOver where that is
// less, but no more than twice the limit.
const volumeOver = 64 << 20

// over reports whether a volume holds more than that.
func (v *Volumes) over(one *volume) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return one.used.bytes-one.MaxBytes > min(one.MaxBytes, max(one.MaxBytes/8, volumeOver))
}

// watch measures the volumes that sessions write to, until the manager closes,
// and makes the full ones read-only for those sessions.
func (v *Volumes) watch() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := map[*volume]time.Time{}
	for {
		select {
		case <-v.m.ctx.Done():
			return
		case <-v.begun:
		case <-timer.C:
		}
		timer.Reset(v.look(due))
	}
}

// begin has a session's volumes looked at that can be written to from now on.
func (h *held) begin(v *Volumes) {
	if len(h.volumes) == 0 {
		return
	}
	select {
	case v.begun <- struct{}{}:
	default: // it is about to
	}
}

// look measures the volumes that are due, and returns when the next is.
func (v *Volumes) look(due map[*volume]time.Time) time.Duration {
	v.m.mu.Lock()
	all := make([]*Session, 0, len(v.m.sessions))
	for _, s := range v.m.sessions {
		if len(s.volumes.volumes) > 0 {
			all = append(all, s)
		}
	}
	v.m.mu.Unlock()
	seen := map[*volume]bool{}
	for _, s := range all {
		if !s.is(running) {
			continue // it writes nothing, and tells when it does
		}
		for i, one := range s.volumes.volumes {
			if s.volumes.mounts[i].ReadOnly || s.volumes.isLocked(one) {
				continue
			}
			if !seen[one] && !time.Now().Before(due[one]) {
				v.measure(one)
				due[one] = time.Now().Add(v.wait(one))
			}
			seen[one] = true
			if v.full(one, s.volumes) {
				s.lockVolume(one)
			}
		}
	}
	next := v.m.cfg.VolumeEvery
	for one, at := range due {
		if !seen[one] {
			delete(due, one)
			continue
		}
		next = min(next, time.Until(at))
	}
	return max(next, volumeSoon/10)
}

func (h *held) isLocked(one *volume) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.locked[one]
}

// lockVolume makes a volume that is full read-only for the session, and tells
// its kernels. While files there are open to be written it tries again; a
// session that goes on writing to one, far beyond the limit, is lost.
func (s *Session) lockVolume(one *volume) {
	h := s.volumes
	h.mu.Lock()
	locked, told := h.locked[one], h.told[one]
	h.told[one] = true
	h.mu.Unlock()
	if locked {
		return
	}
	if !told {
		s.m.count.volumesFull.Add(1)
		for _, c := range s.Channels() {
			if c.queue != nil {
				c.noteLimit(0, protocol.Reached{Limit: "volume_bytes", Max: one.MaxBytes, Lost: "the right to write to the volume " + one.Name})
			}
		}
	}
	machine := s.currentMachine()
	if machine == nil || !s.m.cfg.Backend.Capabilities().LiveMounts {
		return
	}
	ctx, cancel := context.WithTimeout(s.life, time.Minute)
	defer cancel()
	err := machine.LockVolume(ctx, one.Name)
	if err != nil {
		if !fault.Is(err, fault.Conflict) && !s.IsLost() && s.is(running) {
			s.m.log.Warn("a full volume was not made read-only", "session", s.id, "volume", one.ID, "error", err)
		}
		if fault.Is(err, fault.Conflict) && s.m.volumes.over(one) {
			s.m.work.Go(func() { s.lose("killed", "it has written far more to the volume "+one.Name+" than that may hold") })
		}
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.locked[one] = true
}

// forget begins anew with another machine: what was read-only is not any more.
func (h *held) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.locked)
	clear(h.told)
	clear(h.found)
}
