package process

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/fault"
)

// User is the user of all processes.
type User struct {
	UID, GID int
	Name     string
	Home     string
	Path     string   // the PATH of processes
	Env      []string // more variables of processes, as NAME=value
}

// A Spawner starts all processes from one thread, on which PR_SET_NO_NEW_PRIVS is set. A child
// inherits that flag from the thread that forked it.
type Spawner struct {
	user    User
	reap    *Reaper
	quit    <-chan struct{}
	refused *atomic.Uint64
	tasks   chan func(error)
}

// NewSpawner returns a Spawner. No process starts once quit is closed. refused counts processes that
// could not start because the sandbox has too few resources.
func NewSpawner(u User, r *Reaper, quit <-chan struct{}, refused *atomic.Uint64) *Spawner {
	return &Spawner{user: u, reap: r, quit: quit, refused: refused, tasks: make(chan func(error))}
}

// Run forks processes until quit is closed.
func (sp *Spawner) Run() {
	runtime.LockOSThread() // it is never unlocked, so the thread ends with Run
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	for {
		select {
		case task := <-sp.tasks:
			task(err)
		case <-sp.quit:
			return
		}
	}
}

// Program is a process to be started.
type Program struct {
	Argv  []string
	Env   []string
	Dir   string
	Files []int  // descriptors 0, 1, 2, …
	Group uint32 // marks the process tree
	// Terminal makes descriptor 0 the controlling terminal.
	Terminal bool
}

// Start starts p as the user, in a session and a process group of its own, and returns its number.
// onEnd is called once, when the process has ended. Errors: InvalidArgument, NotFound,
// PermissionDenied, Exhausted when the sandbox has too few resources.
func (sp *Spawner) Start(p Program, onEnd func(Ended)) (int, error) {
	const op = "agent.start"
	path, err := sp.lookPath(op, p.Argv)
	if err != nil {
		return 0, err
	}
	files := make([]uintptr, len(p.Files))
	for i, fd := range p.Files {
		files[i] = uintptr(fd)
	}
	attr := &syscall.ProcAttr{
		Dir: p.Dir, Env: p.Env, Files: files,
		Sys: &syscall.SysProcAttr{
			Setsid:  true,
			Setctty: p.Terminal, // descriptor 0 is the default of Ctty
			Credential: &syscall.Credential{
				Uid: uint32(sp.user.UID), Gid: uint32(sp.user.GID),
				Groups: []uint32{uint32(sp.user.GID), p.Group},
			},
		},
	}
	var pid int
	done := make(chan struct{})
	task := func(nnp error) {
		defer close(done)
		if err = nnp; err == nil {
			pid, err = sp.reap.start(func() (int, error) {
				return syscall.ForkExec(path, p.Argv,
					attr)
			}, onEnd)
		}
	}
	select {
	case sp.tasks <- task:
		<-done
	case <-sp.quit:
		err = syscall.ECANCELED
	}
	if err == nil {
		return pid, nil
	}
	fail := func(kind fault.Kind, field, message string) (int, error) {
		return 0, &fault.Error{Kind: kind, Op: op, Field: field, Message: message, Err: err}
	}
	if info, e := os.Stat(p.Dir); e != nil || !info.IsDir() {
		return fail(fault.InvalidArgument, "cwd", "there is no such folder")
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		sp.refused.Add(1)
		return fail(fault.Exhausted, "", "the sandbox has reached its limit of processes")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOMEM):
		sp.refused.Add(1)
		return fail(fault.Exhausted, "", "the sandbox lacks the resources to start a process")
	case errors.Is(err, fs.ErrPermission):
		return fail(fault.PermissionDenied, "argv", "the user may not execute "+
			strconv.Quote(p.Argv[0])+", or may not enter the folder")
	case errors.Is(err, fs.ErrNotExist):
		return fail(fault.NotFound, "argv", "there is no program "+strconv.Quote(p.Argv[0]))
	case errors.Is(err, syscall.ENOEXEC):
		return fail(fault.InvalidArgument, "argv", strconv.Quote(p.Argv[0])+" is no program")
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.E2BIG):
		return fail(fault.InvalidArgument, "argv",
			"the arguments and the environment are too long, or contain a NUL byte")
	}
	return fail(fault.Internal, "", "the process could not be started")
}

// lookPath finds argv[0] in the PATH. A name with a slash is relative to the
// process's working directory.
func (sp *Spawner) lookPath(op string, argv []string) (string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return "", fault.Invalid(op, "argv", "a program is needed")
	}
	for _, a := range argv {
		if strings.IndexByte(a, 0) >= 0 {
			return "", fault.Invalid(op, "argv", "an argument contains a NUL byte")
		}
	}
	if strings.Contains(argv[0], "/") {
		return argv[0], nil
	}
	for _, dir := range filepath.SplitList(sp.user.Path) {
		p := filepath.Join(dir, argv[0])
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() &&
			info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", &fault.Error{
		Kind: fault.NotFound, Op: op, Field: "argv",
		Message: "there is no program " + strconv.Quote(argv[0]),
	}
}

// Environ joins the variables of the user and the maps. Later ones override earlier ones.
func (sp *Spawner) Environ(more ...map[string]string) []string {
	vars := map[string]string{"LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/bash"}
	for _, e := range sp.user.Env {
		name, value, _ := strings.Cut(e, "=")
		vars[name] = value
	}
	maps.Copy(vars, map[string]string{
		"HOME": sp.user.Home, "USER": sp.user.Name, "LOGNAME": sp.user.Name, "PATH": sp.user.Path,
	})
	for _, m := range more {
		maps.Copy(vars, m)
	}
	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	return env
}

// CheckEnv refuses names and values that an environment cannot hold.
func CheckEnv(op string, env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return fault.Invalid(op, "env",
				"a variable's name is empty or holds an equals sign, or there is a NUL byte")
		}
	}
	return nil
}
