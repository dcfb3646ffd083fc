package langs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// Fuzz tests of the drivers' readers of requests. Each target runs a driver in the image, without
// gVisor, and writes data that no agent would write:
//
//	go test ./langs -run - -fuzz FuzzPHP -fuzztime 3m
//
// The fuzz tests of Python's and Go's readers are in langs/python/tests and
// langs/golang/kernel/wire.
func FuzzJavaScript(f *testing.F) { fuzzDriver(f, "javascript", "1 + 1") }
func FuzzJava(f *testing.F)       { fuzzDriver(f, "java", "1 + 1") }
func FuzzPHP(f *testing.F)        { fuzzDriver(f, "php", "1 + 1;") }
func FuzzBash(f *testing.F)       { fuzzDriver(f, "bash", "true") }
func FuzzSQL(f *testing.F)        { fuzzDriver(f, "sql", "SELECT 1") }

// patience is how long a driver may take to answer before it counts as hanging, on a busy machine.
const patience = 2 * time.Minute

// maxRequests is the largest number of requests in one input, one per line.
const maxRequests = 4

// fuzzDriver checks that a valid request gets an answer after any input, or that the driver ends.
// code is executed whatever the input contains.
func fuzzDriver(f *testing.F, language, code string) {
	for _, seed := range []string{
		`{"op":"execute","id":1,"cell":1,"code":"x","silent":false,"no_input":true,"program":true}`,
		`{"op":"complete","id":2,"code":"s","cursor":1}` + "\n" +
			`{"op":"inspect","id":3,"code":"s","cursor":-1,"detail":1}`,
		`{"op":"is_complete","id":4,"code":"if (true) {"}` + "\n" + `{"op":"variables","id":5}`,
		`{"op":"reseed","id":6,"seed":"` + strings.Repeat("ab", 32) + `","env":{"A":"b"}}`,
		`{"op":"input","cell":1,"value":"x","eof":true}` + "\n" + `{"op":"interrupt","cell":9}`,
		`{"op":"comm","comm":{"msg_type":"comm_msg","content":{"comm_id":"a","data":{}}}}`,
		`{"op":"dance","id":18446744073709551615}` + "\n" + `{"id":-1}` + "\n[]",
		`{"op":"execute","id":7,"cell":1,"code":["x"]}` + "\n" + `{"op":"execute","id":1e400}`,
		`{"op":"complete","id":8,"code":"\ud800","cursor":1152921504606846976}`,
		"{", "null\n7\n\"x\"", strings.Repeat("[", 10_000), "\xff\xfe\x00",
	} {
		f.Add([]byte(seed))
	}
	var d *driver
	f.Cleanup(func() {
		if d != nil {
			d.end()
		}
	})
	f.Fuzz(func(t *testing.T, in []byte) {
		if d == nil {
			d = startDriver(t, language)
		}
		requests := bytes.SplitN(in, []byte("\n"), maxRequests+1)
		for _, r := range requests[:min(len(requests), maxRequests)] {
			d.write(tame(r, code))
		}
		if !d.answers(t) {
			d.end()
			d = nil
		}
	})
}

// tame gives an execute code that ends, and a reseed variables that do not affect the driver's
// programs. All else is unchanged.
func tame(request []byte, code string) []byte {
	var q kernel.Request
	if json.Unmarshal(request, &q) != nil {
		return request
	}
	var fields map[string]json.RawMessage
	_ = json.Unmarshal(request, &fields)
	switch strings.ToLower(q.Op) {
	case "execute":
		for name := range fields {
			if strings.EqualFold(name, "code") {
				delete(fields, name)
			}
		}
		fields["code"], _ = json.Marshal(code)
	case "reseed":
		for name := range fields {
			if strings.EqualFold(name, "env") {
				delete(fields, name)
			}
		}
	default:
		return request
	}
	tamed, err := json.Marshal(fields)
	if err != nil {
		return request
	}
	return tamed
}

// driver is a driver in the image.
type driver struct {
	cmd     *exec.Cmd
	to      *os.File
	replies chan uint64 // closed when the driver ends
	asked   uint64
}

func startDriver(t *testing.T, language string) *driver {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	list, err := kernel.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	m, err := kernel.Find(list, language)
	if err != nil {
		t.Fatal(err)
	}
	// The first process of a namespace cannot be killed from inside: it is a shell.
	argv := []string{
		filepath.Join(root, "bin/image.erofs"), "/bin/sh", "-c", `"$@"; exit`, "sh",
		"/usr/bin/env",
	}
	for k, v := range m.Env {
		argv = append(argv, k+"="+v)
	}
	theirs, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	from, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	d := &driver{cmd: exec.Command(filepath.Join(root, "deploy/image/enter"),
		append(argv, m.Argv...)...), to: to, replies: make(chan uint64, 64), asked: 1 << 50}
	d.cmd.ExtraFiles = []*os.File{theirs, ours}
	d.cmd.Stderr = &complaints
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	d.cmd.WaitDelay = time.Second
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	ours.Close()
	go func() {
		defer close(d.replies)
		defer from.Close()
		for r := frame.NewReader(from, 0); ; {
			f, err := r.Next()
			if err != nil {
				_, _ = io.Copy(io.Discard, from)
				return
			}
			var reply message.Reply
			if f.Type == frame.Control && json.Unmarshal(f.Body, &reply) == nil &&
				(reply.ID == 0 && reply.Op == "ready" || reply.ID > 1<<50) {
				d.replies <- reply.ID
			}
		}
	}()
	if !d.await(t, 0) {
		_ = d.cmd.Wait()
		t.Fatalf("the %s driver does not start; it needs root and a built image: %s", language,
			complaints.Bytes())
	}
	return d
}

// write writes a request. It ignores the error of a driver that has ended.
func (d *driver) write(body []byte) {
	_ = d.to.SetWriteDeadline(time.Now().Add(patience))
	_ = frame.NewWriter(d.to).Write(frame.Frame{Type: frame.Control, Body: body})
}

// answers reports whether the driver answers a valid request; false if it ends.
func (d *driver) answers(t *testing.T) bool {
	t.Helper()
	d.asked++
	d.write(fmt.Appendf(nil, `{"op":"is_complete","id":%d,"code":"1"}`, d.asked))
	return d.await(t, d.asked)
}

func (d *driver) await(t *testing.T, id uint64) bool {
	t.Helper()
	limit := time.After(patience)
	for {
		select {
		case got, ok := <-d.replies:
			if !ok || got == id {
				return ok
			}
		case <-limit:
			d.end()
			t.Fatalf("the driver hangs")
		}
	}
}

// end ends the driver with its namespace.
func (d *driver) end() {
	d.to.Close()
	// including the shell, and with it the whole namespace
	_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL)
	for range d.replies {
		continue
	}
	_ = d.cmd.Wait()
}
