package session

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/sandgate/sandgate/langs/golang/kernel/host"
	"github.com/sandgate/sandgate/langs/golang/kernel/rich"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

// write handles the data that an os.File writes to descriptor 1 or 2.
func (s *Session) write(fd int, b []byte) {
	var cell uint32
	if r := s.runs.find(host.Now()); r != nil {
		cell = r.cell
	}
	if fd == 1 {
		s.out.Stdout(cell, b)
	} else {
		s.out.Stderr(cell, b)
	}
}

// exit handles an os.Exit: it ends the cell, or its remaining goroutines. Deferred calls run. A
// call from outside of cells ends the kernel.
func (s *Session) exit(code int) {
	r := s.runs.byNumber(host.Now())
	switch {
	case r == nil || s.runs.now.Load() != r:
		var cell uint32
		if r != nil {
			cell = r.cell
		}
		s.out.Stderr(cell, fmt.Appendf(nil,
			"exit status %d of a goroutine that a cell has left running: the goroutine ends, the session does not\n", code))
	case r.exitCode.CompareAndSwap(-1, int32(code&0xFF)):
		r.halt(nil)
		atomic.StoreUint32(s.alarm, 1)
	}
	runtime.Goexit()
}

// errNoInput is the error of reading when no user can answer.
var errNoInput = errors.New("input is not possible here")

// stdin is the session's standard input: lines that the user is asked for.
type stdin struct {
	turn    sync.Mutex // held while asking
	left    []byte     // rest of the last line; guarded by turn
	mu      sync.Mutex // guards answers
	answers chan wire.Request
}

// give forwards an answer. An answer that nobody waits for is dropped.
func (i *stdin) give(q wire.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answers != nil {
		i.answers <- q
		i.answers = nil
	}
}

// request asks the user for a line; ok is false at the end of input.
func (s *Session) request(r *run, prompt string, password bool) (line string, ok bool, err error) {
	if r == nil || r.noInput {
		return "", false, errNoInput
	}
	answers := make(chan wire.Request, 1)
	s.stdin.mu.Lock()
	s.stdin.answers = answers
	s.stdin.mu.Unlock()
	s.message(r.cell, "input_request", map[string]any{"prompt": prompt, "password": password})
	select {
	case q := <-answers:
		return q.Value, !q.EOF, nil
	case <-r.stop:
		s.stdin.mu.Lock()
		s.stdin.answers = nil
		s.stdin.mu.Unlock()
		return "", false, os.ErrClosed
	}
}

// asker returns the run that may ask: nobody answers a goroutine of a cell that has ended.
func (s *Session) asker() (*run, error) {
	s.runs.mu.Lock()
	defer s.runs.mu.Unlock()
	id := host.Now()
	if r := s.runs.current; r != nil && (id == r.id || id == 0) {
		return r, nil
	}
	return nil, io.EOF
}

// read answers a read of descriptor 0.
func (s *Session) read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	r, err := s.asker()
	if err != nil {
		return 0, err
	}
	s.stdin.turn.Lock()
	defer s.stdin.turn.Unlock()
	if len(s.stdin.left) == 0 {
		line, ok, err := s.request(r, "", false)
		if err != nil {
			s.leave(r)
			return 0, &os.PathError{Op: "read", Path: "/dev/stdin", Err: err}
		}
		if !ok {
			return 0, io.EOF
		}
		s.stdin.left = []byte(strings.TrimSuffix(line, "\n") + "\n")
	}
	n := copy(b, s.stdin.left)
	s.stdin.left = s.stdin.left[n:]
	return n, nil
}

// ask implements input.Line and input.Password.
func (s *Session) ask(prompt string, password bool) (string, error) {
	r, err := s.asker()
	if err != nil {
		return "", err
	}
	s.stdin.turn.Lock()
	defer s.stdin.turn.Unlock()
	line, ok, err := s.request(r, prompt, password)
	switch {
	case err != nil:
		s.leave(r)
		return "", err
	case !ok:
		return "", io.EOF
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// leave ends the goroutine if its cell was stopped while it waited.
func (s *Session) leave(r *run) {
	if r.stopped.Load() && host.Now() == r.id {
		runtime.Goexit()
	}
}

// result shows the value of a cell.
func (s *Session) result(v []any) {
	r := s.runs.find(host.Now())
	if r == nil || r.silent || r.stopped.Load() {
		return
	}
	s.bundle(r.cell, "execute_result", rich.Results(v), map[string]any{"execution_count": s.count})
}

// display implements the display helpers of cell 0.
func (s *Session) display(kind string, v any, id string, update bool) {
	r := s.runs.find(host.Now())
	if r == nil {
		return
	}
	more := map[string]any{}
	if id != "" {
		more["transient"] = map[string]any{"display_id": id}
	}
	what := "display_data"
	if update {
		what = "update_display_data"
	}
	s.bundle(r.cell, what, rich.Show(kind, v), more)
}

func (s *Session) clear(wait bool) {
	if r := s.runs.find(host.Now()); r != nil {
		s.message(r.cell, "clear_output", map[string]any{"wait": wait})
	}
}

// bundle sends a bundle. A bundle that is too large is reduced to its text.
func (s *Session) bundle(cell uint32, kind string, b rich.Bundle, more map[string]any) {
	size := 0
	for k, v := range b {
		switch v := v.(type) {
		case string:
			b[k] = strings.ToValidUTF8(v, "\uFFFD")
			size += len(v)
		case interface{ MarshalJSON() ([]byte, error) }:
			raw, _ := v.MarshalJSON()
			size += len(raw)
		}
	}
	if size > wire.MaxBody*3/4 {
		text, _ := b["text/plain"].(string)
		s.out.Stderr(cell, []byte("a bundle of "+itoa(size)+
			" bytes was reduced to its text: the limit is "+itoa(wire.MaxBody*3/4)+"\n"))
		b = rich.Bundle{"text/plain": clip(text, rich.MaxText)}
	}
	more["data"], more["metadata"] = b, map[string]any{}
	s.message(cell, kind, more)
}
