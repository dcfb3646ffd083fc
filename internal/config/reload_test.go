package config

import (
	"slices"
	"testing"
)

func TestApply(t *testing.T) {
	for _, path := range reloadable() {
		if !slices.ContainsFunc(Fields(Default()), func(f Field) bool { return f.Path == path }) {
			t.Errorf("there is no setting %s", path)
		}
	}
	now, next := Default(), Default()
	next.Hosts = []string{"code.example.org"}
	next.Log.Level = "debug"
	next.Listen = "127.0.0.1:9"
	next.Limits.Memory = 2 << 30
	next.Pool.Size = 3
	became, changed, waiting, err := Apply(now, next)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"allowed_hosts", "pool.size", "log.level"}; !slices.Equal(changed, want) {
		t.Errorf("changed %v, want %v", changed, want)
	}
	if want := []string{"listen", "limits.memory"}; !slices.Equal(waiting, want) {
		t.Errorf("waiting %v, want %v", waiting, want)
	}
	if became.Log.Level != "debug" || became.Pool.Size != 3 ||
		became.Hosts[0] != "code.example.org" || became.Listen != now.Listen ||
		became.Limits != now.Limits {
		t.Errorf("became %+v", became)
	}
	if now.Log.Level != "info" || len(now.Hosts) != 0 {
		t.Error("what was has changed too")
	}
	next.Pool.Size = 0
	if _, _, waiting, _ := Apply(now, next); !slices.Contains(waiting, "pool.size") {
		t.Errorf("a pool that ends does not wait: %v", waiting)
	}
}
