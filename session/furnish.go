package session

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/sandgate/sandgate/agent"
	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/stream"
)

// packageDir is where packages lie in the sandbox while they are installed.
const packageDir = "/tmp/.sandgate-packages"

// installers are the commands that install packages from packageDir, for the
// user. There is no network, and what a package runs is in the sandbox.
var installers = map[string]string{
	"python":     `exec python3 -m pip install --user --break-system-packages --no-cache-dir --no-index --no-warn-script-location --disable-pip-version-check --find-links "$0" "$@"`,
	"javascript": `cd && for p in "$@"; do set -- "$@" "$(ls -1 "$0/$p"*.tgz "$0/$p" 2>/dev/null | head -n 1)"; shift; done; exec npm install --offline --no-audit --no-fund --no-save "$@"`,
}

// furnish makes of a fresh machine what a template says: files, packages,
// commands. Words are what the commands have printed.
func (m *Manager) furnish(ctx context.Context, mb *member, src *source) (words string, err error) {
	b := &workshop{exits: map[uint32]chan agent.Exit{}}
	mb.agent.SetSink(b)
	defer mb.agent.SetSink(mb.router)
	if err := b.files(ctx, mb, src); err != nil {
		return b.String(), err
	}
	for _, manager := range slices.Sorted(maps.Keys(src.Spec.Packages)) {
		names := src.Spec.Packages[manager]
		argv := append([]string{"sh", "-c", installers[manager], packageDir}, names...)
		if err := b.run(ctx, mb, src, argv, "packages", "the packages for "+manager+" could not be installed"); err != nil {
			return b.String(), err
		}
	}
	for _, command := range src.Spec.Run {
		if err := b.run(ctx, mb, src, []string{"sh", "-ec", command}, "run", fmt.Sprintf("the command %.80q failed", command)); err != nil {
			return b.String(), err
		}
	}
	if len(src.Spec.Packages) > 0 {
		argv := []string{"rm", "-rf", packageDir}
		if err := b.run(ctx, mb, src, argv, "packages", "the packages' files could not be removed"); err != nil {
			return b.String(), err
		}
	}
	return b.String(), nil
}

// workshop is where a template is made: the sink of the agent meanwhile.
type workshop struct {
	mu    sync.Mutex // guards all below
	text  []byte     // the last maxBuildLog bytes
	exits map[uint32]chan agent.Exit
}

// Output keeps what the commands print.
func (b *workshop) Output(_ uint32, f stream.Frame) {
	if f.Type == stream.Stdout || f.Type == stream.Stderr {
		b.say(f.Body)
	}
}

func (b *workshop) say(p []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	if over := len(b.text) - maxBuildLog; over > 0 {
		b.text = append(b.text[:0], b.text[over:]...)
	}
}

// Exit notes the end of a command.
func (b *workshop) Exit(n uint32, e agent.Exit) {
	b.mu.Lock()
	c := b.exits[n]
	b.mu.Unlock()
	if c != nil {
		c <- e
	}
}

func (b *workshop) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(string(b.text), "\uFFFD")
}

// run runs a command to its end.
func (b *workshop) run(ctx context.Context, mb *member, src *source, argv []string, field, failure string) error {
	const op = "template.build"
	n := mb.router.number()
	done := make(chan agent.Exit, 1)
	b.mu.Lock()
	b.exits[n] = done
	b.mu.Unlock()
	b.say([]byte("$ " + strings.Join(argv[min(2, len(argv)-1):], " ") + "\n"))
	if _, err := mb.agent.StartProcess(ctx, n, agent.StartProcess{Argv: argv, Env: src.env()}); err != nil {
		return err
	}
	select {
	case e := <-done:
		// What it left running would be in every copy, and belong to nobody.
		if err := mb.agent.Close(ctx, n); err != nil && !fault.Is(err, fault.NotFound) {
			return err
		}
		if e.Code == 0 && e.Signal == "" {
			return nil
		}
		how := fmt.Sprintf("with status %d", e.Code)
		if e.Signal != "" {
			how = "by " + e.Signal
		}
		return &fault.Error{Kind: fault.Conflict, Op: op, Field: field, Message: failure + ": it ended " + how}
	case <-mb.agent.Done():
		return mb.agent.Err()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// files writes the template's files. Only the agent opens their paths, with
// the user's rights.
func (b *workshop) files(ctx context.Context, mb *member, src *source) error {
	const op = "template.build"
	f, err := os.Open(filepath.Join(src.dir, filesFile))
	if err != nil {
		return fault.Wrap(fault.Host, op, err)
	}
	defer f.Close()
	in := tar.NewReader(f)
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fault.Wrap(fault.Host, op, err)
		}
		to, ok := strings.CutPrefix(h.Name, "files")
		if !ok {
			to = packageDir + strings.TrimPrefix(h.Name, "packages")
		}
		if _, err := mb.agent.WriteFile(ctx, mb.router.number(), agent.FileWrite{Path: to, Mode: uint32(h.Mode) & 0o777}, in); err != nil {
			return &fault.Error{Kind: fault.KindOf(err), Op: op, Field: "files", Message: fmt.Sprintf("%.200s cannot be written: %s", to, fault.PublicOf(err).Message), Err: err}
		}
	}
}
