package gvisor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gvisor.dev/gvisor/runsc/cgroup"

	"github.com/sandgate/sandgate/internal/edition"
)

// Status is the judgement of a Finding.
type Status string

// The judgements. Fail prevents a Runtime from starting; Warn costs speed or safety.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Finding is the result of one check of the host.
type Finding struct {
	// Name names the checked thing in a word or two.
	Name   string
	Status Status
	// The field What describes its state.
	What string
	// Repair describes the repair. Empty when the status is OK.
	Repair string
}

// CheckHost checks everything that sandboxes need from the machine. If probe is not nil, it also
// boots it in a separate state directory, and expects its program to end with status 0. A Spec with
// /bin/true is enough.
func CheckHost(ctx context.Context, cfg Config, probe *Spec) []Finding {
	cfg = cfg.resolve()
	all := append(checkConfig(cfg), checkMachine(cfg)...)
	for _, f := range all {
		if f.Status == Fail {
			return all
		}
	}
	if probe != nil {
		all = append(all, checkBoot(ctx, cfg, *probe))
	}
	return all
}

// checkConfig checks the requirements of NewRuntime.
func checkConfig(cfg Config) []Finding {
	return []Finding{
		checkRoot(),
		checkRunsc(cfg.Runsc),
		checkStateDir(cfg.StateDir),
		checkPlatform(cfg.Platform),
		checkCgroups(cfg.CgroupParent),
		checkUserNamespaces(),
		checkSeccomp(),
	}
}

// checkMachine checks things that NewRuntime does not require.
func checkMachine(cfg Config) []Finding {
	return []Finding{
		checkSpace(cfg.StateDir),
		checkOpenFiles(),
		checkSetting("memory map areas", "/proc/sys/vm/max_map_count", 1<<22,
			"sysctl -w vm.max_map_count=4194304"),
		checkSetting("process ids", "/proc/sys/kernel/pid_max", 1<<16,
			"sysctl -w kernel.pid_max=4194304"),
		checkChoice("huge pages of shared memory",
			"/sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise"),
		checkChoice("huge page compaction", "/sys/kernel/mm/transparent_hugepage/defrag", "never"),
	}
}

func ok(name, format string, args ...any) Finding {
	return Finding{Name: name, Status: OK, What: fmt.Sprintf(format, args...)}
}

func checkRoot() Finding {
	if uid := os.Geteuid(); uid != 0 {
		return Finding{
			"user", Fail, fmt.Sprintf("the process runs as user %d", uid),
			"run it as root, because it creates namespaces and cgroups for each sandbox",
		}
	}
	return ok("user", "root")
}

func checkRunsc(path string) Finding {
	const name = "runsc"
	const repair = "run make build, and name the file by its absolute path"
	if !filepath.IsAbs(path) {
		return Finding{name, Fail, fmt.Sprintf("%q is not an absolute path", path), repair}
	}
	for p := path; p != "/"; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err != nil {
			return Finding{name, Fail, err.Error(), repair}
		}
		if fi.Mode()&0o001 == 0 {
			return Finding{
				name, Fail, p +
					" cannot be entered or executed by every user, but sandboxes run as nobody",
				"chmod o+x it, or keep runsc elsewhere",
			}
		}
	}
	version, err := edition.GVisor(path)
	if err != nil {
		return Finding{name, Fail, fmt.Sprintf("%s is not Sandgate's runsc: %v", path, err), repair}
	}
	if mine := edition.OwnGVisor(); mine != "" && mine != version {
		return Finding{name, Fail, fmt.Sprintf("%s was built from gVisor %s, this program from %s",
			path, version, mine), "run make build, so that both come from one go.mod"}
	}
	return ok(name, "%s, gVisor %s", path, version)
}

// maxStateDir keeps the path of the control socket below the 108 bytes of a Unix address. Otherwise
// gVisor would put the socket elsewhere.
const maxStateDir = 60

func checkStateDir(dir string) Finding {
	const name = "state directory"
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir {
		return Finding{
			name, Fail, fmt.Sprintf("%q is not a clean absolute path", dir),
			"name it by its absolute path",
		}
	}
	if len(dir) > maxStateDir {
		return Finding{
			name, Fail, fmt.Sprintf("%q has %d bytes", dir, len(dir)),
			fmt.Sprintf("choose one of at most %d", maxStateDir),
		}
	}
	return ok(name, "%s", dir)
}

func checkPlatform(platform string) Finding {
	const name = "platform"
	switch platform {
	case "systrap":
	case "kvm":
		if !exists("/dev/kvm") {
			return Finding{
				name, Fail, "kvm without /dev/kvm",
				"use systrap, which works everywhere",
			}
		}
	default:
		return Finding{
			name, Fail, fmt.Sprintf("%q is unknown", platform),
			"use systrap, or kvm on bare metal",
		}
	}
	return ok(name, "%s", platform)
}

func checkCgroups(parent string) Finding {
	const name = "cgroups"
	need := []string{"cpu", "memory", "pids"}
	if !filepath.IsAbs(parent) || strings.Contains(parent, ":") {
		return Finding{
			name, Fail,
			fmt.Sprintf("the parent %q is not an absolute path without colons", parent),
			"name it as /sandgate",
		}
	}
	var missing []string
	version := "version 1"
	if cgroup.IsOnlyV2() {
		version = "version 2"
		data, err := os.ReadFile(filepath.Join(cgroupRoot, "cgroup.controllers"))
		if err != nil {
			return Finding{name, Fail, err.Error(), "mount cgroup2 at " + cgroupRoot}
		}
		have := " " + strings.TrimSpace(string(data)) + " "
		for _, c := range need {
			if !strings.Contains(have, " "+c+" ") {
				missing = append(missing, c)
			}
		}
	} else {
		for _, c := range append(need, "cpuacct") {
			if !exists(filepath.Join(cgroupRoot, c, "cgroup.procs")) {
				missing = append(missing, c)
			}
		}
	}
	if len(missing) > 0 {
		return Finding{
			name, Fail, fmt.Sprintf("%s without the controllers %s", version,
				strings.Join(missing, ", ")),
			"enable them; in a container, give it a writable cgroup namespace of its own",
		}
	}
	return ok(name, "%s with cpu, memory and pids", version)
}

func checkUserNamespaces() Finding {
	const name = "user namespaces"
	if n, err := readSetting("/proc/sys/user/max_user_namespaces"); err == nil && n == 0 {
		return Finding{
			name, Fail, "user.max_user_namespaces is 0",
			"sysctl -w user.max_user_namespaces=65536: each sandbox has its own, in which it runs as nobody",
		}
	}
	return ok(name, "available")
}

func checkSeccomp() Finding {
	const name = "seccomp"
	data, err := os.ReadFile("/proc/sys/kernel/seccomp/actions_avail")
	if err != nil || !strings.Contains(string(data), "trap") {
		return Finding{
			name, Fail, "the kernel does not filter system calls",
			"use a kernel with CONFIG_SECCOMP_FILTER",
		}
	}
	return ok(name, "%s", strings.TrimSpace(string(data)))
}

func checkSpace(dir string) Finding {
	const name = "space for state"
	for !exists(dir) {
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Finding{name, Warn, err.Error(), "look at the file system of " + dir}
	}
	free := int64(st.Bavail) * st.Bsize
	if free < 64*miB {
		return Finding{
			name, Warn, fmt.Sprintf("%d MiB are free at %s", free/miB, dir),
			"free some: each sandbox takes about 100 KiB",
		}
	}
	return ok(name, "%d MiB free at %s", free/miB, dir)
}

func checkOpenFiles() Finding {
	const name = "open files"
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return Finding{name, Warn, err.Error(), "see ulimit -n"}
	}
	if r.Max < 1<<16 {
		return Finding{
			name, Warn,
			fmt.Sprintf("the limit is %d, and a sandbox's guest shares its sentry's", r.Max),
			"ulimit -n 1048576, or LimitNOFILE=1048576 in the unit",
		}
	}
	return ok(name, "%d", r.Max)
}

func checkSetting(name, file string, least int64, repair string) Finding {
	n, err := readSetting(file)
	if err != nil {
		return ok(name, "not offered by this kernel")
	}
	if n < least {
		return Finding{name, Warn, fmt.Sprintf("%s is %d, below %d", file, n, least), repair}
	}
	return ok(name, "%d", n)
}

// checkChoice reads a file that lists choices and has the current one in brackets.
func checkChoice(name, file, want string) Finding {
	data, err := os.ReadFile(file)
	if err != nil {
		return ok(name, "not offered by this kernel")
	}
	if !strings.Contains(string(data), "["+want+"]") {
		return Finding{
			name, Warn, fmt.Sprintf("%s is %s", file, strings.TrimSpace(string(data))),
			fmt.Sprintf("echo %s > %s, for faster starts", want, file),
		}
	}
	return ok(name, "%s", want)
}

func readSetting(file string) (int64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
}

func checkBoot(ctx context.Context, cfg Config, spec Spec) Finding {
	const name = "a sandbox"
	bad := func(err error) Finding {
		return Finding{
			name, Fail, oneLine(err.Error()),
			"see the findings above; for gVisor's own log set a debug directory",
		}
	}
	dir, err := os.MkdirTemp("/run", "sandgate-doctor-")
	if err != nil {
		return bad(err)
	}
	defer os.RemoveAll(dir)
	cfg.StateDir = dir
	r, err := NewRuntime(cfg)
	if err != nil {
		return bad(err)
	}
	defer r.Close(context.WithoutCancel(ctx))
	begin := time.Now()
	s, err := r.Boot(ctx, spec)
	if err != nil {
		return bad(err)
	}
	took := time.Since(begin)
	select {
	case <-s.Done():
	case <-ctx.Done():
		return bad(fmt.Errorf("%s does not end: %w", spec.Args[0], ctx.Err()))
	}
	if e := s.Exit(); e.Reason != Exited || e.Status != 0 {
		return bad(fmt.Errorf("%s ended badly: %v", spec.Args[0], e))
	}
	return ok(name, "boots in %d ms", took.Milliseconds())
}
