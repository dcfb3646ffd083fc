package program

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/client"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/console"
)

// signalPasser sends this process's signals to the program in the sandbox.
type signalPasser struct {
	cancel     context.CancelFunc
	interrupts <-chan os.Signal

	mu      sync.Mutex // guards all below
	process *client.Process
	count   int
	last    syscall.Signal
}

func (s *signalPasser) to(p *client.Process) {
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
}

func (s *signalPasser) loop(ctx context.Context) {
	for {
		var got os.Signal
		select {
		case got = <-s.interrupts:
		case <-ctx.Done():
			return
		}
		sig, _ := got.(syscall.Signal)
		s.mu.Lock()
		s.count++
		s.last = sig
		p, n := s.process, s.count
		s.mu.Unlock()
		if p == nil || n > 2 {
			s.cancel() // there is nobody to tell, or nobody who listens
			continue
		}
		name := "SIGINT"
		if sig == syscall.SIGTERM {
			name = "SIGTERM"
		}
		if n > 1 {
			name = "SIGKILL"
		}
		go s.pass(ctx, p, name)
	}
}

// Times of passing a signal on.
const (
	signalTimeout = 5 * time.Second
	// lastWord is how long a program has to end, and its output to arrive,
	// after a signal that is meant to end it.
	lastWord = 10 * time.Second
)

// pass sends one signal. When it cannot be delivered, or was meant to be the
// end and is not, this command ends without the program.
func (s *signalPasser) pass(ctx context.Context, p *client.Process, name string) {
	short, cancel := context.WithTimeout(ctx, signalTimeout)
	err := p.Signal(short, name)
	cancel()
	if err == nil && name == "SIGINT" {
		return
	}
	if err == nil {
		timer := time.NewTimer(lastWord)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	s.cancel()
}

// why is the error to show: that of a user who has pressed Ctrl-C is no error.
func (s *signalPasser) why(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count > 0 && fault.Is(err, fault.Canceled) {
		return console.ExitStatus(128 + int(s.last))
	}
	return err
}
