package migrate

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sandgate/sandgate/internal/blob"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol/fault"
)

// maxSteps is more than the number of steps of any move.
const maxSteps = 30

const id = "s_x"

// objects returns the names of all objects.
func (c *testCluster) objects() []string {
	return blobtest.Names(c.t, c.blobs, "checkpoints", "sessions", "tenants")
}

// mustHold checks that exactly one of two nodes has the session after all processes have started
// again. This is the node that already has it, or otherwise the node that adopts it. The session
// has its value, and can still be moved to the other node.
func (c *testCluster) mustHold(value string, isDurable bool, a, b *node) {
	c.t.Helper()
	for _, n := range []*node{a, b} {
		n.leases.Heartbeat(c.t.Context())
		n.removeLeftovers()
	}
	if a.has(id) == nil && b.has(id) == nil {
		if err := b.adoptIt(id); err != nil {
			c.t.Fatalf("no node has the session, and it cannot be adopted: %v; %v", err,
				c.objects())
		}
	}
	owner, other := a, b
	if b.has(id) != nil {
		owner, other = b, a
	}
	s := owner.has(id)
	if s == nil || other.has(id) != nil {
		c.t.Fatalf("a has %v, b has %v", a.has(id), b.has(id))
	}
	if s.value != value {
		c.t.Errorf("the session's value is %q", s.value)
	}
	if err := other.adoptIt(id); !fault.Is(err, fault.Conflict) && !fault.Is(err, fault.NotFound) {
		c.t.Errorf("the session was adopted from a node that has it: %v", err)
	}
	if _, err := owner.objects.Parked(c.t.Context(), id); !fault.Is(err, fault.NotFound) {
		c.t.Errorf("the session is still parked: %v; %v", err, c.objects())
	}
	if views, err := owner.objects.Views(c.t.Context(), testTenant); !isDurable &&
		(err != nil || len(views) > 0) {
		c.t.Errorf("the store lists a session of a node: %v %v", views, err)
	}
	if _, err := owner.objects.NewestCheckpoint(c.t.Context(), id); !isDurable &&
		!fault.Is(err, fault.NotFound) {
		c.t.Errorf("a session that is not durable has a checkpoint: %v", err)
	}
	must(c.t, owner.park(c.t.Context(), s))
	owner.leases.Heartbeat(c.t.Context())
	other.leases.Heartbeat(c.t.Context())
	must(c.t, other.adoptIt(id))
	if s := other.has(id); s == nil || s.value != value || owner.has(id) != nil {
		c.t.Errorf("on the other node: %v", s)
	}
}

// everyStep runs f with a kill before the first step, then before the second, until the move ends
// before the kill. f reports whether the move ended first.
func everyStep(t *testing.T, f func(t *testing.T, step int) (survived bool)) {
	for step := 1; ; step++ {
		over := false
		t.Run(fmt.Sprintf("before step %d", step), func(t *testing.T) { over = f(t, step) })
		if over || t.Failed() {
			return
		}
		if step > maxSteps {
			t.Fatal("the move does not end")
		}
	}
}

// both runs a test with a durable session and with a session that is not durable.
func both(t *testing.T, f func(t *testing.T, isDurable bool)) {
	t.Run("durable", func(t *testing.T) { f(t, true) })
	t.Run("not durable", func(t *testing.T) { f(t, false) })
}

// TestKilledWhileParking kills a node before each step that follows the write of the session to its
// disk.
func TestKilledWhileParking(t *testing.T) {
	both(t, func(t *testing.T, isDurable bool) {
		everyStep(t, func(t *testing.T, step int) bool {
			c := newTestCluster(t)
			a := c.start("a")
			s := a.create(id, "v", isDurable)
			if isDurable {
				must(t, a.uploadCopy(t.Context(), s, s.copies.Newest(), s.Describe().CopyDir))
			}
			err, survived := a.killAt(step, func() error { return a.park(t.Context(), s) })
			must(t, err)
			c.mustHold("v", isDurable, c.start("a"), c.start("b"))
			return survived
		})
	})
}

// TestKilledWhileAdopting kills a node before each step of the adoption of a parked session.
func TestKilledWhileAdopting(t *testing.T) {
	both(t, func(t *testing.T, isDurable bool) {
		everyStep(t, func(t *testing.T, step int) bool {
			c := newTestCluster(t)
			a, b := c.start("a"), c.start("b")
			must(t, a.park(t.Context(), a.create(id, "v", isDurable)))
			err, survived := b.killAt(step, func() error { return b.adoptIt(id) })
			must(t, err)
			c.mustHold("v", isDurable, c.start("a"), c.start("b"))
			return survived
		})
	})
}

// TestKilledWhileAdoptingElsewhere starts the killed node only after another node has adopted the
// session. The killed node does not take the session back.
func TestKilledWhileAdoptingElsewhere(t *testing.T) {
	both(t, func(t *testing.T, isDurable bool) {
		everyStep(t, func(t *testing.T, step int) bool {
			c := newTestCluster(t)
			a, b := c.start("a"), c.start("b")
			must(t, a.park(t.Context(), a.create(id, "v", isDurable)))
			err, survived := b.killAt(step, func() error { return b.adoptIt(id) })
			must(t, err)
			c.end("b")
			// If the objects are gone, only the killed node has the session.
			if err := a.adoptIt(id); err != nil && !fault.Is(err, fault.NotFound) {
				t.Fatal(err)
			}
			b = c.start("b")
			a.leases.Heartbeat(t.Context())
			c.mustHold("v", isDurable, a, b)
			return survived
		})
	})
}

// broken runs a test with each kind of session, once with steps that fail without an effect and
// once with steps whose answer is lost.
func broken(t *testing.T, f func(t *testing.T, isDurable, loseAnswer bool)) {
	both(t, func(t *testing.T, isDurable bool) {
		t.Run("no effect", func(t *testing.T) { f(t, isDurable, false) })
		t.Run("lost answer", func(t *testing.T) { f(t, isDurable, true) })
	})
}

// TestBrokenWhileParking lets the blob store or the directory fail in each step. The session stays
// on its node, or is parked. If the node does not know which, it finds out at its next start.
func TestBrokenWhileParking(t *testing.T) {
	broken(t, func(t *testing.T, isDurable, loseAnswer bool) {
		everyStep(t, func(t *testing.T, step int) bool {
			c := newTestCluster(t)
			a, b := c.start("a"), c.start("b")
			s := a.create(id, "v", isDurable)
			if isDurable {
				must(t, a.uploadCopy(t.Context(), s, s.copies.Newest(), s.Describe().CopyDir))
			}
			a.failIn, a.loseAnswer = step, loseAnswer
			err := a.park(t.Context(), s)
			over := a.failIn > 0
			a.failIn = 0
			switch stayed := a.has(id) != nil; {
			case stayed && err == nil:
				t.Error("the session stayed, and was reported as parked")
			case !stayed && err != nil: // this process does not know who owns it
				a = c.start("a")
			}
			c.mustHold("v", isDurable, a, b)
			return over
		})
	})
}

// TestBrokenWhileAdopting lets the blob store or the directory fail in each step of an adoption. A
// second attempt succeeds.
func TestBrokenWhileAdopting(t *testing.T) {
	broken(t, func(t *testing.T, isDurable, loseAnswer bool) {
		everyStep(t, func(t *testing.T, step int) bool {
			c := newTestCluster(t)
			a, b := c.start("a"), c.start("b")
			must(t, a.park(t.Context(), a.create(id, "v", isDurable)))
			b.failIn, b.loseAnswer = step, loseAnswer
			err := b.adoptIt(id)
			over := b.failIn > 0
			b.failIn = 0
			if (err == nil) != (b.has(id) != nil) {
				t.Errorf("error %v, session on this node: %t", err, b.has(id) != nil)
			}
			c.mustHold("v", isDurable, a, b)
			return over
		})
	})
}

// TestListedWhileMoving checks before each step of a move that the session is in the list of a node
// or among the parked ones, and afterwards that a session of a node is in the list only once.
func TestListedWhileMoving(t *testing.T) {
	both(t, func(t *testing.T, isDurable bool) {
		c := newTestCluster(t)
		a, b, reader := c.start("a"), c.start("b"), &Store{Blobs: c.blobs}
		s := a.create(id, "v", isDurable)
		watch := func() {
			t.Helper()
			views, err := reader.Views(t.Context(), testTenant)
			must(t, err)
			if a.lists(id) || b.lists(id) {
				return
			}
			if len(views) != 1 || views[0].State != "hibernated" {
				t.Errorf("no node lists the session, and the store has %v: %v", views, c.objects())
			}
		}
		a.watch, b.watch = watch, watch
		must(t, a.park(t.Context(), s))
		watch()
		must(t, b.adoptIt(id))
		watch()
		if views, err := reader.Views(t.Context(), testTenant); err != nil ||
			len(views) > 0 != isDurable {
			t.Errorf("after the move the store lists %v %v", views, err)
		}
		if left := a.cfg.Departures.Views(func(tenant, session string) bool {
			return tenant == testTenant && session == id
		}); len(left) != 1 || left[0].Session.State != "hibernated" {
			t.Errorf("the first node has left %+v", left)
		}
	})
}

// TestLeftoverOfMovedSession: the removal of the objects of an interrupted move does not remove the
// objects of a session that has just been parked.
func TestLeftoverOfMovedSession(t *testing.T) {
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	s := a.create(id, "v", false)
	must(t, a.park(t.Context(), s))
	a.addLeftover(id)
	a.removeLeftover(s)
	a.retryLeftovers()
	if len(a.leftovers) > 0 {
		t.Errorf("the removal is tried again: %v", a.leftovers)
	}
	c.mustHold("v", false, a, b)
}

// TestMovesOverS3 moves a durable session through an S3 bucket. The session of a killed node is
// taken over from the bucket.
func TestMovesOverS3(t *testing.T) {
	server := blobtest.Start(t)
	store, err := blob.OpenS3(blob.S3Options{
		URL: "s3://" + blobtest.Bucket, Endpoint: server.Endpoint, Credentials: server.Credentials,
	})
	must(t, err)
	c := newTestCluster(t)
	c.blobs = store
	a, b := c.start("a"), c.start("b")
	s := a.create(id, "v", true)
	must(t, a.uploadCopy(t.Context(), s, s.copies.Newest(), s.Describe().CopyDir))
	c.end("a")
	must(t, b.adoptIt(id))
	c.mustHold("v", true, c.start("a"), b)
}

// TestNoEarlierState checks that a session that has run on its new node is never resumed from its
// parked state, even if that node is killed at once.
func TestNoEarlierState(t *testing.T) {
	everyStep(t, func(t *testing.T, step int) bool {
		c := newTestCluster(t)
		a, b := c.start("a"), c.start("b")
		must(t, a.park(t.Context(), a.create(id, "v", false)))
		b.wakes = true
		err, survived := b.killAt(step, func() error { return b.adoptIt(id) })
		must(t, err)
		woke := b.woke
		b = c.start("b")
		if !woke {
			c.mustHold("v", false, a, b)
			return survived
		}
		for _, n := range []*node{a, b} {
			if err := n.adoptIt(id); !fault.Is(err, fault.NotFound) {
				t.Errorf("node %s resumes an earlier state: %v", n.cfg.Node, err)
			}
		}
		return survived
	})
}

// TestKilledWhileTakingOver kills a node before each step in which it takes over the session of a
// failed node. The failed node starts again before or after that, and has lost the session.
func TestKilledWhileTakingOver(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			everyStep(t, func(t *testing.T, step int) bool {
				c := newTestCluster(t)
				a, b := c.start("a"), c.start("b")
				s := a.create(id, "v", true)
				must(t, a.uploadCopy(t.Context(), s, s.copies.Newest(), s.Describe().CopyDir))
				c.end("a")
				err, survived := b.killAt(step, func() error { return b.adoptIt(id) })
				must(t, err)
				if late {
					b = c.start("b")
					if b.has(id) == nil {
						must(t, b.adoptIt(id))
					}
					c.mustHold("v", true, c.start("a"), b)
				} else {
					c.mustHold("v", true, c.start("a"), c.start("b"))
				}
				return survived
			})
		})
	}
}

// TestKilledWhileUploading checks that the store has a complete checkpoint after each step of an
// upload that replaces a checkpoint.
func TestKilledWhileUploading(t *testing.T) {
	everyStep(t, func(t *testing.T, step int) bool {
		c := newTestCluster(t)
		a, b := c.start("a"), c.start("b")
		s := a.create(id, "v", true)
		upload := func(number int) error {
			return a.uploadCopy(t.Context(), s, number,
				s.Describe().CopyDir)
		}
		must(t, upload(1))
		err, survived := a.killAt(step, func() error { return upload(2) })
		must(t, err)
		c.end("a")
		must(t, b.adoptIt(id))
		c.mustHold("v", true, c.start("a"), b)
		return survived
	})
}

// TestKilledWhileDisposing: a session that has ended does not come back, and in the end the store
// has no object of it.
func TestKilledWhileDisposing(t *testing.T) {
	everyStep(t, func(t *testing.T, step int) bool {
		c := newTestCluster(t)
		a, b := c.start("a"), c.start("b")
		s := a.create(id, "v", true)
		must(t, a.uploadCopy(t.Context(), s, 1, s.Describe().CopyDir))
		_, survived := a.killAt(step, func() error {
			s.end()
			s.copies.Close(true)
			must(t, a.copies.Mark(id)) // as a process does when its store fails
			if a.Dispose(s) {
				a.cfg.Owner.Forget(id)
				return a.copies.Remove(id)
			}
			return nil
		})
		a = c.start("a")
		if a.has(id) != nil {
			t.Error("the session came back")
		}
		a.disposeEnded()
		if left := c.objects(); len(left) > 0 {
			t.Errorf("in the store: %v", left)
		}
		c.end("a")
		if err := b.adoptIt(id); !fault.Is(err, fault.NotFound) {
			t.Errorf("adopted after its end: %v", err)
		}
		return survived
	})
}

// TestFencedUpload checks that a node that has lost a session cannot replace the current
// checkpoint, and writes nothing once it knows of the loss.
func TestFencedUpload(t *testing.T) {
	c := newTestCluster(t)
	a, b := c.start("a"), c.start("b")
	s := a.create(id, "v", true)
	must(t, a.uploadCopy(t.Context(), s, 1, s.Describe().CopyDir))
	c.end("a")
	must(t, b.adoptIt(id))
	must(t, a.uploadCopy(t.Context(), s, 2, s.Describe().CopyDir))
	if n, err := b.objects.NewestCheckpoint(t.Context(), id); err != nil || n.Node != "b" {
		t.Errorf("the current checkpoint is %+v, %v", n, err)
	}
	a.leases.Heartbeat(t.Context())
	if a.all[id] != nil {
		t.Error("the node does not know of the loss")
	}
	before := c.objects()
	must(t, a.uploadCopy(t.Context(), s, 3, s.Describe().CopyDir))
	if now := c.objects(); !slices.Equal(now, before) {
		t.Errorf("the node wrote: %v, before %v", now, before)
	}
}
