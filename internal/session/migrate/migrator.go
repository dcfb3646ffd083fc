package migrate

import (
	"context"
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/internal/cluster"
	"github.com/sandgate/sandgate/internal/ctxlock"
	"github.com/sandgate/sandgate/internal/session/durable"
	"github.com/sandgate/sandgate/internal/session/ownership"
	"github.com/sandgate/sandgate/internal/session/stats"
	"github.com/sandgate/sandgate/protocol"
)

// Movable is one session of this node.
type Movable interface {
	// Describe returns the session's values at this moment.
	Describe() Description
	// View returns the session as clients see it.
	View() protocol.Session
	// Life ends with the session.
	Life() context.Context
	// Freeze disconnects the viewers, hibernates the session and writes all of it to its folder and
	// to the folder of its logs. After that nobody can use the session in this process: it is
	// either forgotten, or opened again from its folder. After an error the session is unchanged,
	// or is lost.
	Freeze(ctx context.Context) (Frozen, error)
	// Forget removes a frozen session from the node's list.
	Forget()
}

// Description has the values of a session that decide how it moves.
type Description struct {
	ID, Tenant, Subject string
	Created, Expires    time.Time
	// Active is the time of its last activity.
	Active time.Time
	// Token is the fencing token that it was stored with; 0 for a session of this process.
	Token   cluster.Token
	Durable bool
	// Works reports that code ran in it when it was hibernated.
	Works bool
	// Bound says why it can run on this node only; empty if it can move.
	Bound string
	// Moving reports that Freeze has begun.
	Moving bool
	// Copy is the number of its newest copy on this node's disk, 0 for none. CopyDir is the folder.
	Copy    int
	CopyDir string
	// Uploads has the progress of the uploads of its copies.
	Uploads *Uploads
}

// Frozen describes a session that Freeze has written to disk.
type Frozen struct {
	// View is the session as clients saw it before.
	View protocol.Session
	// Key is the backend's key of its snapshot.
	Key     string
	Expires time.Time
	Works   bool
	// Stored is its size in bytes.
	Stored int64
}

// Sessions are the sessions of this node.
type Sessions interface {
	// All returns all sessions, and false when the node is closing.
	All() ([]Movable, bool)
	// BeginWork delays the closing of the node until end is called. s is the session with the id,
	// or nil if the node has no such session. ok is false when the node is closing.
	BeginWork(id string) (s Movable, end func(), ok bool)
	// Open makes a hibernated session from its folder and lists it.
	Open(id string) (Movable, error)
	// Recover makes a hibernated session from the copy with a number, and lists it. c is the
	// checkpoint that the copy came from.
	Recover(c Checkpoint, number int) (Movable, error)
	// Resume resumes a hibernated session. Errors: NotFound, and the errors of a request that resumes
	// it.
	Resume(ctx context.Context, id string) error
}

// Quotas counts sessions that no node has for their tenants: see admission.Controller.
type Quotas interface {
	ReportReleased(ctx context.Context, h admission.Holder, id cluster.SessionID, until time.Time,
		stored int64) error
}

// Folders are the folders of a node with its sessions.
type Folders struct {
	// Sessions and Logs have a folder for each session.
	Sessions, Logs string
	// Temporary is on the same filesystem, and is removed at each start.
	Temporary string
	// Kept has a folder for each snapshot of a user.
	Kept string
}

func (f Folders) session(id string) string { return filepath.Join(f.Sessions, id) }
func (f Folders) logs(id string) string    { return filepath.Join(f.Logs, id) }
func (f Folders) temporary() string        { return filepath.Join(f.Temporary, rand.Text()) }

// Config is the configuration of a Migrator. Without Blobs, or without a directory in Owner, no
// session moves.
type Config struct {
	Sessions   Sessions
	Owner      *ownership.Owner
	Departures *ownership.Departures
	Keys       Keys
	Quotas     Quotas
	// Blobs may be nil.
	Blobs   Blobs
	Folders Folders
	// Halt disconnects the viewers of a session and pauses it.
	Halt func(ctx context.Context, id string) error
	// Snapshots and Templates store the node's snapshots and templates of users in the blob store,
	// until ctx ends, and return how many only this node has then. nil means that there are none.
	Snapshots, Templates func(ctx context.Context) int
	// Room reports whether another node has room for a session; nil means that there is none.
	Room func(context.Context) bool
	// Elsewhere reports whether another node has an edition that does not end there; nil for no.
	Elsewhere func(ctx context.Context, edition string) bool
	// Window is how long nodes keep earlier editions.
	Window time.Duration
	// Copies has the copies of durable sessions on disk.
	Copies durable.Store
	// Node is this node's name.
	Node cluster.NodeID
	// Checkpoints makes UploadDue upload the copies of durable sessions, at CheckpointRate bytes a
	// second for all of them. A failed upload is tried again after Retry.
	Checkpoints    bool
	CheckpointRate int64
	Retry          time.Duration
	// Parallel is how many sessions Drain parks at a time.
	Parallel int
	// Context ends when the node closes. Go runs a function that the node waits for before it has
	// closed.
	Context context.Context
	Go      func(func())
	Stats   *stats.Stats
	Logger  *slog.Logger
}

// Migrator moves sessions between this node and the blob store.
type Migrator struct {
	cfg     Config
	log     *slog.Logger
	objects Store
	// adopting is held while a session is adopted: one at a time.
	adopting ctxlock.Lock
	// uploading is held while a copy is uploaded, uploadingJournal while a journal is. pace limits
	// the bytes of copies.
	uploading, uploadingJournal ctxlock.Lock
	pace                        *rate.Limiter

	// overdue reports that other nodes may have taken sessions over. halting is held while sessions
	// are paused for that; it guards halted.
	overdue atomic.Bool
	halting ctxlock.Lock
	halted  []Movable

	mu sync.Mutex // guards all below; a leaf
	// ending has the durable sessions that have ended and may still have copies in the blob store.
	// The value reports that this process owns the session.
	ending map[string]bool
	// leftovers are sessions of this node that the blob store may have as parked ones.
	leftovers map[string]bool
	// leaving has the sessions that MoveToRoom moves.
	leaving map[string]bool
	// editionOf has the editions of the newest checkpoints in the store, by their names, as far as they
	// were read.
	editionOf map[string]string
	// storeEditions is the function of Editions.OnDrain; nil for none.
	storeEditions func(ctx context.Context) (left int)
	// last reports that the node is about to end.
	last atomic.Bool
}

// New returns a Migrator. Run does its work in the background.
func New(cfg Config) *Migrator {
	return &Migrator{
		cfg: cfg, log: cfg.Logger,
		objects: Store{
			Blobs: cfg.Blobs,
			Swept: func(n int) { cfg.Stats.StoreSwept.Add(int64(n)) },
		},
		adopting: ctxlock.New(), halting: ctxlock.New(),
		uploading: ctxlock.New(), uploadingJournal: ctxlock.New(),
		pace:   rate.NewLimiter(rate.Limit(cfg.CheckpointRate), uploadPiece),
		ending: map[string]bool{}, leftovers: map[string]bool{}, leaving: map[string]bool{},
	}
}

// Shared reports whether other nodes can take sessions of this node. This requires a directory and
// a blob store.
func (m *Migrator) Shared() bool { return m.cfg.Blobs != nil && m.cfg.Owner.HasDirectory() }

// Refuse makes the node take no more sessions before it ends.
func (m *Migrator) Refuse() {
	m.last.Store(true)
	m.cfg.Owner.Refuse()
}

// Run removes objects that an earlier process left for sessions of this node. Then it maintains the
// store until the node closes.
func (m *Migrator) Run() {
	if !m.Shared() {
		return
	}
	m.cfg.Go(m.removeLeftovers)
	m.cfg.Go(m.maintain)
}
