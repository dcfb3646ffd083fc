// Package volume keeps the volumes of a node: named folders that outlive sessions
// and that sessions can share. It measures them, holds them while sessions have
// them, and leases them.
package volume

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sandgate/sandgate/internal/atomicfile"
	"github.com/sandgate/sandgate/internal/noderpc"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// A volume's folder has a file with its record, and a folder with its content.
const (
	recordFile = "volume.json"
	dataFolder = "data"
)

// userID owns the root folder of a volume: the user of the sandboxes.
const userID = 1000

var validName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// volume is a folder of the host that sessions can have. Its content belongs to
// the users: the host never resolves a path there.
type volume struct {
	dir string

	// The record. Store.mu guards the fields that change.
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Tenant   string    `json:"tenant"`
	Subject  string    `json:"subject"`
	Created  time.Time `json:"created"`
	MaxBytes int64     `json:"max_bytes"`
	// Fence is the token of the last lease.
	Fence  uint64    `json:"fence,omitempty"`
	Holder string    `json:"holder,omitempty"`
	Ends   time.Time `json:"ends,omitzero"` // the end of the lease; zero without one

	// The fields below are not in the record.
	users    int // sessions that hold it
	used     usage
	measured time.Time
	cost     time.Duration // the duration of the last measurement
	stale    bool          // a session may have written to it since
	grows    bool          // it held more at the last measurement than at the one before
	gone     bool
	// measuring is set while Watch measures it.
	measuring bool
}

// Config has the settings of a Store.
type Config struct {
	// Dir is the folder with the volumes.
	Dir string
	// Max is the number of volumes that a tenant may have, MaxBytes the most
	// that one volume may hold.
	Max      int
	MaxBytes int64
	// Every is the longest time between two measurements of a volume that a
	// session writes to. Default DefaultEvery.
	Every time.Duration
	// Names has the names of the volumes of all nodes; nil means that there is no other node.
	Names Names
	// Admit returns an error if a tenant and subject may not create a volume; nil admits all.
	Admit func(op, tenant, subject string) error
	// DiskFull reports whether a tenant or a subject has used up its quota of disk space, and the
	// quota in bytes; nil means never.
	DiskFull func(tenant, subject string) (quota int64, full bool)
	// Log receives warnings.
	Log *slog.Logger
}

// Store has the volumes of a node.
//
// Lock order: change, mu, Hold.mu. None is held over a call to a session.
type Store struct {
	cfg Config
	// created and exceeded count volumes that were created, and times that a
	// session found a volume beyond its limit.
	created, exceeded atomic.Int64

	// change is held while a record is written.
	change sync.Mutex
	mu     sync.Mutex // guards volumes, and the fields of each volume that change
	all    map[string]*volume
	// unfreed are volumes that are gone and whose names could not be freed.
	unfreed []*volume

	// begun wakes Watch when a session begins to run, or a long measurement has ended.
	begun chan struct{}
	// tree measures a folder. pending has the measurements of Watch, and slow is held by those that
	// take long.
	tree    func(path string) (usage, error)
	pending sync.WaitGroup
	slow    sync.Mutex
}

func key(tenant, name string) string { return tenant + "\x00" + name }

// New opens the store in cfg.Dir. It removes volumes that are incomplete,
// because their creation or removal was interrupted.
func New(cfg Config) (*Store, error) {
	cfg.Every = cmp.Or(cfg.Every, DefaultEvery)
	v := &Store{
		cfg: cfg, all: map[string]*volume{}, begun: make(chan struct{}, 1), tree: measureTree,
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fault.Wrap(fault.Host, "volume.open", err)
	}
	if err := v.load(); err != nil {
		return nil, fault.Wrap(fault.Host, "volume.open", err)
	}
	return v, nil
}

// Counts returns how many volumes were created, and how often a session found a
// volume beyond its limit, since New.
func (v *Store) Counts() (created, exceeded int64) { return v.created.Load(), v.exceeded.Load() }

// load reads the records of all volumes.
func (v *Store) load() error {
	entries, err := os.ReadDir(v.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(v.cfg.Dir, e.Name())
		one := &volume{dir: dir}
		data, err := os.ReadFile(filepath.Join(dir, recordFile))
		if err == nil {
			err = json.Unmarshal(data, one)
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := removeTree(dir); err != nil {
				return err
			}
		case err != nil:
			// Users' data stays although its record cannot be read.
			v.cfg.Log.Error("a volume cannot be read; it is kept", "volume", e.Name(), "error", err)
		default:
			one.stale = true
			v.all[key(one.Tenant, one.Name)] = one
		}
	}
	return nil
}

// find returns a tenant's volume. Preconditions: mu is held.
func (v *Store) find(tenant, name string) (*volume, error) {
	if one := v.all[key(tenant, name)]; one != nil {
		return one, nil
	}
	return nil, &fault.Error{
		Kind: fault.NotFound, Op: "volume.find", Field: "name",
		Message: "there is no such volume",
	}
}

// save writes a volume's record. Preconditions: change is held.
func (one *volume) save() error {
	data, err := json.Marshal(one)
	if err == nil {
		err = atomicfile.Write(filepath.Join(one.dir, recordFile), data)
	}
	return fault.Wrap(fault.Host, "volume.save", err)
}

// Create creates a volume. Errors: InvalidArgument, Conflict, Exhausted, Unavailable.
func (v *Store) Create(p noderpc.Principal, r protocol.VolumeCreate) (
	out protocol.Volume, err error,
) {
	const op = "volume.create"
	var none protocol.Volume
	if !validName.MatchString(r.Name) {
		return none, fault.Invalid(op, "name",
			"a volume's name has 1 to 64 letters, digits, dots, hyphens and underscores, the first a letter or a digit")
	}
	most := v.cfg.MaxBytes
	if r.MaxBytes < 0 || r.MaxBytes > most {
		return none, fault.Invalid(op, "max_bytes", "a volume holds between 1 and %d bytes here",
			most)
	}
	if v.cfg.Admit != nil {
		if err := v.cfg.Admit(op, p.Tenant, p.Subject); err != nil {
			return none, err
		}
	}
	id := "v_" + rand.Text()
	one := &volume{
		dir: filepath.Join(v.cfg.Dir, id), ID: id, Name: r.Name, Tenant: p.Tenant,
		Subject: p.Subject,
		Created: time.Now(), MaxBytes: cmp.Or(r.MaxBytes, most),
	}
	if err := v.hold(one, nameLife); err != nil {
		return none, err
	}
	defer func() {
		if err != nil {
			v.free(one)
		}
	}()
	v.change.Lock()
	defer v.change.Unlock()
	v.mu.Lock()
	n, taken := 0, v.all[key(p.Tenant, r.Name)] != nil
	for _, one := range v.all {
		if one.Tenant == p.Tenant {
			n++
		}
	}
	v.mu.Unlock()
	switch {
	case taken:
		return none, &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "name", Cause: fault.CauseNameTaken,
			Message: "you have a volume of this name",
		}
	case n >= v.cfg.Max:
		return none, fault.New(fault.Exhausted, op,
			"there are %d volumes, which is the limit; delete some", n).For(fault.CauseLimit)
	}
	data := filepath.Join(one.dir, dataFolder)
	err = os.MkdirAll(data, 0o700)
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
	v.all[key(one.Tenant, one.Name)] = one
	v.created.Add(1)
	return one.view(), nil
}

// view is the volume as clients see it. Preconditions: mu is held.
func (one *volume) view() protocol.Volume {
	return protocol.Volume{
		Name: one.Name, CreatedMS: one.Created.UnixMilli(), MaxBytes: one.MaxBytes,
		Bytes: one.used.bytes, Files: one.used.files, Sessions: one.users,
		Lease: one.lease(time.Now()),
	}
}

// Get returns a volume, measured now.
func (v *Store) Get(p noderpc.Principal, name string) (protocol.Volume, error) {
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
func (v *Store) List(p noderpc.Principal) protocol.VolumeList {
	out := protocol.VolumeList{Volumes: []protocol.Volume{}}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, one := range v.all {
		if one.Tenant == p.Tenant {
			out.Volumes = append(out.Volumes, one.view())
		}
	}
	slices.SortFunc(out.Volumes,
		func(a, b protocol.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Delete removes a volume that no session has. Errors: NotFound, Conflict.
func (v *Store) Delete(p noderpc.Principal, name string) error {
	const op = "volume.delete"
	v.change.Lock()
	v.mu.Lock()
	one, err := v.find(p.Tenant, name)
	if err == nil && one.users > 0 {
		err = &fault.Error{
			Kind: fault.Conflict, Op: op, Field: "name", Cause: fault.CauseInUse,
			Message: "the volume is in use by " + count(one.users, "session") +
				", hibernated ones included; delete them first",
		}
	}
	if err == nil {
		one.gone = true
		delete(v.all, key(one.Tenant, one.Name))
	}
	v.mu.Unlock()
	if err == nil {
		// The record is removed first: load then finishes a removal that was
		// interrupted.
		err = fault.Wrap(fault.Host, op, os.Remove(filepath.Join(one.dir, recordFile)))
	}
	v.change.Unlock()
	if err != nil {
		return err
	}
	v.free(one)
	return fault.Wrap(fault.Host, op, removeTree(one.dir))
}

func count(n int, noun string) string {
	if n == 1 {
		return "one " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
