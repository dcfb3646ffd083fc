package tenant

import "time"

// Table is all that a gateway needs to know whom it lets in. It holds hashes,
// and the secret that seals browsers' cookies.
type Table struct {
	// Version rises with each change.
	Version uint64 `json:"version"`
	Keys    []Key  `json:"keys,omitempty"`
	// Links are those for viewing that are good.
	Links []Link `json:"links,omitempty"`
	// Default is the quota of each tenant that has none of its own.
	Default Quota            `json:"default,omitzero"`
	Tenants map[string]Quota `json:"tenants,omitempty"`
	// Seal is 32 random bytes.
	Seal []byte `json:"seal,omitempty"`
}

// News is what a node tells gateways of keys.
type News struct {
	// Table is the present one; of version 0 when it is the one told before.
	Table
	// Away says that the key table store does not answer: what is not in the table may be
	// in the store.
	Away bool `json:"away,omitempty"`
	// GraceMS is for how long the table is good without further news; 0 for
	// ever.
	GraceMS int64 `json:"grace_ms,omitempty"`
}

// Quota returns a tenant's.
func (t *Table) Quota(tenant string) Quota {
	if q, ok := t.Tenants[tenant]; ok {
		return q
	}
	return t.Default
}

// Index finds keys by their ids. It does not change.
type Index struct {
	Table
	byID map[string]int
}

// NewIndex returns a table's index.
func NewIndex(t Table) *Index {
	x := &Index{Table: t, byID: make(map[string]int, len(t.Keys))}
	for i, k := range t.Keys {
		x.byID[k.ID] = i
	}
	return x
}

// Key returns the key of that id while its time is not over.
func (x *Index) Key(id string) (Key, bool) {
	i, ok := x.byID[id]
	if !ok || !x.Keys[i].Good(time.Now()) {
		return Key{}, false
	}
	return x.Keys[i], true
}

// Open returns the key that the secret is of.
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

// KeyQuota is the quota of the key that a subject names; none without one.
func (x *Index) KeyQuota(subject string) Quota {
	id, ok := KeyOf(subject)
	if !ok {
		return Quota{}
	}
	k, _ := x.Key(id)
	return k.Quota
}
