package tenant

import (
	"context"
	"slices"
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

// MaxSessionLinks is how many share links of a session are valid at the same time.
const MaxSessionLinks = 32

// Link is a share link of a session. A link that is not in the table, or that has expired, is not
// valid. Its secret is not stored here: gateways encrypt it.
type Link struct {
	ID      string    `json:"id"`
	Tenant  string    `json:"tenant"`
	Session string    `json:"session"`
	By      string    `json:"by,omitempty"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// Link returns the link with the id unless it has expired.
func (x *Index) Link(id string) (Link, bool) {
	i := slices.IndexFunc(x.Links, func(l Link) bool { return l.ID == id })
	if id == "" || i < 0 || !time.Now().Before(x.Links[i].Expires) {
		return Link{}, false
	}
	return x.Links[i], true
}

// AddLink stores a link, and sets its id.
func (s *Store) AddLink(ctx context.Context, l Link) (Link, error) {
	const op = "link.create"
	l.ID, l.Created = random(idBytes), time.Now().UTC().Truncate(time.Second)
	err := s.change(ctx, func(t *Table) error {
		all, own := 0, 0
		for _, o := range t.Links {
			if o.Tenant == l.Tenant {
				all++
				if o.Session == l.Session {
					own++
				}
			}
		}
		if own >= MaxSessionLinks {
			return fault.New(fault.Exhausted, op,
				"the session has %d share links, which is the limit; end some", own)
		}
		share := tenantlimit.Lookup(tenantlimit.ShareLinks)
		if err := share.Check(op, all, len(t.Links)); err != nil {
			return err
		}
		t.Links = append(t.Links, l)
		return nil
	})
	return l, err
}

// EndLink removes a link of a tenant's session.
func (s *Store) EndLink(ctx context.Context, tenant, session, id string) error {
	return s.change(ctx, func(t *Table) error {
		i := slices.IndexFunc(t.Links,
			func(l Link) bool { return l.ID == id && l.Tenant == tenant && l.Session == session })
		if i < 0 {
			return &fault.Error{
				Kind: fault.NotFound, Op: "link.end", Field: "link",
				Message: "there is no such link",
			}
		}
		t.Links = slices.Delete(t.Links, i, i+1)
		return nil
	})
}
