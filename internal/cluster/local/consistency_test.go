package local

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/sandgate/sandgate/internal/cluster"
)

// TestConsistencyCheck damages the records of a directory one by one, and expects the
// check to report each damage.
func TestConsistencyCheck(t *testing.T) {
	damageSession := func(change func(*entry)) func(*Directory) error {
		return func(d *Directory) error {
			return d.db.Update(func(tx *bolt.Tx) error {
				x, _ := find(tx, "s_1")
				change(&x)
				return put(tx, "s_1", x)
			})
		}
	}
	for name, damage := range map[string]func(*Directory) error{
		"the last one is": damageSession(func(x *entry) { x.Token = 1 << 60 }),
		"have one token": func(d *Directory) error {
			return d.db.Update(func(tx *bolt.Tx) error {
				x, _ := find(tx, "s_2")
				return put(tx, "s_1", x)
			})
		},
		"has the node":    damageSession(func(x *entry) { x.Node = "" }),
		"before its node": damageSession(func(x *entry) { x.Incarnation = x.Token }),
		"has no end":      damageSession(func(x *entry) { x.Until = time.Time{} }),
		"the last token is": func(d *Directory) error {
			d.nodes["a"].instance = ""
			return nil
		},
		"ends before": func(d *Directory) error {
			d.nodes["a"].until = time.Time{}
			return nil
		},
		"without usage": func(d *Directory) error {
			d.holders["x"] = &holder{}
			return nil
		},
		"of no incarnation": func(d *Directory) error {
			d.holders["h"].nodes["b"] = usage{incarnation: 1}
			return nil
		},
	} {
		d, err := OpenDirectory(filepath.Join(t.TempDir(), "directory"))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := d.Heartbeat(t.Context(), cluster.Heartbeat{
			Node: "a", Instance: "disk",
			Lease: time.Hour,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []cluster.SessionID{"s_1", "s_2"} {
			c := cluster.Claim{
				Session: id, Node: "a", Incarnation: reply.Incarnation, Mode: cluster.ClaimNew,
				Until: time.Now().Add(time.Hour),
			}
			if _, err := d.Claim(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		all := []cluster.NodeUsage{{Holder: "h", Used: cluster.Amounts{1}}}
		if _, err := d.Report(t.Context(), cluster.UsageReport{
			Node: "a", Incarnation: reply.Incarnation, Lease: time.Hour, Number: 1, All: all,
		}); err != nil {
			t.Fatal(err)
		}
		if err := d.ConsistencyCheck(t.Context()); err != nil {
			t.Fatalf("before the damage: %v", err)
		}
		if err := damage(d); err != nil {
			t.Fatal(err)
		}
		if err := d.ConsistencyCheck(t.Context()); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: the check reports %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	s := NewRunTokenStore(nil)
	token := cluster.RunToken{
		ID: "one", Origin: "https://a.test", Life: time.Hour, Uses: 1,
		Concurrent: 1,
	}
	if err := s.Add(t.Context(), token, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.ConsistencyCheck(t.Context()); err != nil {
		t.Error(err)
	}
	s.origins["https://b.test"] = 1
	if err := s.ConsistencyCheck(t.Context()); err == nil {
		t.Error("a wrong counter is not reported")
	}
}
