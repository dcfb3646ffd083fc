// Package tenantlimit is the registry of the things that all tenants share. It bounds how many of them
// one tenant may hold. Each thing is a row of Table. The tests enumerate the rows: whatever one tenant
// does, another one still gets its share.
package tenantlimit

import (
	"sync"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Name names a row.
type Name string

// The shared things.
const (
	TemplateUploads Name = "template_uploads"
	ImageBuilds     Name = "image_builds"
	Snapshots       Name = "snapshots"
	KeptAlive       Name = "keep_alive"
	Keys            Name = "keys"
	ShareLinks      Name = "share_links"
	Tickets         Name = "tickets"
	RunTokens       Name = "run_tokens"
	Requests        Name = "requests"
	LongRequests    Name = "long_requests"
	WebSockets      Name = "websockets"
	JupyterSockets  Name = "jupyter_websockets"
	JupyterContents Name = "jupyter_contents"
	TerminalSockets Name = "terminal_websockets"
	Notebooks       Name = "notebooks"
	NotebookSpace   Name = "notebook_space"
	NotebookSaves   Name = "notebook_saves"
)

// Row is a thing that tenants share.
type Row struct {
	Name Name
	// Process is the process that counts: "node", "gateway" or "cluster".
	Process string
	// Tenant is the most that one tenant may hold, and All the most that all tenants may hold
	// together.
	Tenant, All int
	// Things is the name of the thing in an error, in plural.
	Things string
	// Retry is after how many seconds a client may try again; 0 if something has to end first.
	Retry int
}

// Table returns the rows. The outcome of each is Exhausted.
func Table() []Row {
	return []Row{
		{TemplateUploads, "node", 4, 16, "uploads of templates at a time", 1},
		{ImageBuilds, "node", 1, 2, "builds of images at a time", 1},
		{Snapshots, "node", 75, 100, "snapshots", 0},
		{KeptAlive, "node", 3, 4, "sessions that are kept alive", 0},
		{Keys, "cluster", 200, 5000, "keys", 0},
		{ShareLinks, "cluster", 1000, 10_000, "share links", 0},
		{Tickets, "gateway", 1250, 10_000, "unused tickets", 30},
		{RunTokens, "gateway", 1250, 10_000, "run tickets of an hour", 30},
		{Requests, "gateway", 256, 1024, "requests at a time", 1},
		// The difference to Requests is a reserve for short requests.
		{LongRequests, "gateway", 240, 960, "transfers at a time", 1},
		{WebSockets, "gateway", 2500, 10_000, "WebSockets", 5},
		{JupyterSockets, "gateway", 500, 2000, "WebSockets of Jupyter", 5},
		{JupyterContents, "gateway", 4, 16, "large contents of Jupyter's files at a time", 1},
		{TerminalSockets, "gateway", 500, 2000, "WebSockets of terminals", 5},
		{Notebooks, "node", 1500, 2000, "stored notebooks", 0},
		{NotebookSpace, "node", 768, 1024, "MiB of stored notebooks", 0},
		{NotebookSaves, "node", 16, 64, "saves of notebooks at a time", 1},
	}
}

// Lookup returns the row with a name.
func Lookup(name Name) Row {
	for _, r := range Table() {
		if r.Name == name {
			return r
		}
	}
	panic("tenantlimit: there is no row " + string(name))
}

// Scale returns the row for a server that is configured to have all things instead of All. Each
// tenant has the same part of them.
func (r Row) Scale(all int) Row {
	r.Tenant, r.All = max(1, r.Tenant*all/r.All), all
	return r
}

// Check returns an error if a tenant with mine things, of all things together, may not have one
// more.
func (r Row) Check(op string, mine, all int) error {
	switch {
	case mine >= r.Tenant:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit, RetryAfter: r.Retry,
			Message: "this tenant has as many " + r.Things + " as one tenant may have",
		}
	case all >= r.All:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit, RetryAfter: r.Retry,
			Message: "the server has as many " + r.Things + " as it may have",
		}
	}
	return nil
}

// Shares counts what each tenant holds of one thing. It is safe for concurrent use.
type Shares struct {
	row Row

	mu      sync.Mutex // guards all below
	held    map[string]int
	all     int
	refused int64
}

// New returns the counts of a row. Nothing is held.
func New(row Row) *Shares { return &Shares{row: row, held: map[string]int{}} }

// Reserve takes one thing for a tenant. The caller calls release exactly once.
func (s *Shares) Reserve(op, tenant string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.row.Check(op, s.held[tenant], s.all); err != nil {
		s.refused++
		return nil, err
	}
	s.held[tenant]++
	s.all++
	return sync.OnceFunc(func() { s.giveBack(tenant) }), nil
}

func (s *Shares) giveBack(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.held[tenant]--; s.held[tenant] == 0 {
		delete(s.held, tenant)
	}
}

// Counts returns how many things are held, by how many tenants, and how many requests were refused.
func (s *Shares) Counts() (held, tenants int, refused int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all, len(s.held), s.refused
}
