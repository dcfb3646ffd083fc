package gvisor

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/sandgate/sandgate/internal/sandbox"
	"github.com/sandgate/sandgate/internal/sandbox/shares"
	"github.com/sandgate/sandgate/internal/testenv"
)

// weight reads a sandbox's weight from the kernel, in the unit of SetWeight.
func (g guest) weight() int64 {
	if g.group.v2 {
		return readInt(filepath.Join(g.group.MakePath(""), "cpu.weight"))
	}
	return readInt(filepath.Join(g.group.MakePath("cpu"), "cpu.shares")) * 100 / 1024
}

// TestShareWhileCreated checks that a sandbox has a share before it is created completely, and that
// one that cannot be created has none.
func TestShareWhileCreated(t *testing.T) {
	r := newRuntime(t)
	made := make(chan error, 1)
	go func() {
		_, err := r.Create(t.Context(), testSpec())
		made <- err
	}()
	early := false
	for len(made) == 0 {
		early = early || r.shares.Len() == 1 && r.Live() == 0
		runtime.Gosched()
	}
	if err := <-made; err != nil || !early {
		t.Errorf("it has no share while it is created: %v", err)
	}
	r.cfg.Runsc = "/bin/false"
	if _, err := r.Create(t.Context(), testSpec()); err == nil || r.shares.Len() != 1 {
		t.Errorf("a sandbox that was not created has a share: %d, %v", r.shares.Len(), err)
	}
	r.cfg.Runsc = testRunsc
}

// TestTenantsShareProcessors checks the weights that the kernel has for real sandboxes: of two
// tenants, of a sandbox that nobody has and is then claimed, of a standby sandbox, and after the end
// of the others.
func TestTenantsShareProcessors(t *testing.T) {
	r := newRuntime(t)
	of := func(tenant string) guest {
		spec := testSpec()
		spec.Tenant = tenant
		return boot(t, r, spec)
	}
	if parent, err := newGroup(r.cfg.CgroupParent); err != nil || !parent.v2 &&
		readInt(filepath.Join(parent.MakePath("cpu"), "cpu.shares")) != int64(1024*runtime.NumCPU()) {
		t.Errorf("all sandboxes together have no weight of their own: %v", err)
	}
	one, two, pooled, other := of("a"), of("a"), of(""), of("b")
	// A tenant that has just started several sandboxes may be heavy for a moment.
	want := func(when string, want int64, all ...guest) {
		t.Helper()
		for i, g := range all {
			testenv.Eventually(t, fmt.Sprintf("%s: sandbox %d has the weight %d", when, i, want),
				func() bool {
					got := g.weight()
					return got == want || got == want-1 // version 1 rounds
				})
		}
	}
	want("two of a tenant", shares.TenantWeight/2, one, two)
	want("one of each", shares.TenantWeight, other, pooled)
	pooled.Assign("a")
	want("after a claim", shares.TenantWeight/3, one, two, pooled)
	want("of the other tenant", shares.TenantWeight, other)
	destroy(t, one.Sandbox)
	destroy(t, pooled.Sandbox)
	want("the last one", shares.TenantWeight, two)

	dir := snapshot(t, r, 1)
	b := &Backend{Runtime: r, Spec: testSpec()}
	b.Standby = NewStandby(b, 1)
	defer b.Standby.Close()
	testenv.Eventually(t, "there is a standby sandbox", func() bool { return b.Standby.Stats().Ready == 1 })
	m, err := b.Restore(t.Context(), dir, sandbox.Spec{Tenant: "b"},
		sandbox.RestoreOptions{Urgent: true})
	if err != nil {
		t.Fatal(err)
	}
	want("with a standby sandbox", shares.TenantWeight/2, other, talk(t, m.(*Sandbox)))
	if n := b.Standby.Stats().Claims; n != 1 {
		t.Errorf("%d standby sandboxes were used", n)
	}
	destroy(t, m.(*Sandbox))
	destroy(t, other.Sandbox)
	destroy(t, two.Sandbox)
	b.Standby.Close()
	if n := r.shares.Len(); n != 0 {
		t.Errorf("%d sandboxes remain in the shares", n)
	}
}

// crowd is a cgroup of a tenant in which processes run.
type crowd struct {
	group
	cmds []*exec.Cmd
}

// newCrowd makes a cgroup and starts processes of a shell script in it.
func newCrowd(t *testing.T, r *Runtime, name, script string, n int) *crowd {
	t.Helper()
	g, err := newGroup(filepath.Join(r.parent.path, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Install(nil); err != nil {
		t.Fatal(err)
	}
	c := &crowd{group: g}
	t.Cleanup(func() {
		if err := removeTree(g.path, g.v2, killLimit); err != nil {
			t.Error(err)
		}
		for _, cmd := range c.cmds {
			_ = cmd.Wait() // it was killed
		}
	})
	for range n {
		// The process works once it is in its cgroup.
		cmd := exec.Command("sh", "-c", "read line; "+script)
		start, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		c.cmds = append(c.cmds, cmd)
		if err := (&JobGroup{g}).Confine(cmd.Process.Pid); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(start, "\n"); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// idle reports whether the kernel has the idle policy for the cgroup.
func (g *group) idle() bool { return readInt(g.idlePolicy()) == 1 }

// TestHeavyTenants checks in the kernel that tenants that keep all processors busy have the idle
// policy beside a light one, that they share the processors, one with a sandbox and one with eight,
// and that they get their weights back.
func TestHeavyTenants(t *testing.T) {
	const loop = "while :; do :; done"
	r := newRuntime(t)
	if !exists(r.parent.idlePolicy()) {
		t.Fatal("the kernel has no idle policy for cgroups: this test needs Linux 5.15 or later")
	}
	one := newCrowd(t, r, "one", loop, 4*runtime.NumCPU())
	var many []*crowd
	for i := range 8 {
		many = append(many, newCrowd(t, r, "many-"+strconv.Itoa(i), loop, runtime.NumCPU()))
	}
	light := newCrowd(t, r, "light", "while :; do sleep 0.01; done", 1)
	r.shares.Include("one", &one.group)
	for _, c := range many {
		r.shares.Include("many", &c.group)
	}
	r.shares.Include("light", &light.group)

	testenv.Eventually(t, "the tenant with one sandbox is heavy", one.idle)
	testenv.Eventually(t, "the tenant with eight sandboxes is heavy", many[0].idle)
	used := func() (o, m time.Duration) {
		for _, c := range many {
			m += c.CPUTime()
		}
		return one.CPUTime(), m
	}
	// The bound is one of processor time, so that it holds on a busy machine, too.
	beforeOne, beforeMany := used()
	testenv.Eventually(t, "they have used eight seconds of processors", func() bool {
		o, m := used()
		return o+m-beforeOne-beforeMany > 8*time.Second
	})
	if light.idle() {
		t.Error("the light tenant has the idle policy")
	}
	o, m := used()
	o, m = o-beforeOne, m-beforeMany
	t.Logf("the tenant with one sandbox used %v, that with eight %v", o, m)
	if o < m*2/3 || m < o*2/3 {
		t.Errorf("the tenant with one sandbox used %v, that with eight %v", o, m)
	}

	for _, c := range many {
		r.shares.Remove(&c.group)
		if err := killAll(dirs(c.path, c.v2), killLimit); err != nil {
			t.Fatal(err)
		}
	}
	if err := killAll(dirs(one.path, one.v2), killLimit); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "none is heavy", func() bool { return r.HeavyTenants() == 0 })
	if g := (guest{Sandbox: &Sandbox{group: &one.group}}); one.idle() ||
		g.weight() < shares.TenantWeight-1 {
		t.Errorf("the idle policy stays: %v, the weight is %d", one.idle(), g.weight())
	}
}
