package pty

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
)

// Scanner reads a program's output and keeps the State of its terminal. The
// output may be cut at any byte. It is not safe for concurrent use.
type Scanner struct {
	state  State
	parser parser
}

// NewScanner returns a scanner for a new terminal.
func NewScanner(s Size) *Scanner { return ResumeScanner(newState(s)) }

// ResumeScanner returns a scanner that continues from a State.
func ResumeScanner(s State) *Scanner {
	c := &Scanner{state: s}
	c.state.partial = nil
	c.parser.emit = c.emit
	c.parser.write(s.partial)
	return c
}

// Write processes output.
func (c *Scanner) Write(b []byte) { c.parser.write(b) }

// Resize records a new size of the terminal, which resets the scrolling region.
func (c *Scanner) Resize(s Size) { c.state.Size, c.state.top, c.state.bottom = s, 0, 0 }

// Paste is State.Paste.
func (c *Scanner) Paste() bool { return c.state.Paste() }

// State returns the state after everything that was written.
func (c *Scanner) State() State {
	if p := c.state.palette; p != nil {
		p.shared = true
	}
	s := c.state
	s.partial = c.parser.partial()
	return s
}

func (c *Scanner) emit(k kind, b []byte) {
	switch k {
	case plain:
		if bytes.IndexByte(b, so) >= 0 || bytes.IndexByte(b, si) >= 0 {
			c.state.cursor[0].shift = int(si - b[bytes.LastIndexAny(b, "\x0e\x0f")])
		}
	case escape:
		c.state.escape(b)
	case csi:
		c.state.csi(parseCSI(b))
	case osc:
		c.state.osc(content(b))
	}
}

// Restore returns bytes that bring a terminal into the state. They must be written before the
// output that follows. The terminal should be new or reset. Restore sets every mode that the
// program has touched. A terminal sends no replies to these bytes, except to modes that report when
// they are set.
func (s State) Restore() []byte {
	b := []byte{can} // it cancels an unfinished sequence of another stream
	set := func(prefix string, n int, on bool) {
		b = append(b, "\x1b["+prefix+strconv.Itoa(n)+map[bool]string{true: "h", false: "l"}[on]...)
	}
	switch {
	case s.alt != 0:
		set("?", s.alt, true)
	case s.wasAlt:
		set("?", 1047, false)
	}
	for i, p := range s.palettes() {
		b = fmt.Appendf(b, "\x1b]4;%d;%s\x1b\\", i, p)
	}
	for i, c := range s.colours {
		if c != "" {
			b = fmt.Appendf(b, "\x1b]%d;%s\x1b\\", 10+i, c)
		}
	}
	if s.title != "" {
		b = fmt.Appendf(b, "\x1b]2;%s\x1b\\", s.title)
	}
	if s.top != 0 {
		b = fmt.Appendf(b, "\x1b7\x1b[%d;%dr\x1b8", s.top, s.bottom)
	}
	all := table()
	for _, on := range []bool{false, true} { // the enabled mode of a group comes last
		for i, m := range all {
			is := s.modes.on&(1<<i) != 0
			if is != on || !m.always && s.modes.touched&(1<<i) == 0 {
				continue
			}
			prefix := "?"
			if m.ansi {
				prefix = ""
			}
			set(prefix, m.number, on)
		}
	}
	b = append(b, map[bool]string{true: "\x1b=", false: "\x1b>"}[s.keypad]...)
	if s.shape >= 0 {
		b = fmt.Appendf(b, "\x1b[%d q", s.shape)
	}
	if s.other > 0 {
		b = fmt.Appendf(b, "\x1b[>4;%dm", s.other)
	}
	for _, f := range s.keys[s.screen()].flags[:s.keys[s.screen()].depth] {
		b = fmt.Appendf(b, "\x1b[>%du", f)
	}
	for i, designate := range []string{"(", ")"} {
		set := s.cursor[0].charsets[i]
		if set == "" {
			set = "B"
		}
		b = append(b, "\x1b"+designate+set...)
	}
	b = append(b, byte(si-s.cursor[0].shift))
	b = s.cursor[0].style.append(b)
	return append(b, s.partial...)
}

// Reset returns bytes that bring a terminal in this state back to the state that a shell expects,
// for a terminal that a program no longer uses.
func (s State) Reset() []byte {
	b := []byte{can}
	if s.keys[s.screen()].depth > 0 {
		b = fmt.Appendf(b, "\x1b[<%du", s.keys[s.screen()].depth)
	}
	if s.top != 0 {
		b = append(b, "\x1b7\x1b[r\x1b8"...)
	}
	if s.alt != 0 {
		b = fmt.Appendf(b, "\x1b[?%dl", s.alt)
		if s.keys[0].depth > 0 {
			b = fmt.Appendf(b, "\x1b[<%du", s.keys[0].depth)
		}
	}
	usual := defaultModes()
	for i, m := range table() {
		if (s.modes.on^usual.on)&(1<<i) == 0 {
			continue
		}
		prefix, end := "?", "l"
		if m.ansi {
			prefix = ""
		}
		if m.initial {
			end = "h"
		}
		b = append(b, "\x1b["+prefix+strconv.Itoa(m.number)+end...)
	}
	if s.palette != nil {
		b = append(b, "\x1b]104\x1b\\"...)
	}
	for i, c := range s.colours {
		if c != "" {
			b = fmt.Appendf(b, "\x1b]%d\x1b\\", 110+i)
		}
	}
	if s.shape > 0 {
		b = append(b, "\x1b[0 q"...)
	}
	if s.other > 0 {
		b = append(b, "\x1b[>4m"...)
	}
	if s.keypad {
		b = append(b, "\x1b>"...)
	}
	return append(b, "\x1b(B\x0f\x1b[0m"...)
}

// palettes yields the palette's colours in order.
func (s State) palettes() func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		if s.palette == nil {
			return
		}
		numbers := make([]int, 0, len(s.palette.colours))
		for i := range s.palette.colours {
			numbers = append(numbers, i)
		}
		slices.Sort(numbers)
		for _, i := range numbers {
			if !yield(i, s.palette.colours[i]) {
				return
			}
		}
	}
}
