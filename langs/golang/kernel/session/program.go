package session

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
)

// program runs a whole program in a separate process. The program prints to the kernel's
// descriptors 1 and 2, and asks for its input as a cell does.
func (s *Session) program(r *run, seq int, file, code string) *failure {
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	r.cancel.Store(&cancel)
	u, o, err := s.buildProgram(ctx, seq, file, code)
	if err != nil {
		if r.stopped.Load() {
			return s.stopReason(r)
		}
		return buildFailure(err)
	}
	defer s.chain.Drop(o)
	s.chain.Ready()
	if err := s.spawn(r, o, arguments(u)...); err != nil {
		return &failure{"KernelError", err.Error(), nil}
	}
	if r.stopped.Load() {
		r.exitCode.Store(-1)
		return s.stopReason(r)
	}
	return nil
}

func (s *Session) buildProgram(ctx context.Context, seq int,
	file, code string,
) (u *front.Unit, o *tools.Object, err error) {
	defer guard(&err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.modules.Begin(ctx)
	if u, err = s.front.Program(seq, file, code); err != nil {
		return nil, nil, err
	}
	o, err = s.chain.BuildProgram(ctx, u.Path, file, u.Source,
		s.modules.Needed(u.Imports, func(string) bool { return false }))
	var c *tools.CompileError
	if errors.As(err, &c) {
		return nil, nil, front.CompilerErrors(c.Output, code)
	}
	return u, o, err
}

// arguments returns the arguments of a program.
func arguments(u *front.Unit) []string {
	if u.Tests {
		return []string{"-test.v", "-test.bench=."}
	}
	return nil
}

// spawn runs an object as a process and waits for its end.
func (s *Session) spawn(r *run, o *tools.Object, args ...string) error {
	asks, asked, err := os.Pipe() // the program writes a byte for each line it wants
	if err != nil {
		return err
	}
	defer asks.Close()
	cmd := exec.Command(filepath.Join(string(s.dir), "bin/kernel"),
		append([]string{"-program", o.File, o.Path}, args...)...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		asked.Close()
		return err
	}
	cmd.Stdout, cmd.Stderr = s.stdout, s.stderr
	cmd.ExtraFiles = []*os.File{asked}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.out.Settle()
	err = cmd.Start()
	asked.Close()
	if err != nil {
		return err
	}
	r.join(cmd.Process.Pid)
	defer r.join(0)
	go func() { // answers, until the program ends
		defer stdin.Close()
		for in := bufio.NewReader(asks); ; {
			if _, err := in.ReadByte(); err != nil {
				return
			}
			line, ok, err := s.request(r, "", false)
			if err != nil || !ok {
				return
			}
			if _, err := stdin.Write([]byte(line + "\n")); err != nil {
				return
			}
		}
	}()
	err = cmd.Wait()
	code := cmd.ProcessState.ExitCode()
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		code = 128 + int(w.Signal())
	}
	r.exitCode.Store(int32(code))
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// join records the process group of the run's program. If the run was stopped meanwhile, it signals
// the group at once.
func (r *run) join(group int) {
	r.mu.Lock()
	r.group = group
	r.mu.Unlock()
	if group != 0 && r.stopped.Load() {
		r.signal()
	}
}

// grace is how long a program may take to end after SIGINT.
const grace = 150 * time.Millisecond

// signal ends the run's program, if it has one: by SIGINT, then by SIGKILL.
func (r *run) signal() {
	r.mu.Lock()
	group := r.group
	r.mu.Unlock()
	if group == 0 {
		return
	}
	syscall.Kill(-group, syscall.SIGINT)
	time.AfterFunc(grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.group == group {
			syscall.Kill(-group, syscall.SIGKILL)
		}
	})
}
