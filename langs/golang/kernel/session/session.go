// Package session runs cells: it translates, compiles, links and loads them, runs each in its own
// goroutine, and stops it on request. It answers the requests of the driver protocol.
package session

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/host"
	"github.com/sandgate/sandgate/langs/golang/kernel/modules"
	"github.com/sandgate/sandgate/langs/golang/kernel/shared"
	"github.com/sandgate/sandgate/langs/golang/kernel/support"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

const (
	// maxWaiting is the largest number of waiting cells and questions.
	maxWaiting = 64
	// maxStack is the depth of a goroutine's stack, in bytes, above which its next check panics. At
	// hardStack Go ends the process.
	maxStack  = 64 << 20
	hardStack = 512 << 20
	// lastPatience is how long work may continue after the requests have ended.
	lastPatience = 5 * time.Second
)

// Session is one kernel. It exists as long as Serve runs.
type Session struct {
	out  *wire.Output
	dir  tools.Dir
	work string
	// The streams that programs print to. Cells may close descriptors 1 and 2.
	stdout, stderr *os.File
	chain          *tools.Chain
	modules        *modules.Cache

	// guards the two fields below; held while a cell is built, not while it runs
	mu       sync.Mutex
	front    *front.Session
	pointers map[string]any // pointers to the session's variables, by name

	sources sync.Map // text of cells, by the name of their file
	runs    runs
	alarm   *uint32 // variable of cell 0
	count   int     // cells that were run, without silent ones
	seq     int     // cells that were translated
	memory  memory
	stdin   stdin
	code    code
}

// New creates a session in the folder work, with the installation dir.
func New(dir tools.Dir, work string, out *wire.Output) (*Session, error) {
	s := &Session{out: out, dir: dir, work: work, pointers: map[string]any{}}
	s.runs.byID = map[uint32]*run{}
	debug.SetMaxStack(hardStack)
	debug.SetTraceback("single")
	var err error
	if s.stdout, err = duplicate(1); err != nil {
		return nil, err
	}
	if s.stderr, err = duplicate(2); err != nil {
		return nil, err
	}
	if s.chain, err = tools.New(dir, work); err != nil {
		return nil, err
	}
	s.modules = modules.New(dir, s.chain, work)
	if s.front, err = front.NewSession(s.modules, s.modules.Std(), support.Source); err != nil {
		return nil, err
	}
	if err := s.load(s.front.Support(), nil); err != nil {
		return nil, fmt.Errorf("cell 0: %w", err)
	}
	type install = func(func(), func([]any), func(string, any), func(string, any, string, bool),
		func(bool),
		func(string, bool) (string, error), func(string, any) error, func(string, any) error,
		func() []string) *uint32
	f, err := host.Func[install](front.Path(0) + ".Install__")
	if err != nil {
		return nil, err
	}
	s.alarm = f(s.check, s.result, s.variable, s.display, s.clear, s.ask,
		shared.Put, shared.Get, shared.Names)
	host.Install(
		host.Runtime{
			Uncaught: s.uncaught, Alarm: func() { atomic.StoreUint32(s.alarm, 1) },
			MaxStack: maxStack,
		},
		host.Files{Write: s.write, Read: s.read, Start: s.out.Settle, Exit: s.exit},
	)
	s.memory.measure()
	return s, nil
}

// duplicate returns a file for a copy of a descriptor, with a high number.
func duplicate(fd int) (*os.File, error) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_DUPFD_CLOEXEC, 100)
	if errno != 0 {
		return nil, os.NewSyscallError("fcntl", errno)
	}
	return os.NewFile(n, fmt.Sprint("descriptor ", fd)), nil
}

// load compiles, links and opens a cell of the kernel itself.
func (s *Session) load(u *front.Unit, also []tools.Package) error {
	o, err := s.chain.Build(background, u.Path, u.File, u.Source, also)
	if err != nil {
		return err
	}
	if err := host.Open(o.File); err != nil {
		return err
	}
	s.chain.Ready()
	return s.chain.Keep(o)
}

// Serve answers requests until they end. Cells run one after the other; questions are answered
// meanwhile.
func (s *Session) Serve(in io.Reader) error {
	s.out.Reply(wire.Reply{Op: "ready", Status: "ok", Info: &wire.Info{
		Language: "golang", Version: runtime.Version()[len("go"):],
		Implementation: "compiled cells",
		FileExtension:  ".go", MIMEType: "text/x-go", PID: os.Getpid(),
		Banner: runtime.Version() + ": each cell is compiled and loaded into one process",
	}})
	cells, questions := make(chan wire.Request, maxWaiting), make(chan wire.Request, maxWaiting)
	var working sync.WaitGroup
	defer func() {
		close(cells)
		close(questions)
		done := make(chan struct{})
		go func() { working.Wait(); close(done) }()
		select { // earlier requests are finished first
		case <-done:
		case <-time.After(lastPatience):
		}
	}()
	working.Go(func() {
		for q := range cells {
			if q.Op == "reseed" {
				s.out.Reply(s.reseed(q))
			} else {
				s.out.Reply(s.execute(q))
			}
		}
	})
	working.Go(func() {
		for q := range questions {
			s.out.Reply(s.answer(q))
		}
	})
	for {
		q, err := wire.Read(in)
		switch {
		case errors.Is(err, wire.ErrMalformed):
			s.refuse(q, err.Error())
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		queue := questions
		switch q.Op {
		case "interrupt":
			s.interrupt()
			continue
		case "input":
			s.stdin.give(q)
			continue
		case "comm":
			continue // there are no widgets
		case "execute":
			queue = cells
			s.runs.waits(1)
		case "reseed":
			queue = cells
		case "complete", "inspect", "is_complete", "variables":
			s.code.note(q)
		default:
			s.refuse(q, fmt.Sprintf("there is no operation %q", q.Op))
			continue
		}
		select {
		case queue <- q:
		default:
			if q.Op == "execute" {
				s.runs.waits(-1)
			}
			s.refuse(q, fmt.Sprintf("%d requests wait for the kernel, which is the limit",
				maxWaiting))
		}
	}
}

func (s *Session) refuse(q wire.Request, why string) {
	if q.ID != 0 {
		s.out.Reply(wire.Reply{
			Op: "reply", ID: q.ID, Status: "error", EName: "KernelError",
			EValue: why,
		})
	}
}

// reseed gives the process new randomness, so that it differs from others of the same snapshot.
func (s *Session) reseed(q wire.Request) wire.Reply {
	r := wire.Reply{Op: "reply", ID: q.ID, Status: "ok"}
	var seed [32]byte
	if n, err := hex.Decode(seed[:], []byte(q.Seed)); err != nil || n != len(seed) {
		if q.Seed != "" {
			r.Status, r.EName, r.EValue = "error", "KernelError",
				"the seed is not 64 hexadecimal digits"
			return r
		}
		rand.Read(seed[:]) // never fails
	}
	host.Reseed(seed)
	for k, v := range q.Env {
		if err := os.Setenv(k, v); err != nil {
			r.Status, r.EName, r.EValue = "error", "KernelError", err.Error()
		}
	}
	s.memory.measure()
	return r
}

// message sends a message with a cell's number.
func (s *Session) message(cell uint32, kind string, content map[string]any) {
	b, err := json.Marshal(map[string]any{"msg_type": kind, "content": content})
	if err != nil {
		s.out.Stderr(cell, fmt.Appendf(nil, "a %s could not be encoded: %v\n", kind, err))
		return
	}
	if len(b) > wire.MaxBody {
		s.out.Stderr(cell, fmt.Appendf(nil, "a %s of %d bytes was left out: the limit is %d\n",
			kind, len(b), wire.MaxBody))
		return
	}
	s.out.Message(cell, b)
}
