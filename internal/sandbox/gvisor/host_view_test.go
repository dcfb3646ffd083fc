package gvisor

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// hostFiles returns the files and folders of the host that a process has open, each with its mode.
// Files in memory, devices without content, pipes, sockets and files of events are left out.
func hostFiles(t *testing.T, pid int) (list []string) {
	t.Helper()
	at := fmt.Sprintf("/proc/%d/", pid)
	open, err := os.ReadDir(at + "fd")
	fatal(t, err)
	for _, fd := range open {
		target, err := os.Readlink(at + "fd/" + fd.Name())
		info, err2 := os.ReadFile(at + "fdinfo/" + fd.Name())
		if err != nil || err2 != nil || !filepath.IsAbs(target) || target == "/dev/null" ||
			strings.HasPrefix(target, "/memfd:") {
			continue
		}
		_, rest, _ := strings.Cut(string(info), "flags:")
		digits, _, _ := strings.Cut(strings.TrimSpace(rest), "\n")
		flags, err := strconv.ParseInt(digits, 8, 64)
		fatal(t, err)
		mode := "reads"
		if flags&unix.O_ACCMODE != unix.O_RDONLY {
			mode = "writes"
		}
		list = append(list, mode+" "+target)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// TestAbuse42_SeenFromTheHost checks what the processes of a sandbox may do on the host and which
// files they have open. The gofer sees only its own root, with the volumes.
func TestAbuse42_SeenFromTheHost(t *testing.T) {
	g := boot(t, newRuntime(t), volumeSpec())
	fatal(t, g.Mount(t.Context(), Volume{Name: "v", Dir: t.TempDir()}))
	expect(t, g, "<nil>", "write /volumes/v/x hello")
	const none = "0000000000000000"
	roles := map[string]struct {
		uid, capabilities string
		files             string // a pattern of the files that it may have open
	}{
		// The image is read, and the sentry writes why it ended.
		"sandbox": {"65534", none, `^(reads .*\.erofs|writes .*/panic\.log)$`},
		// CHOWN 0, DAC_OVERRIDE 1, DAC_READ_SEARCH 2, FOWNER 3, FSETID 4, SYS_CHROOT 18.
		"gofer": {
			"0", "000000000004001f",
			`^reads (/|/root/volumes|.*/config\.json|.*/cpu\.(cfs_(period|quota)_us|max))$`,
		},
	}
	seen := map[string]int{}
	opened := map[string]bool{}
	for _, pid := range processesIn(dirs(g.group.path, g.group.v2)) {
		name, _, _ := strings.Cut(readFile(t, fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00")
		role := "sandbox" // also of the processes that run the sandbox's code
		if strings.Contains(name, "gofer") {
			role = "gofer"
		}
		seen[role]++
		may, status := roles[role], readFile(t, fmt.Sprintf("/proc/%d/status", pid))
		for _, want := range []string{
			"Uid:\t" + strings.Join([]string{may.uid, may.uid, may.uid, may.uid}, "\t"),
			"CapEff:\t" + may.capabilities, "CapPrm:\t" + may.capabilities,
			"CapInh:\t" + may.capabilities, "CapAmb:\t" + may.capabilities, "NoNewPrivs:\t1",
			"Seccomp:\t2",
		} {
			if !strings.Contains(status, want+"\n") {
				t.Errorf("%s: no %q in\n%s", name, want, status)
			}
		}
		for _, file := range hostFiles(t, pid) {
			opened[role+" "+filepath.Base(file)] = true
			if !regexp.MustCompile(may.files).MatchString(file) {
				t.Errorf("%s %s", name, file)
			}
		}
	}
	if seen["sandbox"] == 0 || seen["gofer"] != 1 {
		t.Errorf("processes: %v", seen)
	}
	if !opened["sandbox panic.log"] || !opened["gofer volumes"] {
		t.Errorf("open files that must be there are not seen: %v", opened)
	}
}
