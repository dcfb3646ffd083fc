package confine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol/fault"
)

// The capabilities of a child: it gives files to other owners.
const capabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// Main is the child. It runs the job that name names, and returns the exit code of the process.
//
// The child has two stages. The first gives up what the job does not need, and replaces itself with
// the second. All threads of the second have what the first has left.
func Main(jobs map[string]Job, name string) int {
	if err := child(jobs, name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return fault.Host.Row().Exit
	}
	return 0
}

func child(jobs map[string]Job, name string) error {
	job := jobs[name]
	if job == nil {
		return fmt.Errorf("there is no job %q", name)
	}
	if paths, first := os.LookupEnv(foldersVariable); first {
		return giveUp(paths)
	}
	if err := checkConfined(); err != nil {
		return err
	}
	input, output := os.NewFile(3, "arguments"), os.NewFile(4, "result")
	for _, f := range []*os.File{input, output} {
		unix.CloseOnExec(int(f.Fd()))
	}
	args, err := io.ReadAll(io.LimitReader(input, maxArguments))
	if err != nil {
		return err
	}
	var a answer
	result, err := job(context.Background(), args, os.Stdin)
	if err == nil {
		a.Result, err = json.Marshal(result)
	}
	if err != nil {
		public := fault.PublicOf(err)
		a = answer{Error: &public, Detail: err.Error()}
	}
	return json.NewEncoder(output).Encode(a)
}

// giveUp is the first stage. It returns only if it fails.
func giveUp(paths string) error {
	runtime.LockOSThread() // the steps below concern the thread that calls exec
	var f folders
	if err := json.Unmarshal([]byte(paths), &f); err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if err := errors.Join(
		limit(unix.RLIMIT_CORE, 0), limit(unix.RLIMIT_NOFILE, OpenFiles),
		limit(unix.RLIMIT_FSIZE, FileBytes),
		unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
	); err != nil {
		return err
	}
	if err := restrictFolders(append(f.Read, exe), f.Write); err != nil {
		return fmt.Errorf("restricting the folders: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("dropping capabilities: %w", err)
	}
	if err := filterCalls(); err != nil {
		return fmt.Errorf("filtering system calls: %w", err)
	}
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, foldersVariable+"=") {
			env = append(env, e)
		}
	}
	return fmt.Errorf("starting the second stage: %w", unix.Exec(exe, os.Args, env))
}

func limit(what int, n uint64) error {
	return unix.Setrlimit(what, &unix.Rlimit{Cur: n, Max: n})
}

func dropCapabilities() error {
	for c := range unix.CAP_LAST_CAP + 1 {
		if capabilities&(1<<c) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil {
				return err
			}
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Effective: capabilities, Permitted: capabilities}}
	return unix.Capset(&header, &data[0])
}

// checkConfined is the start of the second stage. It fails unless the first has done its work, so
// that no job runs with the rights of the node.
func checkConfined() error {
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(status)) {
		if k, v, ok := strings.Cut(line, ":"); ok {
			fields[k] = strings.TrimSpace(v)
		}
	}
	for _, set := range []string{"CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb"} {
		have, err := strconv.ParseUint(fields[set], 16, 64)
		if err != nil || have&^capabilities != 0 {
			return fmt.Errorf("the job has the capabilities %s=%q", set, fields[set])
		}
	}
	if fields["NoNewPrivs"] != "1" || fields["Seccomp"] != "2" {
		return fmt.Errorf("the job is not confined: NoNewPrivs=%q, Seccomp=%q",
			fields["NoNewPrivs"], fields["Seccomp"])
	}
	return nil
}
