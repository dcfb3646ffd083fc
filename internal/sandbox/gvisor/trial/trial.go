// Package trial checks that this program can use a runtime of another version of gVisor. gVisor
// promises nothing about programs and runtimes of different versions. So before such a runtime gets
// a session, a sandbox of it is saved and restored.
package trial

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sandgate/sandgate/internal/agent/client"
	"github.com/sandgate/sandgate/internal/edition"
	"github.com/sandgate/sandgate/internal/sandbox/gvisor"
)

// limit bounds a trial. It takes about a second.
const limit = 90 * time.Second

// Trial tries runtimes. Its fields are set before the first call of Run.
type Trial struct {
	Runtime *gvisor.Runtime
	// Spec is the sandbox that is tried. Its program is the agent.
	Spec gvisor.Spec
	// Dir is a folder for a snapshot. It is removed at the end.
	Dir string
}

// Run boots a sandbox with an edition, saves it, restores it and saves it again. The agent has to
// answer after each step.
func (t *Trial) Run(ctx context.Context, f edition.Files) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(t.Dir)) }()
	spec := t.Spec
	spec.Image, spec.Runsc = f.Image, gvisor.Binary{Path: f.Runsc, ID: f.Runtime}
	first, second := filepath.Join(t.Dir, "first"), filepath.Join(t.Dir, "second")
	s, err := t.Runtime.Boot(ctx, spec)
	if err == nil {
		err = use(ctx, s, first, (*client.Client).WaitHello)
	}
	if err == nil {
		s, err = t.Runtime.Restore(ctx, first, spec, gvisor.CheckAll)
	}
	if err == nil {
		err = use(ctx, s, second, func(*client.Client, context.Context) error { return nil })
	}
	if err != nil {
		return fmt.Errorf("its runtime is of another version of gVisor, which this program cannot use: %w",
			err)
	}
	return nil
}

// use waits until the agent of a sandbox answers, and saves the sandbox to dir.
func use(ctx context.Context, s *gvisor.Sandbox, dir string,
	ready func(*client.Client, context.Context) error,
) (err error) {
	r, w := s.Wire()
	c := client.New(r, w, nil)
	defer func() {
		err = errors.Join(err, s.Destroy(context.WithoutCancel(ctx)))
		<-c.Done()
	}()
	if err := ready(c, ctx); err != nil {
		return err
	}
	if err := c.Ping(ctx); err != nil {
		return err
	}
	return s.Checkpoint(ctx, dir)
}
