package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
)

// Limits of the console.
const (
	// typeAhead is how many bytes may be typed ahead of a running cell; more
	// is dropped with a bell.
	typeAhead = 16 << 10
	// historyLines is how many lines are kept from one call to the next.
	historyLines = 1000
	// completeTimeout is how long Tab waits for the kernel.
	completeTimeout = 3 * time.Second
	maxMatches      = 100
)

// interactive talks over a terminal.
func (r *repl) interactive(ctx context.Context, ch protocol.Channel, o replOptions) error {
	in := int(r.a.in.Fd())
	old, err := term.MakeRaw(in)
	if err != nil {
		return fault.Wrap(fault.Host, "repl.terminal", err)
	}
	defer func() { _ = term.Restore(in, old) }()
	keys := newKeyboard(r.a.in)
	keys.interrupt = func() { r.interrupt(ctx) }
	go keys.pump()
	out, ok := r.a.out.(*os.File)
	if !ok {
		return fault.New(fault.Host, "repl.terminal", "standard output is no terminal")
	}
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, out}, "")
	past := loadHistory(filepath.Join(r.a.getenv("HOME"), ".config/sandgate/history"))
	t.History = past
	defer past.save()
	resize := func() {
		if w, h, err := term.GetSize(int(out.Fd())); err == nil && w > 0 && h > 0 {
			_ = t.SetSize(w, h)
		}
	}
	changes := make(chan os.Signal, 1)
	signal.Notify(changes, syscall.SIGWINCH)
	resize()
	done := make(chan struct{})
	defer close(done)
	defer signal.Stop(changes)
	go func() {
		for {
			select {
			case <-changes:
				resize()
			case <-done:
				return
			}
		}
	}()
	go func() {
		// What waits for a key returns when the command is told to end.
		select {
		case <-ctx.Done():
			keys.close()
		case <-done:
		}
	}()

	r.view = &view{out: t, err: t, figures: o.figures, colour: r.a.colour(r.a.out)}
	r.kernel.Other(r.background)
	read := func(prompt string, read func() (string, error)) (string, error) {
		// An input's prompt goes on in the line that the program began; the
		// next one is ours again.
		keys.edit(true)
		line, err := read()
		keys.edit(false)
		switch {
		case keys.cleared.Swap(false):
			_, _ = fmt.Fprint(t, "^C\n")
			return "", errClear
		case errors.Is(err, io.EOF):
			_, _ = fmt.Fprint(t, "\n")
			return "", errLeave
		}
		return line, err
	}
	r.next = func(prompt string) (string, error) {
		return read(prompt, func() (string, error) {
			t.SetPrompt(prompt)
			defer t.SetPrompt("")
			return t.ReadLine()
		})
	}
	r.secret = func(prompt string) (string, error) {
		return read(prompt, func() (string, error) { return t.ReadPassword(prompt) })
	}
	pending := &pendingCode{}
	t.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return r.complete(ctx, t, pending.get(), line, pos)
	}
	r.code = func(prompt string) (string, error) {
		line, err := r.next(prompt)
		switch {
		case err != nil:
			pending.set("")
		case prompt == morePrompt:
			pending.add(line)
		default:
			pending.set(line)
		}
		return line, err
	}
	r.greet(t, ch)
	err = r.talk(ctx)
	r.failed = false // the user has seen it
	return err
}

func (r *repl) greet(w io.Writer, ch protocol.Channel) {
	var info kernel.Info
	_ = json.Unmarshal(ch.Info, &info)
	banner := strings.TrimSpace(info.Banner)
	if banner == "" {
		banner = strings.TrimSpace(info.Language + " " + info.Version)
	}
	fmt.Fprintf(w, "%s\nCtrl-C interrupts, Tab completes, Ctrl-D leaves.\n", banner)
}

// complete answers Tab: it writes what all matches have in common, or lists
// them.
func (r *repl) complete(ctx context.Context, w io.Writer, before, line string, pos int) (string, int, bool) {
	if strings.TrimSpace(line[:pos]) == "" {
		return line[:pos] + "    " + line[pos:], pos + 4, true
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	code := before + line
	reply, err := r.kernel.Complete(ctx, code, utf8.RuneCountInString(before+line[:pos]))
	if err != nil || len(reply.Matches) == 0 {
		return line, pos, true
	}
	start := byteOffset(code, reply.Start) - len(before)
	end := byteOffset(code, reply.End) - len(before)
	if start < 0 || end < start || end > len(line) {
		return line, pos, true
	}
	common := reply.Matches[0].Text
	for _, m := range reply.Matches[1:] {
		for !strings.HasPrefix(m.Text, common) {
			_, size := utf8.DecodeLastRuneInString(common)
			common = common[:len(common)-size]
		}
	}
	if len(reply.Matches) > 1 && len(common) <= end-start {
		var names []string
		for i, m := range reply.Matches {
			if i == maxMatches {
				names = append(names, "…")
				break
			}
			names = append(names, printable(m.Text))
		}
		_, _ = fmt.Fprintf(w, "%s\n", strings.Join(names, "  "))
	}
	if common == "" {
		return line, pos, true
	}
	return line[:start] + common + line[end:], start + len(common), true
}

// byteOffset turns a position in code points into one in bytes.
func byteOffset(s string, points int) int {
	for i := range s {
		if points == 0 {
			return i
		}
		points--
	}
	return len(s)
}

// pendingCode is what was typed of a block before the line being edited.
type pendingCode struct {
	mu   sync.Mutex // guards code
	code string
}

func (p *pendingCode) get() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.code
}

func (p *pendingCode) set(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code = ""
	if line != "" {
		p.code = line + "\n"
	}
}

func (p *pendingCode) add(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.code += line + "\n"
}

// keyboard reads a terminal all the time, so that Ctrl-C is heard while a cell
// runs. What else is typed then waits for the next prompt.
type keyboard struct {
	in        io.Reader
	interrupt func()
	// cleared is set when the line that ends was cut off by Ctrl-C.
	cleared atomic.Bool

	mu      sync.Mutex // guards all below
	cond    *sync.Cond
	buf     []byte
	editing bool
	ended   bool
}

func newKeyboard(in io.Reader) *keyboard {
	k := &keyboard{in: in}
	k.cond = sync.NewCond(&k.mu)
	return k
}

const ctrlC = 3

// pump ends with the terminal, or with the process: a read cannot be
// withdrawn.
func (k *keyboard) pump() {
	buf := make([]byte, 1024)
	for {
		n, err := k.in.Read(buf)
		for _, b := range buf[:n] {
			k.key(b)
		}
		if err != nil {
			k.close()
			return
		}
	}
}

func (k *keyboard) key(b byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case b == ctrlC && k.editing:
		// To the editor: to the end, delete what is before, enter.
		k.cleared.Store(true)
		k.buf = append(k.buf[:0], 5, 21, '\r')
	case b == ctrlC:
		k.buf = k.buf[:0]
		k.interrupt()
	case len(k.buf) >= typeAhead:
		_, _ = os.Stderr.Write([]byte{7})
	default:
		k.buf = append(k.buf, b)
	}
	k.cond.Broadcast()
}

func (k *keyboard) edit(on bool) {
	k.mu.Lock()
	k.editing = on
	k.mu.Unlock()
}

func (k *keyboard) close() {
	k.mu.Lock()
	k.ended = true
	k.cond.Broadcast()
	k.mu.Unlock()
}

// Read gives the editor one key at a time up to the end of a line, so that
// what follows can still be taken back by Ctrl-C.
func (k *keyboard) Read(p []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.buf) == 0 && !k.ended {
		k.cond.Wait()
	}
	if len(k.buf) == 0 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) && n < len(k.buf) {
		p[n] = k.buf[n]
		n++
		if p[n-1] == '\r' || p[n-1] == '\n' {
			break
		}
	}
	k.buf = k.buf[n:]
	return n, nil
}

// history is what was typed, newest first. It is kept in a file.
type history struct {
	path  string
	mu    sync.Mutex // guards lines
	lines []string
}

func loadHistory(path string) *history {
	h := &history{path: path}
	b, err := os.ReadFile(path)
	if err != nil {
		return h // none yet, or none to be had: the console works without
	}
	for line := range strings.Lines(string(b)) {
		h.Add(strings.TrimSuffix(line, "\n"))
	}
	return h
}

// Add implements term.History.
func (h *history) Add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > historyLines {
		h.lines = h.lines[len(h.lines)-historyLines:]
	}
}

// Len implements term.History.
func (h *history) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

// At implements term.History; 0 is the newest.
func (h *history) At(i int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[len(h.lines)-1-i]
}

func (h *history) save() {
	h.mu.Lock()
	text := strings.Join(h.lines, "\n") + "\n"
	h.mu.Unlock()
	if os.MkdirAll(filepath.Dir(h.path), 0o700) == nil {
		_ = os.WriteFile(h.path, []byte(text), 0o600)
	}
}
