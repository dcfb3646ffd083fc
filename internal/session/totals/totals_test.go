package totals

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/internal/admission"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestReplace follows one session through its life. The totals are empty after its removal.
func TestReplace(t *testing.T) {
	all := New[string](3)
	owner := admission.Holder{Tenant: "t", Subject: "s"}
	runs := Share{
		Listed: true, Alive: true, KeptAlive: true, Sandbox: true, NanoCPUs: 15e8,
		Memory: 10,
	}
	sleeps := Share{Listed: true, Alive: true, KeptAlive: true, State: 1, Disk: 7}
	ended := Share{Listed: true, State: 2}

	all.Replace("one", owner, Share{}, runs)
	use, own := all.UseOf("t", "s")
	if use != own || use.Sessions != 1 || use.Running != 1 || use.CPUs != 1.5 ||
		use.MemoryBytes != 10 {
		t.Errorf("while it runs: %+v, %+v", use, own)
	}
	if r := all.Residents(); all.WithSandbox() != 1 || len(r) != 1 || r[0] != "one" {
		t.Errorf("residents are %v", r)
	}
	if err := all.CheckKeepAlive("op", true, 1); !fault.Is(err, fault.Exhausted) {
		t.Errorf("at the limit of sessions that are kept alive: %v", err)
	}
	if err := all.CheckKeepAlive("op", false, 1); err != nil {
		t.Error(err)
	}
	if err := all.CheckKeepAlive("op", true, 2); err != nil {
		t.Error(err)
	}

	all.Replace("one", owner, runs, sleeps)
	use, _ = all.UseOf("t", "another")
	if use.Sessions != 1 || use.Running != 0 || use.MemoryBytes != 0 || use.DiskBytes != 7 ||
		all.WithSandbox() != 0 {
		t.Errorf("while it is hibernated: %+v", use)
	}

	all.Replace("one", owner, sleeps, ended)
	if use, _ = all.UseOf("t", "s"); use.Sessions != 0 || use.DiskBytes != 0 ||
		all.States()[2] != 1 {
		t.Errorf("after its end: %+v, %v", use, all.States())
	}
	if len(all.Owners()) != 1 {
		t.Errorf("owners of a listed session: %v", all.Owners())
	}

	all.Replace("one", owner, ended, Share{})
	if err := all.Compare(New[string](3), strconv.Itoa); err != nil || len(all.Owners()) != 0 {
		t.Errorf("after its removal: %v, owners %v", err, all.Owners())
	}
}

// TestCompare checks that each kind of difference is named.
func TestCompare(t *testing.T) {
	owner := admission.Holder{Tenant: "t", Subject: "s"}
	base := Share{Listed: true, Alive: true}
	for want, other := range map[string]Share{
		"sessions that are 1":          {Listed: true, Alive: true, State: 1},
		"sessions that are kept alive": {Listed: true, Alive: true, KeptAlive: true},
		"sessions with a sandbox":      {Listed: true, Alive: true, Sandbox: true},
		"tenant t":                     {Listed: true, Alive: true, Disk: 1},
		"subject {t s}":                {Listed: true},
	} {
		have, again := New[string](2), New[string](2)
		have.Replace("one", owner, Share{}, base)
		again.Replace("one", owner, Share{}, other)
		if err := have.Compare(again, strconv.Itoa); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: the difference is %v", want, err)
		}
	}
	refused := New[string](2)
	refused.Forbid()
	if err := refused.Compare(New[string](2), strconv.Itoa); err == nil ||
		refused.Forbidden() != 1 {
		t.Errorf("a refused change of state: %v", err)
	}
}
