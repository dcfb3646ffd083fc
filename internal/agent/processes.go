package agent

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
)

// maxCommand is the most bytes of a command line that are reported.
const maxCommand = 256

// ticks is the unit of processor time in /proc, per second. It is the same on
// every Linux that Go runs on.
const ticks = 100

// listProcesses reads /proc.
func (s *Server) listProcesses() wire.Processes {
	all := readProcesses()
	ours := descendants(all, os.Getpid())
	marks := map[string]uint32{}
	s.mu.Lock()
	for id, c := range s.channels {
		marks[strconv.Itoa(int(c.group))] = id
	}
	s.mu.Unlock()
	out := wire.Processes{Processes: []wire.Process{}}
	for _, p := range all {
		if p.pid != os.Getpid() && !ours[p.pid] {
			continue // a process of another sandbox, if the agent runs without one
		}
		d, ok := describe(s.cfg, p)
		for _, group := range strings.Fields(p.groups) {
			if id := marks[group]; id != 0 {
				d.Channel = id
			}
		}
		if ok {
			out.Processes = append(out.Processes, d)
		}
	}
	slices.SortFunc(out.Processes, func(a, b wire.Process) int { return a.PID - b.PID })
	return out
}

// describe returns the details of a process. ok is false if it is gone.
func describe(cfg Config, p proc) (wire.Process, bool) {
	dir := "/proc/" + strconv.Itoa(p.pid)
	d := wire.Process{PID: p.pid, PPID: p.ppid, Command: p.name}
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return d, false
	}
	// The fields follow the name, which may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) > 12 {
		d.State = map[string]string{"R": "running", "S": "sleeping", "D": "waiting", "T": "stopped", "t": "stopped", "Z": "zombie", "X": "zombie"}[fields[0]]
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		d.CPU = (user + system) * 1000 / ticks
	}
	uid := p.uid
	switch uid {
	case 0:
		d.User = "root"
	case cfg.UID:
		d.User = cfg.User
	default:
		d.User = strconv.Itoa(uid)
	}
	d.Memory = int64(procNumber(dir+"/status", "VmRSS:")) << 10
	if line, err := os.ReadFile(dir + "/cmdline"); err == nil && len(line) > 0 {
		line = bytes.TrimRight(line, "\x00")
		line = line[:min(len(line), maxCommand)]
		d.Command = strings.ToValidUTF8(string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))), "\uFFFD")
	}
	return d, true
}

// signalProcess signals a process of the user. The agent may signal all
// processes, so it checks the owner in /proc. The number cannot be reused
// meanwhile, because only the agent collects its children, and all other
// processes become its children first.
func signalProcess(uid int, q wire.SignalProcess) error {
	const op = "agent.process.signal"
	sig, ok := signalByName(q.Signal)
	if !ok {
		return fault.Invalid(op, "signal", "there is no signal %q to send", q.Signal)
	}
	all := readProcesses()
	ours := descendants(all, os.Getpid())
	for _, p := range all {
		if p.pid != q.PID || !ours[p.pid] || p.zombie {
			continue
		}
		if p.uid != uid {
			return &fault.Error{Kind: fault.PermissionDenied, Op: op, Field: "pid", Message: "the process is not the user's"}
		}
		if err := syscall.Kill(p.pid, sig); err == nil {
			return nil
		}
	}
	return &fault.Error{Kind: fault.NotFound, Op: op, Field: "pid", Message: "there is no such process"}
}
