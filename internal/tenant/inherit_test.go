package tenant

import (
	"context"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/tenantlimit"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHardening_KeysStayWithinTheirCreator: no key outlives its creator or has more than it, and each
// field of a quota is inherited.
func TestHardening_KeysStayWithinTheirCreator(t *testing.T) {
	now := time.Now().UTC()
	end := now.Add(time.Hour)
	maker := Key{ID: "maker", Expires: end}
	v := reflect.ValueOf(&maker.Quota).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.CanInt() {
			f.SetInt(5)
		} else {
			f.SetFloat(5)
		}
	}
	x := &Index{Table: Table{Keys: []Key{maker, {ID: "free"}}}}
	child := Key{By: maker.Subject()}
	got, err := x.Inherit("t", child, false, now)
	if err != nil || got.Quota != maker.Quota || !got.Expires.Equal(end) {
		t.Errorf("a key without limits got %+v, %v", got, err)
	}
	for i := range v.NumField() {
		over := child
		f := reflect.ValueOf(&over.Quota).Elem().Field(i)
		if f.CanInt() {
			f.SetInt(6)
		} else {
			f.SetFloat(6)
		}
		_, err := x.Inherit("t", over, true, now)
		if !fault.Is(err, fault.InvalidArgument) || fault.PublicOf(err).Field == "" {
			t.Errorf("more of %s than its creator: %v", v.Type().Field(i).Name, err)
		}
	}
	for name, k := range map[string]Key{
		"after its creator":      {By: maker.Subject(), Expires: end.Add(time.Second)},
		"of a user, for a year":  {By: "user:ann", Expires: now.Add(365 * 24 * time.Hour)},
		"of a key that has gone": {By: SubjectPrefix + "gone"},
	} {
		if _, err := x.Inherit("t", k, false, now); err == nil {
			t.Errorf("a key %s was accepted", name)
		}
	}
	if k, err := x.Inherit("t", Key{By: "user:ann"}, false, now); err != nil ||
		k.Expires.IsZero() || k.Expires.After(now.Add(MaxUserKeyLife)) {
		t.Errorf("a user's key ends %v, %v", k.Expires, err)
	}
	for _, by := range []string{"owner", SubjectPrefix + "free"} {
		if k, err := x.Inherit("t", Key{By: by}, true, now); err != nil || !k.Expires.IsZero() {
			t.Errorf("a key of %s ends %v, %v", by, k.Expires, err)
		}
	}
}

// TestHardening_RevocationCascades: the keys that a key created, directly or not, end with it.
func TestHardening_RevocationCascades(t *testing.T) {
	key := func(id, by string) Key { return Key{ID: id, By: by} }
	keys := []Key{
		key("c", SubjectPrefix+"b"), key("a", "owner"), key("b", SubjectPrefix+"a"),
		key("other", "owner"), key("d", SubjectPrefix+"c"), key("e", SubjectPrefix+"other"),
	}
	left := withoutFamily(keys, "a")
	if len(left) != 2 || left[0].ID != "other" || left[1].ID != "e" {
		t.Errorf("left are %+v", left)
	}
}

// TestHardening_OneTenantLeavesKeys: a tenant with all the keys that it may have leaves room for
// others.
func TestHardening_OneTenantLeavesKeys(t *testing.T) {
	s, err := Open(&memoryTables{})
	if err != nil {
		t.Fatal(err)
	}
	err = s.change(t.Context(), func(table *Table) error {
		for i := range tenantlimit.Lookup(tenantlimit.Keys).Tenant {
			table.Keys = append(table.Keys, Key{ID: strconv.Itoa(i), Tenant: "greedy"})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Create(t.Context(), Key{Tenant: "greedy", Role: Owner})
	if !fault.Is(err, fault.Exhausted) {
		t.Errorf("beyond its share: %v", err)
	}
	child, _, err := s.Create(t.Context(), Key{Tenant: "other", Role: Owner})
	if err != nil {
		t.Fatal("another tenant: ", err)
	}
	grandchild, _, err := s.Create(t.Context(), Key{
		Tenant: "other", Role: Owner, By: child.Subject(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Revoke(t.Context(), "other", child.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("", grandchild.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the key of a revoked key is there: %v", err)
	}
	if _, _, err := s.Create(t.Context(), Key{
		Tenant: "other", Role: Owner, By: child.Subject(),
	}); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("a revoked key created a key: %v", err)
	}
}

// memoryTables is a shared store in memory.
type memoryTables struct {
	KeyTableStore
	version uint64
	table   []byte
}

func (m *memoryTables) Load(context.Context, uint64) (uint64, []byte, error) {
	return m.version, m.table, nil
}

func (m *memoryTables) Restore(_ context.Context, is uint64, table []byte) error {
	m.version, m.table = is, table
	return nil
}

func (m *memoryTables) Replace(_ context.Context, was, is uint64, table []byte) error {
	if was != m.version {
		return fault.New(fault.Conflict, "t", "another version")
	}
	m.version, m.table = is, table
	return nil
}
