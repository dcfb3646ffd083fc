package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sandgate/sandgate/protocol"
)

// lookAround prints the parts of /proc, /sys and /dev that do not depend on the machine's size, and
// the text of all files in them that a user can read.
const lookAround = `
import json, os, re, stat, subprocess
text, sys_names = {}, set()
def read(p):
    try:
        if stat.S_ISREG(os.stat(p).st_mode):
            with open(p, 'rb', buffering=0) as f: text[p] = f.read(1 << 14).decode('latin-1')
    except OSError: pass
for top in ('/sys', '/proc/sys', '/proc/net', '/proc/gvisor', '/proc/fs'):
    for at, _, names in os.walk(top):
        for n in names:
            if top == '/sys': sys_names.add(re.sub(r'cpu\d+', 'cpuN', at + '/' + n))
            if n not in ('sysrq-trigger', 'kmsg', 'trace_pipe'): read(at + '/' + n)
names = lambda d: sorted(n for n in os.listdir(d) if not n.isdigit())
for d in ('/proc', '/proc/1', '/proc/self'):
    for n in names(d):
        if n not in ('sysrq-trigger', 'kmsg', 'mem', 'pagemap', 'clear_refs'): read(d + '/' + n)
dev = []
for at, _, ns in os.walk('/dev'):
    for n in ns:
        dev.append(stat.filemode(os.lstat(at + '/' + n).st_mode) + ' ' + at + '/' + n)
print(json.dumps({
    'proc': names('/proc'), 'sys': sorted(sys_names), 'dev': sorted(dev), 'text': text,
    'uname': ' '.join(os.uname()),
    'dmesg': subprocess.run(['dmesg'], capture_output=True, text=True, timeout=20).stdout,
    'setuid': subprocess.run(['find', '/', '-xdev', '-perm', '/6000', '-type', 'f'],
                             capture_output=True, text=True).stdout.split(),
}))`

// TestAbuse39_NothingOfTheHost: a program sees gVisor's own /proc, /sys and /dev, and no name, path
// or version of the host.
func TestAbuse39_NothingOfTheHost(t *testing.T) {
	s := open(t, server)
	var got struct {
		Proc, Sys, Dev, Setuid []string
		Text                   map[string]string
		Uname, Dmesg           string
	}
	check(t, json.Unmarshal([]byte(s.run("ok", lookAround).stdout), &got))
	golden, err := os.ReadFile("testdata/inside.txt")
	check(t, err)
	lines := func(file string) []string {
		return strings.Split(strings.TrimSpace(got.Text[file]), "\n")
	}
	var seen strings.Builder
	for _, list := range []struct {
		name  string
		lines []string
	}{
		{"/proc", got.Proc},
		{"/sys", got.Sys},
		{"/dev", got.Dev},
		{"/proc/self/mounts", lines("/proc/self/mounts")},
		{"/proc/self/cgroup", lines("/proc/self/cgroup")},
		{"/proc/cmdline", lines("/proc/cmdline")},
		{"/proc/version", lines("/proc/version")},
		{"files with set-user-ID", got.Setuid},
	} {
		fmt.Fprintln(&seen, list.name)
		for _, line := range list.lines {
			fmt.Fprintln(&seen, "  "+line)
		}
	}
	if seen.String() != string(golden) {
		t.Errorf("testdata/inside.txt differs from:\n%s", &seen)
	}
	if !strings.Contains(got.Dmesg, "Starting gVisor") {
		t.Errorf("dmesg prints %q", got.Dmesg)
	}
	var host unix.Utsname
	check(t, unix.Uname(&host))
	got.Text["dmesg"], got.Text["uname"] = got.Dmesg, got.Uname
	for _, secret := range []string{
		unix.ByteSliceToString(host.Release[:]), unix.ByteSliceToString(host.Version[:]),
		unix.ByteSliceToString(host.Nodename[:]), filepath.Base(server.Dir), "runsc",
	} {
		if len(secret) < 5 {
			continue // a short word is in other texts
		}
		for p, c := range got.Text {
			if strings.Contains(c, secret) {
				t.Errorf("%s has %q of the host", p, secret)
			}
		}
	}
	if len(got.Text) < 100 {
		t.Errorf("only %d files could be read: the test proves nothing", len(got.Text))
	}
}

// system makes system calls as the user and prints their errors.
const system = `
import ctypes, errno, json, os
libc = ctypes.CDLL(None, use_errno=True)
got = {}
def call(name, number, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number),
                     *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    got[name] = errno.errorcode[ctypes.get_errno()] if r < 0 else 'done'
    return r
NEWUSER, NEWNS = 0x10000000, 0x00020000
word = ctypes.create_string_buffer(b'x' * 64)
class Vec(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
ours, theirs = Vec(ctypes.addressof(word), 8), Vec(0x400000, 8)
def child(name, number, *args):
    r, w = os.pipe()
    if os.fork() == 0: # user namespaces are for processes with one thread
        call(name, number, *args)
        os.write(w, got[name].encode())
        os._exit(0)
    os.close(w)
    os.wait()
    got[name] = os.read(r, 100).decode()
child('unshare user', 272, NEWUSER)
child('unshare user and mounts', 272, NEWUSER | NEWNS)
call('unshare mounts', 272, NEWNS)
class Clone(ctypes.Structure):
    _fields_ = [(n, ctypes.c_uint64) for n in
                ('flags', 'pidfd', 'child', 'parent', 'signal', 'stack', 'size', 'tls')]
for name, args in (('clone user', (56, NEWUSER | 17, 0, 0, 0, 0)),
                   ('clone3 user', (435, ctypes.byref(Clone(NEWUSER, 0, 0, 0, 17)), 64))):
    if call(name, *args) == 0: os._exit(0)
for fs in (b'tmpfs', b'proc', b'overlay', b'fuse', b'cgroup2', b'sysfs'):
    call('mount ' + fs.decode(), 165, b'x', b'/tmp', fs, 0, 0)
call('fsopen', 430, b'tmpfs', 0)
call('pivot_root', 155, b'/', b'/tmp')
call('chroot', 161, b'/tmp')
call('keyctl instantiate', 250, 12, 1, word, 1, 0)
call('add_key', 248, b'user', b'k', b'x', 1, -3)
call('bpf', 321, 0, word, 64)
call('userfaultfd', 323, 0)
call('io_uring_setup', 425, 8, word)
call('perf_event_open', 298, word, 0, -1, -1, 0)
call('process_vm_writev', 311, 1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
call('process_vm_readv', 310, 1, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0)
call('ptrace attach', 101, 16, 1, 0, 0)
call('ptrace seize', 101, 0x4206, 1, 0, 0)
call('kill', 62, 1, 9)
call('setuid', 105, 0)
call('init_module', 175, word, 64, b'')
call('kexec_load', 246, 0, 0, 0, 0)
call('reboot', 169, 0xfee1dead, 672274793, 0x4321fedc, 0)
call('open_by_handle_at', 304, -100, word, 0)
call('raw socket', 41, 2, 3, 1)
call('packet socket', 41, 17, 3, 0)
call('tun', 16, os.open('/dev/net/tun', os.O_RDWR), 0x400454ca,
     b'tun0'.ljust(16, b'\0') + b'\1\0'.ljust(24, b'\0'))
for name, path, mode in (
    ('memory of the agent', '/proc/1/mem', 'rb+'),
    ('environment of the agent', '/proc/1/environ', 'rb'),
    ('agent', '/opt/sandgate/agent', 'ab'), ('preload', '/etc/ld.so.preload', 'ab'),
    ('sysrq', '/proc/sysrq-trigger', 'ab'), ('device', '/dev/sda', 'ab'),
):
    try:
        with open(path, mode, buffering=0) as f: f.read(1) if 'r' in mode else None
        got[name] = 'done'
    except OSError as e: got[name] = errno.errorcode[e.errno]
print(json.dumps(got))`

// TestAbuse40_NoPrivileges: a program of the user gets an error from each system call that would
// give it privileges or reach the agent. User namespaces are refused, so that no program mounts
// anything.
func TestAbuse40_NoPrivileges(t *testing.T) {
	s := open(t, server)
	var got map[string]string
	check(t, json.Unmarshal([]byte(s.run("ok", system).stdout), &got))
	other := map[string]string{
		"userfaultfd": "ENOSYS", "io_uring_setup": "ENOSYS", "perf_event_open": "ENODEV",
		"keyctl instantiate": "ENOSYS", "open_by_handle_at": "ENOTSUP",
		"add_key": "EACCES", "memory of the agent": "EACCES", "environment of the agent": "EACCES",
		"agent": "EACCES", "preload": "EACCES", "sysrq": "EACCES", "device": "EACCES",
	}
	for name, errno := range got {
		want := cmp.Or(other[name], "EPERM")
		if errno != want {
			t.Errorf("%s: %s, want %s", name, errno, want)
		}
	}
	if len(got) < 35 {
		t.Errorf("only %d calls: %v", len(got), got)
	}
	s.run("ok", "1")
}

// TestAbuse04_MemoryOfEveryKind: memory of anonymous files and of pipes counts, and a program that
// takes more of it than the sandbox may have ends the sandbox and nothing else.
func TestAbuse04_MemoryOfEveryKind(t *testing.T) {
	s := openWith(t, server, protocol.SessionCreate{
		Language: "python", Limits: &protocol.Limits{MemoryBytes: 256 << 20},
	})
	used := func() int64 {
		v, err := s.client.Session(s.ctx, s.id)
		check(t, err)
		return v.Usage.MemoryBytes
	}
	const part = 64 << 20
	for _, x := range []struct{ name, code string }{
		{"memfd", `import os
m = os.memfd_create('x')
for i in range(64): os.write(m, b'x' * (1 << 20))`},
		{"pipes", `import fcntl
ends = []
for i in range(64):
    r, w = os.pipe()
    fcntl.fcntl(w, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(w, False)
    ends.append((r, w, os.write(w, b'x' * (1 << 20))))
assert sum(e[2] for e in ends) >= 60 << 20, ends`},
	} {
		before := used()
		s.run("ok", x.code)
		eventually(t, x.name+" counts", func() bool { return used() >= before+part*8/10 })
	}
	s.run("ok", "import os\nassert not os.access('/dev', os.W_OK)")
	cell := s.begin("while True: os.write(m, b'x' * (1 << 20))")
	var err error
	for err == nil {
		_, err = cell.Next(s.ctx)
	}
	info, err := s.client.Session(s.ctx, s.id)
	check(t, err)
	if info.State != "lost" || info.Reason != "memory" {
		t.Errorf("over the memory: %+v", info)
	}
}
