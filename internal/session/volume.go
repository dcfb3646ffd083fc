package session

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
)

// volumeFile is the file of a volume beside its content, volumeData its content.
const (
	volumeFile = "volume.json"
	volumeData = "data"
)

// userID owns the root folder of a volume: the user of the sandboxes.
const userID = 1000

var volumeName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// volume is a folder of the host that sessions can have. What is below its
// data is the users': no path there is ever resolved on the host.
type volume struct {
	dir string

	// Below is the file's; volumes.mu guards what changes.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant"`
	Subject  string    `json:"subject"`
	Created  time.Time `json:"created"`
	MaxBytes int64     `json:"max_bytes"`
	// Fence is the token of the last lease there was.
	Fence  uint64    `json:"fence,omitempty"`
	Holder string    `json:"holder,omitempty"`
	Ends   time.Time `json:"ends,omitzero"` // of the lease; zero without one

	// Not in the file.
	users    int // sessions that hold it
	used     volumeUse
	measured time.Time
	cost     time.Duration // of that
	gone     bool
}

// Volumes are the named folders of a node.
type Volumes struct {
	m   *Manager
	dir string

	// change is held while a volume's file is written, before mu.
	change sync.Mutex
	mu     sync.Mutex // guards all, and what changes of each
	all    map[string]*volume

	// begun tells watch of a session that begins to run.
	begun chan struct{}
}

func volumeKey(tenant, name string) string { return tenant + "\x00" + name }

// newVolumes finds the volumes of before. What is not whole is removed: a
// volume that was being made, or deleted.
func newVolumes(m *Manager) (*Volumes, error) {
	v := &Volumes{m: m, dir: filepath.Join(m.cfg.DataDir, "volumes"), all: map[string]*volume{}, begun: make(chan struct{}, 1)}
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(v.dir, e.Name())
		one := &volume{dir: dir}
		data, err := os.ReadFile(filepath.Join(dir, volumeFile))
		if err == nil {
			err = json.Unmarshal(data, one)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := removeVolume(dir); err != nil {
				return nil, err
			}
		case err != nil:
			// What users keep is not removed for a file that cannot be read.
			m.log.Error("a volume cannot be read, and is left alone", "volume", e.Name(), "error", err)
		default:
			v.all[volumeKey(one.Tenant, one.Name)] = one
		}
	}
	return v, nil
}

// find returns a principal's volume. Preconditions: mu is held.
func (v *Volumes) find(tenant, name string) (*volume, error) {
	if one := v.all[volumeKey(tenant, name)]; one != nil {
		return one, nil
	}
	return nil, &fault.Error{Kind: fault.NotFound, Op: "volume.find", Field: "name", Message: "there is no such volume"}
}

// save writes a volume's file. Preconditions: change is held.
func (one *volume) save() error {
	data, err := json.Marshal(one)
	if err == nil {
		err = atomicfile.Write(filepath.Join(one.dir, volumeFile), data)
	}
	return fault.Wrap(fault.Host, "volume.save", err)
}

// Create makes a volume. Errors: InvalidArgument, Conflict, Exhausted.
func (v *Volumes) Create(p noderpc.Principal, r protocol.VolumeCreate) (protocol.Volume, error) {
	const op = "volume.create"
	var none protocol.Volume
	if !volumeName.MatchString(r.Name) {
		return none, fault.Invalid(op, "name", "a volume's name has 1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or a digit")
	}
	most := v.m.cfg.MaxVolumeBytes
	if r.MaxBytes < 0 || r.MaxBytes > most {
		return none, fault.Invalid(op, "max_bytes", "a volume holds between 1 and %d bytes here", most)
	}
	v.change.Lock()
	defer v.change.Unlock()
	v.mu.Lock()
	n, taken := 0, v.all[volumeKey(p.Tenant, r.Name)] != nil
	for _, one := range v.all {
		if one.Tenant == p.Tenant {
			n++
		}
	}
	v.mu.Unlock()
	switch {
	case taken:
		return none, &fault.Error{Kind: fault.Conflict, Op: op, Field: "name", Message: "you have a volume of this name"}
	case n >= v.m.cfg.MaxVolumes:
		return none, fault.New(fault.Exhausted, op, "there are %d volumes, which is the limit; delete some", n)
	}
	id := "v_" + rand.Text()
	one := &volume{
		dir: filepath.Join(v.dir, id), ID: id, Name: r.Name, Tenant: p.Tenant, Subject: p.Subject,
		Created: time.Now(), MaxBytes: cmp.Or(r.MaxBytes, most),
	}
	data := filepath.Join(one.dir, volumeData)
	err := os.MkdirAll(data, 0o700)
	if err == nil {
		err = errors.Join(os.Chown(data, userID, userID), os.Chmod(data, 0o755))
	}
	if err == nil {
		err = one.save()
	}
	if err != nil {
		return none, fault.Wrap(fault.Host, op, errors.Join(err, os.RemoveAll(one.dir)))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all[volumeKey(one.Tenant, one.Name)] = one
	v.m.count.volumesCreated.Add(1)
	return one.view(), nil
}

// view is the volume as clients see it. Preconditions: mu is held.
func (one *volume) view() protocol.Volume {
	return protocol.Volume{
		Name: one.Name, CreatedMS: one.Created.UnixMilli(), MaxBytes: one.MaxBytes,
		Bytes: one.used.bytes, Files: one.used.files, Sessions: one.users, Lease: one.lease(time.Now()),
	}
}

// Get returns a volume, measured now.
func (v *Volumes) Get(p noderpc.Principal, name string) (protocol.Volume, error) {
	v.mu.Lock()
	one, err := v.find(p.Tenant, name)
	v.mu.Unlock()
	if err != nil {
		return protocol.Volume{}, err
	}
	v.measure(one)
	v.mu.Lock()
	defer v.mu.Unlock()
	return one.view(), nil
}

// List returns the tenant's volumes, sorted by name.
func (v *Volumes) List(p noderpc.Principal) protocol.VolumeList {
	out := protocol.VolumeList{Volumes: []protocol.Volume{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if one.Tenant == p.Tenant {
			out.Volumes = append(out.Volumes, one.view())
		}
	}
	slices.SortFunc(out.Volumes, func(a, b protocol.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Delete removes a volume that no session has.
func (v *Volumes) Delete(p noderpc.Principal, name string) error {
	const op = "volume.delete"
	v.change.Lock()
	v.mu.Lock()
	one, err := v.find(p.Tenant, name)
	if err == nil && one.users > 0 {
		err = &fault.Error{Kind: fault.Conflict, Op: op, Field: "name", Message: "the volume is in use by " + count(one.users, "session") + ", hibernated ones included; delete them first"}
	}
	if err == nil {
		one.gone = true
		delete(v.all, volumeKey(one.Tenant, one.Name))
	}
	v.mu.Unlock()
	if err == nil {
		// The file first: what is left of a removal that is cut short is removed at
		// the next start.
		err = fault.Wrap(fault.Host, op, os.Remove(filepath.Join(one.dir, volumeFile)))
	}
	v.change.Unlock()
	if err != nil {
		return err
	}
	return fault.Wrap(fault.Host, op, removeVolume(one.dir))
}

func count(n int, noun string) string {
	if n == 1 {
		return "one " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
