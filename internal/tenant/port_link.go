package tenant

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Limits of preview links. The table of keys holds them, so that they have a small total size.
const (
	MaxSessionPortLinks = 32
	MaxTenantPortLinks  = 500
	MaxPortLinks        = 2_000
	// MaxPortLinkWait is the longest wait of a request for the port.
	MaxPortLinkWait = 2 * time.Minute
	// PortLinkMemory is how long the reason for the end of a link is kept.
	PortLinkMemory = 7 * 24 * time.Hour

	maxLabel         = 64  // bytes
	maxOrigins       = 8   // in each list of a link
	maxOrigin        = 255 // bytes
	maxOriginsLength = 1 << 10
	portLinkIDBytes  = 16
)

// The reasons for the end of a preview link.
const (
	LinkRevoked = "revoked"
	LinkExpired = "expired"
	LinkSession = "session" // its session has ended
)

// PortLink is a preview link: an address of one port of a session. The id is in the host name. It
// has 128 random bits, so that nobody finds a public link by trying.
type PortLink struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Port    int    `json:"port"`
	// Public is true when the link needs no credentials of the tenant.
	Public bool `json:"public,omitempty"`
	// Password is the hash of the password of a public link; empty without one.
	Password string    `json:"password_hash,omitempty"`
	Label    string    `json:"label,omitempty"`
	By       string    `json:"by,omitempty"`
	Created  time.Time `json:"created"`
	Expires  time.Time `json:"expires,omitzero"` // zero means never
	// Origins are the origins of other pages that may use the link from scripts. FrameAncestors are
	// the origins of pages that may show it in a frame. "*" means any.
	Origins        []string `json:"origins,omitempty"`
	FrameAncestors []string `json:"frame_ancestors,omitempty"`
	// WaitSeconds is how long a request waits until a program listens on the port.
	WaitSeconds int `json:"wait_seconds,omitempty"`
	// Ended is when the link ended before it expired, and Reason why.
	Ended  time.Time `json:"ended,omitzero"`
	Reason string    `json:"reason,omitempty"`
}

// EndReason returns the reason for the end of a link; empty while it is valid.
func (l PortLink) EndReason(now time.Time) string {
	switch {
	case !l.Ended.IsZero():
		return l.Reason
	case !l.Expires.IsZero() && !now.Before(l.Expires):
		return LinkExpired
	}
	return ""
}

// forgotten reports whether a link ended so long ago that its record is removed.
func (l PortLink) forgotten(now time.Time) bool {
	end := l.Ended
	if end.IsZero() {
		end = l.Expires
	}
	return !end.IsZero() && now.After(end.Add(PortLinkMemory))
}

// PortLink returns the preview link with the id, also one that ended a short time ago.
func (x *Index) PortLink(id string) (PortLink, bool) {
	i, ok := x.portLinks[id]
	if !ok {
		return PortLink{}, false
	}
	return x.PortLinks[i], true
}

// LinkValid reports whether a share link or a preview link with the id is valid.
func (x *Index) LinkValid(id string) bool {
	if l, ok := x.PortLink(id); ok {
		return l.EndReason(time.Now()) == ""
	}
	_, ok := x.Link(id)
	return ok
}

// AddPortLink checks and stores a preview link, and sets its id. The password is empty for a link
// without one.
func (s *Store) AddPortLink(ctx context.Context, l PortLink, password string) (PortLink, error) {
	const op = "port.link"
	l.ID, l.Created = random(portLinkIDBytes), time.Now().UTC().Truncate(time.Second)
	if err := l.check(op, password); err != nil {
		return PortLink{}, err
	}
	if x, _ := s.Index(); password != "" {
		if err := x.Table.roomForPortLink(op, l); err != nil { // before the slow hash
			return PortLink{}, err
		}
		if err := s.hashes.acquire(ctx); err != nil {
			return PortLink{}, err
		}
		l.Password = HashPassword(password)
		s.hashes.release()
	}
	err := s.change(ctx, func(t *Table) error {
		if err := t.roomForPortLink(op, l); err != nil {
			return err
		}
		t.forgetEnded(l.Tenant)
		t.PortLinks = append(t.PortLinks, l)
		return nil
	})
	return l, err
}

// roomForPortLink counts the valid links.
func (t *Table) roomForPortLink(op string, l PortLink) error {
	all, own, one := 0, 0, 0
	for _, o := range t.PortLinks {
		if o.EndReason(l.Created) != "" {
			continue
		}
		all++
		if o.Tenant == l.Tenant {
			own++
			if o.Session == l.Session {
				one++
			}
		}
	}
	for _, c := range [...]struct {
		who      string
		n, limit int
	}{
		{"the session has", one, MaxSessionPortLinks},
		{"the tenant has", own, MaxTenantPortLinks},
		{"the server has", all, MaxPortLinks},
	} {
		if c.n >= c.limit {
			return &fault.Error{
				Kind: fault.Exhausted, Op: op, Field: "port_links",
				Message: c.who + " as many preview links as it may have; revoke some",
			}
		}
	}
	return nil
}

// forgetEnded removes the oldest ended links of a tenant, so that its links have at most twice the
// size that its valid ones may have.
func (t *Table) forgetEnded(tenant string) {
	now, ended := time.Now(), 0
	for i := len(t.PortLinks) - 1; i >= 0; i-- {
		if l := t.PortLinks[i]; l.Tenant != tenant || l.EndReason(now) == "" {
			continue
		}
		if ended++; ended > MaxTenantPortLinks/10 {
			t.PortLinks = slices.Delete(t.PortLinks, i, i+1)
		}
	}
}

// EndPortLink revokes a preview link of a tenant's session.
func (s *Store) EndPortLink(ctx context.Context, tenant, session, id string) error {
	return s.change(ctx, func(t *Table) error {
		now := time.Now().UTC().Truncate(time.Second)
		i := slices.IndexFunc(t.PortLinks, func(l PortLink) bool {
			return l.ID == id && l.Tenant == tenant && l.Session == session &&
				l.EndReason(now) == ""
		})
		if i < 0 {
			return &fault.Error{
				Kind: fault.NotFound, Op: "port.unlink", Field: "link",
				Message: "there is no such link",
			}
		}
		t.PortLinks[i].conclude(now, LinkRevoked)
		return nil
	})
}

// conclude ends a link. It removes the secret and large parts.
func (l *PortLink) conclude(now time.Time, reason string) {
	l.Ended, l.Reason = now, reason
	l.Password, l.Origins, l.FrameAncestors = "", nil, nil
}

// EndSessionLinks ends the preview links of a session that has ended. It does nothing if there are
// none.
func (s *Store) EndSessionLinks(ctx context.Context, session string) error {
	now := time.Now().UTC().Truncate(time.Second)
	open := func(l PortLink) bool { return l.Session == session && l.EndReason(now) == "" }
	if x, _ := s.Index(); !slices.ContainsFunc(x.PortLinks, open) {
		return nil
	}
	return s.change(ctx, func(t *Table) error {
		for i := range t.PortLinks {
			if open(t.PortLinks[i]) {
				t.PortLinks[i].conclude(now, LinkSession)
			}
		}
		return nil
	})
}

// check checks a new link.
func (l PortLink) check(op, password string) error {
	switch {
	case l.Port < 1 || l.Port > 65535:
		return fault.Invalid(op, "port", "a port is a number from 1 to 65535")
	case !l.Expires.IsZero() && (!l.Created.Before(l.Expires) ||
		l.Expires.After(l.Created.Add(MaxLife))):
		return fault.Invalid(op, "expires_seconds",
			"a link expires after at least one second and within ten years; 0 means never")
	case l.WaitSeconds < 0 || l.WaitSeconds > int(MaxPortLinkWait/time.Second):
		return fault.Invalid(op, "wait_seconds", "a request waits for 0 to %d seconds",
			int(MaxPortLinkWait/time.Second))
	case len(l.Label) > maxLabel || !utf8.ValidString(l.Label) ||
		strings.ContainsFunc(l.Label, unicode.IsControl):
		return fault.Invalid(op, "label",
			"a label is UTF-8 text of at most %d bytes without control characters", maxLabel)
	case password != "" && !l.Public:
		return fault.Invalid(op, "password",
			"a private link needs credentials instead of a password")
	case password != "" && (len(password) < MinPassword || len(password) > MaxPassword):
		return fault.Invalid(op, "password", "a password has %d to %d bytes", MinPassword,
			MaxPassword)
	}
	if err := checkOrigins(op, "origins", l.Origins, l.Public && password == ""); err != nil {
		return err
	}
	return checkOrigins(op, "frame_ancestors", l.FrameAncestors, true)
}

// checkOrigins checks a list of origins. They become parts of headers.
func checkOrigins(op, field string, all []string, any bool) error {
	if len(all) > maxOrigins || len(strings.Join(all, "")) > maxOriginsLength {
		return fault.Invalid(op, field, "a link has at most %d origins with %d bytes together",
			maxOrigins, maxOriginsLength)
	}
	for _, o := range all {
		switch {
		case o == "*" && any:
		case o == "*":
			return fault.Invalid(op, field, "* is only for public links without a password")
		case !IsOrigin(o):
			return fault.Invalid(op, field,
				"%.40q is not an origin such as https://app.example.org, in lower case", o)
		}
	}
	return nil
}

// IsOrigin reports whether a string is an origin as browsers send it.
func IsOrigin(s string) bool {
	u, err := url.Parse(s)
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789-._:[]"
	return err == nil && len(s) <= maxOrigin && (u.Scheme == "https" || u.Scheme == "http") &&
		u.Hostname() != "" && strings.Trim(u.Host, letters) == "" && s == u.Scheme+"://"+u.Host
}
