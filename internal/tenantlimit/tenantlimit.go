// Package tenantlimit is the registry of what one tenant may hold at a time of things that all
// tenants share. Each thing is a row of Table. The tests enumerate the rows: whatever one tenant
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
)

// Row is a thing that tenants share.
type Row struct {
	Name Name
	// Of says which process counts: "node", "gateway" or "cluster".
	Of string
	// Tenant is the most that one tenant may hold, and All the most that all tenants may hold
	// together.
	Tenant, All int
	// What names the thing in an error, in plural.
	What string
}

// Table returns the rows. The outcome of each is Exhausted.
func Table() []Row {
	return []Row{
		{TemplateUploads, "node", 4, 16, "uploads of templates at a time"},
		{ImageBuilds, "node", 1, 2, "builds of images at a time"},
	}
}

// Of returns the row with a name.
func Of(name Name) Row {
	for _, r := range Table() {
		if r.Name == name {
			return r
		}
	}
	panic("tenantlimit: there is no row " + string(name))
}

// Check returns an error if a tenant with mine things, of all things together, may not have one
// more.
func (r Row) Check(op string, mine, all int) error {
	switch {
	case mine >= r.Tenant:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit, RetryAfter: 1,
			Message: "this tenant has as many " + r.What + " as one tenant may have",
		}
	case all >= r.All:
		return &fault.Error{
			Kind: fault.Exhausted, Op: op, Cause: fault.CauseLimit, RetryAfter: 1,
			Message: "the server has as many " + r.What + " as it may have",
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

// Take takes one thing for a tenant. The caller calls release exactly once.
func (s *Shares) Take(op, tenant string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.row.Check(op, s.held[tenant], s.all); err != nil {
		s.refused++
		return nil, err
	}
	s.held[tenant]++
	s.all++
	return sync.OnceFunc(func() { s.release(tenant) }), nil
}

func (s *Shares) release(tenant string) {
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
