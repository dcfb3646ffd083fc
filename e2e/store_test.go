package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/blob/blobtest"
	"github.com/sandgate/sandgate/protocol"
)

// inBucket has the servers that a test starts keep parked sessions in a bucket.
func inBucket(t *testing.T) *blobtest.Server {
	t.Helper()
	s := blobtest.Start(t)
	for name, value := range map[string]string{
		"BLOBS": "s3://" + blobtest.Bucket + "/cluster", "S3_ENDPOINT": s.Endpoint, "S3_CREDENTIALS_FILE": s.Credentials, "TAKE_OVER": "1s",
	} {
		t.Setenv("SANDGATE_CLUSTER_"+name, value)
	}
	t.Setenv("SANDGATE_SESSIONS_DURABLE_EVERY", "1s")
	return s
}

// objects are the names of those in the bucket.
func objects(t *testing.T, s *blobtest.Server) (all []string) {
	t.Helper()
	check(t, filepath.WalkDir(s.Files, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			all = append(all, strings.TrimPrefix(path, s.Files+"/"))
		}
		if os.IsNotExist(err) {
			err = nil
		}
		return err
	}))
	return all
}

// TestClusterStore: sessions move over an S3 bucket, and nothing stays there; a
// doctor says whether the bucket does its work.
func TestClusterStore(t *testing.T) {
	bucket := inBucket(t)
	c := newCluster(t, 2)
	bin, err := Bin("sandgate")
	check(t, err)
	doctor := func() string {
		out, _ := exec.Command(bin, "doctor", "--config", c.Servers[0].Config, "--url", c.Servers[0].URL).CombinedOutput() // it fails for more than this
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "blob store") {
				return line
			}
		}
		t.Fatalf("the doctor does not speak of the blob store:\n%s", out)
		return ""
	}
	contains(t, doctor(), "ok", "stores, returns and removes")
	c.drain(t)
	if left := objects(t, bucket); len(left) > 0 {
		t.Errorf("left in the bucket: %v", left)
	}
	c.history().mustHold(t)
	bucket.Kill()
	contains(t, doctor(), "fail", "cannot be reached")
}

// TestClusterTakeOver: the durable sessions of a node that was killed go on on
// another as of their last copy, which is told; what was not in the store says
// that it comes back with the nodes node; that node, started again, has lost what was
// taken, and the store holds nothing once the sessions have ended.
func TestClusterTakeOver(t *testing.T) {
	bucket := inBucket(t)
	c := newCluster(t, 2)
	const at, other = 0, 1
	srv, stays := c.Servers[at], c.Servers[other]
	durable := true
	on := func(want int, r protocol.SessionCreate) *session {
		t.Helper()
		for range 8 {
			s := openAs(t, stays, r)
			if c.owner(s.id) == want {
				return s
			}
			check(t, s.client.DeleteSession(s.ctx, s.id))
		}
		t.Fatalf("no session comes to node %d", want)
		return nil
	}
	s := on(at, protocol.SessionCreate{Durable: &durable})
	var mu sync.Mutex // guards states
	var states []string
	watched, err := client.New(stays.URL, stays.Token, client.Options{OnSession: func(x protocol.StateChange) {
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
		ran[x] = time.Now().Add(time.Millisecond) // the log's times are cut there
	}
	inStore := func(x *session, srv *Server) {
		t.Helper()
		line := regexp.MustCompile(`copy is in the blob store" .*session=` + x.id + ` .*as_of=(\S+)`)
		for {
			for _, m := range line.FindAllStringSubmatch(srv.Log(), -1) {
				if at, err := time.Parse(time.RFC3339, m[1]); err == nil && at.After(ran[x]) {
					return
				}
			}
			if x.ctx.Err() != nil {
				t.Fatalf("the copy of %s never came to the store:\n%s", x.id, srv.Log())
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	inStore(s, srv)
	inStore(asleep, srv)
	inStore(elsewhere, stays)
	_, err = asleep.client.HibernateSession(s.ctx, asleep.id)
	check(t, err)

	// The node at once, and before somebody starts it again all that stands above.
	syscall.Kill(srv.PID(), syscall.SIGSTOP)
	srv.Signal(syscall.SIGKILL)
	srv.Halt(syscall.SIGKILL)
	begin := time.Now()
	if got := elsewhere.run("ok", "v").result(t); got != "3" {
		t.Errorf("the other node's session: %s", got)
	}
	_, err = s.client.Session(s.ctx, doomed.id)
	if !fault.Is(err, fault.Unavailable) {
		t.Errorf("a session of the dead node: %v", err)
	}
	awaken := func(x *session, want string) {
		t.Helper()
		for {
			cell, err := x.kernel.Execute(x.ctx, "v, open('kept').read()", client.ExecuteOptions{})
			if err == nil {
				out := x.collect(cell, nil)
				if out.reply.Status != "ok" || out.result(t) != want {
					t.Fatalf("it holds %+v, want %s", out, want)
				}
				break
			}
			if x.ctx.Err() != nil || time.Since(begin) > 3*time.Minute {
				t.Fatalf("the session never came: %v", err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if c.owner(x.id) != other {
			t.Errorf("%s is not the other node's", x.id)
		}
	}
	awaken(s, "(0, '0')")
	t.Logf("it goes on %s after the kill", time.Since(begin))
	awaken(asleep, "(1, '1')")
	mu.Lock()
	if !strings.Contains(fmt.Sprint(states), "resuming") {
		t.Errorf("a client was told %v, not that the session resumes", states)
	}
	mu.Unlock()
	if v, err := s.client.Session(s.ctx, s.id); err != nil || v.RecoveredMS == 0 {
		t.Errorf("it does not say as of when it is: %+v %v", v, err)
	}
	_, err = s.client.Session(s.ctx, doomed.id)
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "comes back with the node") {
		t.Errorf("what was not in the store: %v", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 2*time.Minute)
	defer cancel()
	check(t, srv.Boot(ctx))
	eventually(t, "the old node gives them up", func() bool {
		log := srv.Log()
		return strings.Contains(log, `another node has taken a session" `) && len(there(t, srv, "durable")) == 0
	})
	for i, x := range []*session{s, asleep} {
		awaken(x, fmt.Sprintf("(%d, '%d')", i, i))
	}
	for {
		if _, err = s.client.Session(s.ctx, doomed.id); fault.Is(err, fault.NotFound) || fault.Is(err, fault.SandboxLost) {
			break
		}
		if s.ctx.Err() != nil || time.Since(begin) > 2*time.Minute {
			t.Fatalf("the other never ends: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.history().mustHold(t)
	for _, x := range []*session{s, asleep, elsewhere} {
		check(t, s.client.DeleteSession(s.ctx, x.id))
	}
	eventually(t, "an empty store", func() bool { return len(objects(t, bucket)) == 0 })
}

// openAs is open for a session that is asked for in this way, until the test
// ends it.
func openAs(t *testing.T, srv *Server, r protocol.SessionCreate) *session {
	t.Helper()
	ctx := deadline(t)
	c, err := client.New(srv.URL, srv.Token, client.Options{})
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

// there are the names in a folder of the node's data.
func there(t *testing.T, srv *Server, folder string) (names []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(srv.Dir, "data", "node", folder, "*"))
	check(t, err)
	return names
}
