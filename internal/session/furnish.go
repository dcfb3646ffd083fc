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

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/stream"
)

// furnish makes of a fresh machine what a template says: files, packages,
// commands. Words are what the commands have printed.
func (m *Manager) furnish(ctx context.Context, mb *Instance, t *template) (words string, err error) {
	src := t.source
	b := &workshop{exits: map[uint32]chan wire.Exit{}, env: src.env()}
	mb.agent.SetSink(b)
	defer mb.agent.SetSink(mb.router)
	t.work(b)
	defer t.work(nil)
	if err := b.files(ctx, mb, src); err != nil {
		return b.String(), err
	}
	shut, err := m.letBuildOut(ctx, mb, src, b)
	if err != nil {
		return b.String(), err
	}
	err = b.make(ctx, mb, src)
	if serr := shut(); err == nil {
		err = serr
	}
	return b.String(), err
}

// make installs the template's packages and runs its commands.
func (b *workshop) make(ctx context.Context, mb *Instance, src *source) error {
	for _, language := range slices.Sorted(maps.Keys(src.Spec.Packages)) {
		argv, err := install(src.Spec, language)
		if err != nil {
			return err
		}
		shown := "install packages of " + language + ": " + strings.Join(src.Spec.Packages[language], " ")
		if err := b.run(ctx, mb, b.installing(), argv, shown, "packages", "the packages of "+language+" could not be installed"); err != nil {
			return err
		}
	}
	for _, command := range src.Spec.Run {
		if err := b.run(ctx, mb, b.env, []string{"sh", "-ec", command}, "$ "+command, "run", fmt.Sprintf("the command %.80q failed", command)); err != nil {
			return err
		}
	}
	if len(src.Spec.Packages) > 0 {
		argv := []string{"rm", "-rf", packageDir}
		if err := b.run(ctx, mb, b.env, argv, "", "packages", "the packages' files could not be removed"); err != nil {
			return err
		}
	}
	return nil
}

// work notes in which workshop the template is made; nil for none any more.
func (t *template) work(b *workshop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b == nil && t.shop != nil {
		t.words = t.shop.String()
	}
	t.shop = b
}

// workshop is where a template is made: the sink of the agent meanwhile.
type workshop struct {
	// env is that of the commands; out says that they are let out.
	env map[string]string
	out bool

	mu    sync.Mutex // guards all below
	text  []byte     // the last maxBuildLog bytes
	from  int        // where in text the command under way begins
	exits map[uint32]chan wire.Exit
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
		b.from = max(0, b.from-over)
	}
}

func (b *workshop) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.from = len(b.text)
}

// last is what the command under way has printed.
func (b *workshop) last() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.ToValidUTF8(string(b.text[b.from:]), "\uFFFD")
}

// Exit notes the end of a command.
func (b *workshop) Exit(n uint32, e wire.Exit) {
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

// installing is the environment of the scripts in install.
func (b *workshop) installing() map[string]string {
	env := maps.Clone(b.env)
	env["SANDGATE_INDEX"] = ""
	if b.out {
		env["SANDGATE_INDEX"] = "yes"
	}
	return env
}

// run runs a command to its end. shown is the line that the build's words have
// of it, field what of the template it is.
func (b *workshop) run(ctx context.Context, mb *Instance, env map[string]string, argv []string, shown, field, failure string) error {
	const op = "template.build"
	n := mb.router.number()
	done := make(chan wire.Exit, 1)
	b.mu.Lock()
	b.exits[n] = done
	b.mu.Unlock()
	if shown != "" {
		b.say([]byte(shown + "\n"))
	}
	b.begin()
	if _, err := mb.agent.StartProcess(ctx, n, wire.StartProcess{Argv: argv, Env: env}); err != nil {
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
		return &fault.Error{Kind: fault.Conflict, Op: op, Field: field, Message: failure + ": it ended " + how + tail(b.last())}
	case <-mb.agent.Done():
		return mb.agent.Err()
	case <-ctx.Done():
		return fault.Wrap(fault.KindOf(ctx.Err()), op, ctx.Err())
	}
}

// files writes the template's files. Only the agent opens their paths, with
// the user's rights.
func (b *workshop) files(ctx context.Context, mb *Instance, src *source) error {
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
		if _, err := mb.agent.Files.Write(ctx, mb.router.number(), wire.FileWrite{Path: to, Mode: uint32(h.Mode) & 0o777}, in); err != nil {
			return &fault.Error{Kind: fault.KindOf(err), Op: op, Field: "files", Message: fmt.Sprintf("%.200s cannot be written: %s", to, fault.PublicOf(err).Message), Err: err}
		}
	}
}
