package confine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/protocol/fault"
)

// foldersVariable has the JSON of folders. A child that has it is in its first stage.
const foldersVariable = "SANDGATE_CONFINE"

// Run runs a task in a child and decodes its result. When ctx ends, the child is killed, and with it
// all processes that it has started.
func (r Runner) Run(ctx context.Context, t Task, result any) error {
	done := make(chan error, 1)
	go func() {
		// The child is killed when the thread that started it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- r.run(ctx, t, result)
	}()
	return <-done
}

func (r Runner) run(ctx context.Context, t Task, result any) (err error) {
	op := "confine." + t.Job
	args, err := json.Marshal(t.Args)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	cmd, err := r.command(ctx, t)
	if err != nil {
		return fault.Wrap(fault.Internal, op, err)
	}
	group, err := r.NewGroup()
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	defer func() {
		if rerr := group.Remove(); rerr != nil && err == nil {
			err = fault.Wrap(fault.Host, op, rerr)
		}
	}()
	// The pipes are made here, because a Wait of package exec waits until a slow caller has sent
	// all its input.
	var pipes [3]struct{ r, w *os.File } // input, arguments, result
	defer func() {
		for _, p := range pipes {
			_, _ = p.r.Close(), p.w.Close()
		}
	}()
	for i := range pipes {
		if pipes[i].r, pipes[i].w, err = os.Pipe(); err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
	}
	stderr := &tail{}
	cmd.Stderr, cmd.Stdin = stderr, pipes[0].r
	cmd.ExtraFiles = []*os.File{pipes[1].r, pipes[2].w}
	if err := cmd.Start(); err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	_, _, _ = pipes[0].r.Close(), pipes[1].r.Close(), pipes[2].w.Close()
	// The child waits for its arguments, so that it does nothing outside its cgroup.
	if err := group.Confine(cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return errors.Join(fault.Wrap(fault.Host, op, err), cmd.Wait())
	}
	_, _ = pipes[1].w.Write(args) // a child that has died is reported below
	_ = pipes[1].w.Close()
	fed := make(chan error, 1)
	go func() {
		var err error
		if t.In != nil {
			_, err = io.Copy(pipes[0].w, t.In)
		}
		_ = pipes[0].w.Close()
		fed <- err
	}()
	reply, _ := io.ReadAll(io.LimitReader(pipes[2].r, maxResult+1))
	if len(reply) > maxResult {
		_ = cmd.Process.Kill()
	}
	ended := cmd.Wait()
	select {
	case err := <-fed:
		// The input's own error says more than a child whose input ended early.
		var known *fault.Error
		if errors.As(err, &known) {
			return err
		}
	default:
	}
	return r.outcome(ctx, op, group, reply, ended, stderr.String(), result)
}

// command returns the child, without its descriptors.
func (r Runner) command(ctx context.Context, t Task) (*exec.Cmd, error) {
	paths, err := json.Marshal(folders{t.Read, t.Write})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, r.Argv[0], append(r.Argv[1:len(r.Argv):len(r.Argv)], t.Job)...)
	cmd.Env = append([]string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", foldersVariable + "=" + string(paths),
		fmt.Sprintf("GOMEMLIMIT=%d", Memory/2),
	}, r.Env...)
	if len(t.Write) > 0 {
		cmd.Env = append(cmd.Env, "TMPDIR="+t.Write[0])
	}
	cmd.WaitDelay = endLimit
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS |
			syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	return cmd, nil
}

// outcome returns the error of a child that has ended, or decodes its result.
func (r Runner) outcome(ctx context.Context, op string, group Group, reply []byte, ended error,
	stderr string, result any,
) error {
	if ctx.Err() != nil {
		return fault.Wrap(fault.KindOf(context.Cause(ctx)), op, context.Cause(ctx))
	}
	if group.OutOfMemory() {
		return &fault.Error{
			Kind: fault.TooLarge, Op: op, Err: ended,
			Message: fmt.Sprintf("it needs more than the %d bytes of memory that it may have",
				int64(Memory)),
		}
	}
	var a answer
	switch err := json.Unmarshal(reply, &a); {
	case ended != nil || err != nil:
		return &fault.Error{
			Kind: fault.Host, Op: op, Err: fmt.Errorf("%w %w: %s", ended, err, stderr),
			Message: "the process that does this work failed",
		}
	case a.Error != nil:
		known := a.Error.Err(op)
		known.Err = errors.New(a.Detail)
		return known
	}
	if result == nil {
		return nil
	}
	return fault.Wrap(fault.Internal, op, json.Unmarshal(a.Result, result))
}

// tail keeps the last bytes of a child's standard error.
type tail struct{ buf bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4096
	t.buf.Write(p)
	if n := t.buf.Len(); n > most {
		t.buf.Next(n - most)
	}
	return len(p), nil
}

func (t *tail) String() string { return strings.TrimSpace(t.buf.String()) }
