package tenant

import "time"

// Table contains everything that a gateway needs to authenticate users. It contains hashes of
// secrets, and the secret that encrypts browsers' cookies.
type Table struct {
	// Version grows with each change.
	Version uint64 `json:"version"`
	Keys    []Key  `json:"keys,omitempty"`
	// Links are the valid share links.
	Links []Link `json:"links,omitempty"`
	// PortLinks are the preview links, with those that have ended recently.
	PortLinks []PortLink `json:"port_links,omitempty"`
	// Default is the quota of each tenant without its own.
	Default Quota            `json:"default,omitzero"`
	Tenants map[string]Quota `json:"tenants,omitempty"`
	// Seal is 32 random bytes.
	Seal []byte `json:"seal,omitempty"`
}

// News is a node's message about keys to gateways.
type News struct {
	// Table is the current table. Its version is 0 when the gateway has it already.
	Table
	// Away reports that the key table store does not answer: it may have keys that the table lacks.
	Away bool `json:"away,omitempty"`
	// GraceMS is how long the table is valid without another message; 0 means forever.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Quota returns a tenant's quota.
func (t *Table) Quota(tenant string) Quota {
	if q, ok := t.Tenants[tenant]; ok {
		return q
	}
	return t.Default
}

// Index finds keys and preview links by their ids. It is immutable.
type Index struct {
	Table
	byID, portLinks map[string]int
	// shared is set if a tenant beside the operator has a key.
	shared bool
}

// NewIndex returns the index of a table.
func NewIndex(t Table) *Index {
	x := &Index{
		Table: t, byID: make(map[string]int, len(t.Keys)),
		portLinks: make(map[string]int, len(t.PortLinks)),
	}
	for i, k := range t.Keys {
		x.byID[k.ID] = i
		x.shared = x.shared || k.Tenant != Operator
	}
	for i, l := range t.PortLinks {
		x.portLinks[l.ID] = i
	}
	return x
}

// Key returns the key with the id unless it has expired.
func (x *Index) Key(id string) (Key, bool) {
	i, ok := x.byID[id]
	if !ok || !x.Keys[i].Good(time.Now()) {
		return Key{}, false
	}
	return x.Keys[i], true
}

// Open returns the key that the secret belongs to.
func (x *Index) Open(secret string) (Key, bool) {
	id, ok := IDOf(secret)
	if !ok {
		return Key{}, false
	}
	k, ok := x.Key(id)
	if !ok || !k.opens(secret, time.Now()) {
		return Key{}, false
	}
	return k, true
}

// KeyQuota returns the quota of the key in a subject; the zero quota without a key.
func (x *Index) KeyQuota(subject string) Quota {
	id, ok := KeyOf(subject)
	if !ok {
		return Quota{}
	}
	k, _ := x.Key(id)
	return k.Quota
}
