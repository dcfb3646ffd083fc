package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// newStoreCluster creates a cluster of two servers with a bucket as its blob store. Durable sessions
// have a copy there every second, and are taken over early.
func newStoreCluster(t *testing.T) (*cluster, *blobtest.Server) {
	t.Helper()
	bucket := blobtest.Start(t)
	c := emptyCluster(t)
	c.Blobs = "s3://" + blobtest.Bucket + "/cluster"
	c.Settings = fmt.Sprintf("s3_endpoint: %q, s3_credentials_file: %q, take_over: 1s",
		bucket.Endpoint, bucket.Credentials)
	c.add(2, "sessions: {durable_every: 1s}")
	return c, bucket
}

// objects returns the names of the objects in the bucket, without the journals of nodes.
func objects(t *testing.T, s *blobtest.Server) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(s.Files, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && e.Name() != "cluster" && // it has the mark
			!strings.Contains(path, "/records/") {
			all = append(all, strings.TrimPrefix(path, s.Files+"/"))
		}
		if os.IsNotExist(err) {
			err = nil
		}
		return err
	}))
	return all
}

// TestClusterStore moves sessions over an S3 bucket, and checks that no object remains.
// sandgate doctor reports whether the bucket works.
func TestClusterStore(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, bucket := newStoreCluster(t)
	doctor := func() string { return c.Servers[0].findings(t, "blob store") }
	contains(t, doctor(), "ok", "stores, returns and removes")
	c.drain(t)
	if left := objects(t, bucket); len(left) > 0 {
		t.Errorf("the bucket still has %v", left)
	}
	c.history().mustHold(t)
	bucket.Kill()
	contains(t, doctor(), "fail", "cannot be reached")
}

// TestClusterTakeOver kills a node. Its durable sessions continue on another node from
// their last copy, and clients learn this. The error for a session without a copy says
// that it comes back with the node. The killed node is started again and has released
// the sessions that were taken over. The store is empty when the sessions have ended.
func TestClusterTakeOver(t *testing.T) {
	t.Parallel() // most of the time it waits for leases
	c, bucket := newStoreCluster(t)
	const at, other = 0, 1
	srv, stays := c.Servers[at], c.Servers[other]
	durable := true
	on := func(node int, r protocol.SessionCreate) *session {
		t.Helper()
		return c.openOn(t, stays, node, r)
	}
	s := on(at, protocol.SessionCreate{Durable: &durable})
	var mu sync.Mutex // guards states
	var states []string
	watched, err := wire.New(stays.URL, stays.Token,
		wire.Options{OnSession: func(x protocol.StateChange) {
			mu.Lock()
			defer mu.Unlock()
			if x.Session == s.id {
				states = append(states, x.State)
			}
		}})
	check(t, err)
	conn, err := watched.Connect(s.ctx)
	check(t, err)
	defer conn.Close()
	k, err := conn.Kernel(s.ctx, s.id, "k1")
	check(t, err)
	s.conn, s.kernel = conn, k

	asleep := on(at, protocol.SessionCreate{Durable: &durable})
	doomed := on(at, protocol.SessionCreate{})
	elsewhere := on(other, protocol.SessionCreate{Durable: &durable})
	ran := map[*session]time.Time{}
	for i, x := range []*session{s, asleep, doomed, elsewhere} {
		x.run("ok", fmt.Sprintf("v = %d\nopen('kept', 'w').write('%d')", i, i))
		ran[x] = time.Now().Add(time.Millisecond) // the log's times have no smaller unit
	}
	inStore := func(x *session, srv *Server) {
		t.Helper()
		line := regexp.MustCompile(`copy is in the blob store" .*session=` + x.id +
			` .*as_of=(\S+)`)
		eventually(t, "a copy of "+x.id+" in the store", func() bool {
			for _, m := range line.FindAllStringSubmatch(srv.Log(), -1) {
				if at, err := time.Parse(time.RFC3339, m[1]); err == nil && at.After(ran[x]) {
					return true
				}
			}
			return false
		})
	}
	inStore(s, srv)
	inStore(asleep, srv)
	inStore(elsewhere, stays)
	_, err = asleep.client.HibernateSession(s.ctx, asleep.id)
	check(t, err)

	// A cell that began after the copy was made.
	lost, err := s.kernel.Execute(s.ctx, "print('begun', flush=True)\nimport time\ntime.sleep(600)",
		wire.ExecuteOptions{})
	check(t, err)
	for begun := false; !begun; {
		r, err := lost.Next(s.ctx)
		check(t, err)
		begun = r.Kind == frame.KindStdout
	}
	// Kill the node first. The supervisor is stopped, so that it does not start the node again.
	syscall.Kill(srv.PID(), syscall.SIGSTOP)
	srv.Signal(syscall.SIGKILL)
	srv.Halt(syscall.SIGKILL)
	begin := time.Now()
	if got := elsewhere.run("ok", "v").result(t); got != "3" {
		t.Errorf("the other node's session: %s", got)
	}
	_, err = s.client.Session(s.ctx, doomed.id)
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a session of the killed node: %v", err)
	}
	checkResumed := func(x *session, want string) {
		t.Helper()
		eventually(t, "the session is taken over", func() bool {
			cell, err := x.kernel.Execute(x.ctx, "v, open('kept').read()", wire.ExecuteOptions{})
			if err != nil {
				return false
			}
			out := x.collect(cell, nil)
			if out.reply.Status != "ok" || out.result(t) != want {
				t.Fatalf("the session has %+v, want %s", out, want)
			}
			return true
		})
		if c.owner(x.id) != other {
			t.Errorf("%s is not the other node's", x.id)
		}
	}
	checkResumed(s, "(0, '0')")
	if r, err := lost.Wait(s.ctx); !fault.Is(err, fault.SandboxLost) && r.EName != "SandboxLost" {
		t.Errorf("the cell that the copy does not have ended with %+v, %v", r, err)
	}
	t.Logf("it continues %s after the kill", time.Since(begin))
	checkResumed(asleep, "(1, '1')")
	mu.Lock()
	if !strings.Contains(fmt.Sprint(states), "resuming") {
		t.Errorf("a client was sent the states %v, want one that says that the session resumes",
			states)
	}
	mu.Unlock()
	if v, err := s.client.Session(s.ctx, s.id); err != nil || v.RecoveredMS == 0 {
		t.Errorf("the session does not report the time of its copy: %+v %v", v, err)
	}
	_, err = s.client.Session(s.ctx, doomed.id)
	if !fault.Is(err, fault.Unavailable) ||
		!strings.Contains(err.Error(), "comes back with the node") {
		t.Errorf("a session without a copy: %v", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 10*time.Minute)
	defer cancel()
	check(t, srv.Boot(ctx))
	eventually(t, "the old node gives them up", func() bool {
		log := srv.Log()
		return strings.Contains(log, `another node has taken a session" `) &&
			len(there(t, srv, "durable")) == 0
	})
	for i, x := range []*session{s, asleep} {
		checkResumed(x, fmt.Sprintf("(%d, '%d')", i, i))
	}
	check(t, killed(s.ctx, s.client, doomed.id))
	c.history().mustHold(t)
	for _, x := range []*session{s, asleep, elsewhere} {
		check(t, s.client.DeleteSession(s.ctx, x.id))
	}
	eventually(t, "an empty store", func() bool { return len(objects(t, bucket)) == 0 })
}

// openAs is open with parameters of the session. The test deletes the session.
func openAs(t *testing.T, srv *Server, r protocol.SessionCreate) *session {
	t.Helper()
	ctx := deadline(t)
	c, err := wire.New(srv.URL, srv.Token, wire.Options{})
	check(t, err)
	r.Language = "python"
	made, err := c.CreateSession(ctx, r)
	check(t, err)
	conn, err := c.Connect(ctx)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
	check(t, err)
	return &session{t, ctx, c, conn, k, made.ID}
}

// there returns the names in a folder of the node's data.
func there(t *testing.T, srv *Server, folder string) (names []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(srv.Dir, "data", "node", folder, "*"))
	check(t, err)
	return names
}
