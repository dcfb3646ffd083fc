package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/files"
	"github.com/sandgate/sandgate/kernel"
)

// Limits are the resource limits that every process of the user inherits. The
// agent never raises a hard limit that it was started with. A hard limit of at
// most 8192 was set by the creator of the sandbox and is the default.
type Limits struct {
	// Processes is RLIMIT_NPROC, for all processes of the user: 512.
	Processes uint64
	// Files is the soft RLIMIT_NOFILE: 4096. It holds for the agent too.
	Files uint64
}

// choose returns the limit to set.
func choose(want, normal, inherited uint64) uint64 {
	switch {
	case want != 0:
		return min(want, inherited)
	case inherited <= 1<<13:
		return inherited
	}
	return normal
}

// Prepare sets up the calling process as an agent. It is called once, before
// NewServer, by a program that does nothing else. It sets the limits on the
// agent itself, so that children never run without them (RLIMIT_NPROC does not
// bind processes of root). After it no process may trace the agent, children
// inherit no descriptor, and the agent adopts orphans even if it is not the
// first process.
func Prepare(l Limits) error {
	const op = "agent.prepare"
	fail := func(what string, err error) error {
		return &fault.Error{Kind: fault.Host, Op: op, Message: what + " failed", Err: err}
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fail("PR_SET_DUMPABLE", err)
	}
	if os.Getpid() != 1 {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return fail("PR_SET_CHILD_SUBREAPER", err)
		}
	}
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		for fd := 3; fd < 1024; fd++ {
			syscall.CloseOnExec(fd)
		}
	}
	syscall.Umask(0o022)
	// A child resets signals that have a handler. It would keep ignoring signals
	// that are ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	var files, processes syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fail("RLIMIT_NOFILE", err)
	}
	if err := syscall.Getrlimit(unix.RLIMIT_NPROC, &processes); err != nil {
		return fail("RLIMIT_NPROC", err)
	}
	files.Max = min(files.Max, 1<<16)
	files.Cur = choose(l.Files, 4096, files.Max)
	processes.Max = choose(l.Processes, 512, processes.Max)
	processes.Cur = processes.Max
	for _, x := range []struct {
		name  string
		which int
		limit syscall.Rlimit
	}{
		{"RLIMIT_NOFILE", syscall.RLIMIT_NOFILE, files},
		{"RLIMIT_NPROC", unix.RLIMIT_NPROC, processes},
		{"RLIMIT_CORE", syscall.RLIMIT_CORE, syscall.Rlimit{}},
	} {
		if err := syscall.Setrlimit(x.which, &x.limit); err != nil {
			return fail(x.name, err)
		}
	}
	return nil
}

// spawner starts all processes from one thread, on which PR_SET_NO_NEW_PRIVS is
// set. A child inherits that flag from the thread that forked it.
type spawner struct {
	cfg     Config
	reap    *reaper
	quit    <-chan struct{} // see Server.quit
	refused *atomic.Uint64  // see Server.refused
	tasks   chan func(error)
}

func newSpawner(cfg Config, r *reaper, quit <-chan struct{}, refused *atomic.Uint64) *spawner {
	return &spawner{cfg: cfg, reap: r, quit: quit, refused: refused, tasks: make(chan func(error))}
}

// run forks processes until quit is closed.
func (sp *spawner) run() {
	runtime.LockOSThread() // it is never unlocked, so the thread ends with run
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

// program is a process to be started.
type program struct {
	argv  []string
	env   []string
	dir   string
	files []int  // descriptors 0, 1, 2, …
	group uint32 // marks the process tree
	// terminal makes descriptor 0 the controlling terminal.
	terminal bool
}

// start starts p as the user, in a session and a process group of its own.
func (sp *spawner) start(p program, tell func(ended)) (int, error) {
	const op = "agent.start"
	path, err := sp.lookPath(op, p.argv)
	if err != nil {
		return 0, err
	}
	files := make([]uintptr, len(p.files))
	for i, fd := range p.files {
		files[i] = uintptr(fd)
	}
	attr := &syscall.ProcAttr{
		Dir: p.dir, Env: p.env, Files: files,
		Sys: &syscall.SysProcAttr{
			Setsid:     true,
			Setctty:    p.terminal, // descriptor 0 is the default of Ctty
			Credential: &syscall.Credential{Uid: uint32(sp.cfg.UID), Gid: uint32(sp.cfg.GID), Groups: []uint32{uint32(sp.cfg.GID), p.group}},
		},
	}
	var pid int
	done := make(chan struct{})
	task := func(nnp error) {
		defer close(done)
		if err = nnp; err == nil {
			pid, err = sp.reap.start(func() (int, error) { return syscall.ForkExec(path, p.argv, attr) }, tell)
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
	if info, e := os.Stat(p.dir); e != nil || !info.IsDir() {
		return fail(fault.InvalidArgument, "cwd", "there is no such folder")
	}
	switch {
	case errors.Is(err, syscall.EAGAIN):
		sp.refused.Add(1)
		return fail(fault.Exhausted, "", "the sandbox has reached its limit of processes")
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		sp.refused.Add(1)
		return fail(fault.Exhausted, "", "the sandbox lacks the resources to start a process")
	case errors.Is(err, fs.ErrPermission):
		return fail(fault.PermissionDenied, "argv", "the user may not execute "+strconv.Quote(p.argv[0])+", or may not enter the folder")
	case errors.Is(err, fs.ErrNotExist):
		return fail(fault.NotFound, "argv", "there is no program "+strconv.Quote(p.argv[0]))
	case errors.Is(err, syscall.ENOEXEC):
		return fail(fault.InvalidArgument, "argv", strconv.Quote(p.argv[0])+" is no program")
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.E2BIG):
		return fail(fault.InvalidArgument, "argv", "the arguments and the environment are too long, or contain a NUL byte")
	}
	return fail(fault.Internal, "", "the process could not be started")
}

// lookPath finds argv[0] in the PATH. A name with a slash is relative to the
// process's working directory.
func (sp *spawner) lookPath(op string, argv []string) (string, error) {
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
	for _, dir := range filepath.SplitList(sp.cfg.Path) {
		p := filepath.Join(dir, argv[0])
		if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", &fault.Error{Kind: fault.NotFound, Op: op, Field: "argv", Message: "there is no program " + strconv.Quote(argv[0])}
}

// environ joins the maps. Later ones override earlier ones.
func (sp *spawner) environ(maps ...map[string]string) []string {
	vars := map[string]string{
		"HOME": sp.cfg.Home, "USER": sp.cfg.User, "LOGNAME": sp.cfg.User, "PATH": sp.cfg.Path,
		"LANG": "C.UTF-8", "TERM": "xterm-256color", "SHELL": "/bin/bash",
	}
	for _, m := range maps {
		for k, v := range m {
			vars[k] = v
		}
	}
	env := make([]string, 0, len(vars))
	for k, v := range vars {
		env = append(env, k+"="+v)
	}
	return env
}

// checkEnv refuses names and values that an environment cannot hold.
func checkEnv(op string, env map[string]string) error {
	for k, v := range env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(v, 0) >= 0 {
			return fault.Invalid(op, "env", "a variable's name is empty or holds an equals sign, or there is a NUL byte")
		}
	}
	return nil
}

// folder resolves a working directory.
func (sp *spawner) folder(op, cwd string) (string, error) {
	if cwd == "" {
		return sp.cfg.Home, nil
	}
	p, err := files.AbsPath(sp.cfg.Home, op, cwd)
	if err != nil {
		err.Field = "cwd"
		return "", err
	}
	return p, nil
}

// manifests are the languages by name and by alias.
type manifests map[string]*kernel.Manifest

// readManifests reads all manifests. It leaves out a language whose manifest is
// invalid.
func readManifests(dir string) manifests {
	found := manifests{}
	paths, _ := filepath.Glob(filepath.Join(dir, "*", "manifest.json"))
	for _, p := range paths {
		var m kernel.Manifest
		if b, err := os.ReadFile(p); err != nil || json.Unmarshal(b, &m) != nil || m.Name == "" || len(m.Argv) == 0 {
			continue
		}
		for _, a := range m.Aliases {
			if found[a] == nil {
				found[a] = &m
			}
		}
		found[m.Name] = &m
	}
	return found
}

// deriveSeed returns a channel's seed, derived from the sandbox's seed.
func deriveSeed(seed string, channel uint32) string {
	sum := sha256.Sum256([]byte(seed + ":" + strconv.FormatUint(uint64(channel), 10)))
	return hex.EncodeToString(sum[:])
}
