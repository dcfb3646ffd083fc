package pty

import (
	"maps"
	"strings"
	"unicode/utf8"
)

// State is the part of a terminal's state that a new viewer's terminal needs.
// It is a value: changes do not affect copies.
type State struct {
	Size    Size
	modes   modes
	saved   modes     // saved by CSI ? Pm s
	alt     int       // the mode that selected the alternate screen, or 0
	wasAlt  bool      // the alternate screen was used before
	cursor  [2]cursor // the present one, and the one that ESC 7 saved
	shape   int       // cursor shape, CSI Ps SP q; -1 means that it was never set
	top     int       // scrolling region; 0 means the whole screen
	bottom  int
	keypad  bool
	title   string
	colours [3]string // set by OSC 10 to 12: foreground, background, cursor
	palette *palette  // set by OSC 4; nil means the terminal's own
	keys    [2]keys   // flags of the kitty protocol, for each screen
	other   int       // modifyOtherKeys
	partial []byte    // an unfinished sequence; set only in copies
}

// cursor is the part of the state that ESC 7 saves, without the position.
type cursor struct {
	style    style
	charsets [2]string // G0 and G1, as designated; empty means ASCII
	shift    int       // index of the charset in use
}

// keys is a stack of flags.
type keys struct {
	flags [8]uint8
	depth int
}

// palette is a set of colours by number. A shared one is never changed.
type palette struct {
	colours map[int]string
	shared  bool
}

// Limits of the state, in bytes.
const (
	maxTitle  = 256
	maxColour = 32
)

func newState(s Size) State {
	return State{Size: s, shape: -1, modes: defaultModes(), saved: defaultModes()}
}

// mode is a mode that CSI ? Pm h and l, or CSI Pm h and l, set and reset.
type mode struct {
	number  int
	ansi    bool
	initial bool
	// always means that Restore sets the mode even if the program has never touched
	// it.
	always bool
	// alone identifies a group of modes of which at most one is on.
	alone int
}

const modeCount = 27

// table returns all modes that Restore sets. It leaves out 2026, synchronised output, because a
// terminal that enters it late would show nothing.
func table() [modeCount]mode {
	return [modeCount]mode{
		{number: 1, always: true}, // cursor keys
		{number: 5},               // reverse screen
		{number: 6},               // origin
		{number: 7, initial: true, always: true},
		{number: 9, alone: 1}, // mouse modes begin here
		{number: 12},
		{number: 25, initial: true, always: true}, // cursor
		{number: 45},
		{number: 66},
		{number: 69},
		{number: 1000, alone: 1, always: true},
		{number: 1001, alone: 1},
		{number: 1002, alone: 1, always: true},
		{number: 1003, alone: 1, always: true},
		{number: 1004, always: true}, // focus
		{number: 1005, alone: 2},
		{number: 1006, alone: 2, always: true},
		{number: 1015, alone: 2},
		{number: 1016, alone: 2},
		{number: 1007},
		{number: 1034},
		{number: 1036},
		{number: 2004, always: true}, // bracketed paste
		{number: 2031},
		{number: 2048},
		{number: 4, ansi: true, always: true}, // insert
		{number: 20, ansi: true},
	}
}

// modes has a bit for each entry of the table.
type modes struct {
	on, touched uint32
}

func defaultModes() modes {
	var m modes
	for i, t := range table() {
		if t.initial {
			m.on |= 1 << i
		}
	}
	return m
}

// set sets or resets a mode that is in the table.
func (m *modes) set(number int, ansi, on bool) {
	all := table()
	for i, t := range all {
		if t.number != number || t.ansi != ansi {
			continue
		}
		bit := uint32(1) << i
		if on && t.alone != 0 {
			for j, o := range all {
				if o.alone == t.alone {
					m.on &^= 1 << j
				}
			}
		}
		m.touched |= bit
		if m.on &^= bit; on {
			m.on |= bit
		}
	}
}

// has reports whether a private mode is on.
func (m modes) has(number int) bool {
	for i, t := range table() {
		if t.number == number && !t.ansi {
			return m.on&(1<<i) != 0
		}
	}
	return false
}

// copyBits copies one mode from another set.
func (m *modes) copyBits(from modes, number int) {
	for i, t := range table() {
		if t.number == number && !t.ansi {
			m.set(number, false, from.on&(1<<i) != 0)
		}
	}
}

// Paste reports whether the program wants brackets around pasted text.
func (s State) Paste() bool { return s.modes.has(2004) }

// FullScreen reports whether the program draws the whole screen: it is on the alternate screen, or
// it hides the cursor, as top does on the normal screen.
func (s State) FullScreen() bool { return s.alt != 0 || !s.modes.has(25) }

// Title returns the window title of the program: plain text, at most 256 bytes.
func (s State) Title() string { return s.title }

// screen returns 1 on the alternate screen, otherwise 0.
func (s *State) screen() int {
	if s.alt != 0 {
		return 1
	}
	return 0
}

func (s *State) escape(b []byte) {
	code := string(b[1:])
	if b[0] == 0xc2 {
		code = string(rune(b[1] - 0x40))
	}
	switch code {
	case "c": // RIS
		*s = State{
			Size: s.Size, shape: -1, modes: defaultModes(), saved: defaultModes(),
			wasAlt: s.wasAlt,
		}
		s.modes.touched = 1<<modeCount - 1
	case "7":
		s.cursor[1] = s.cursor[0]
	case "8":
		s.cursor[0] = s.cursor[1]
	case "=":
		s.keypad = true
	case ">":
		s.keypad = false
	default:
		if len(code) < 2 || len(code) > 3 {
			return
		}
		switch code[0] {
		case '(':
			s.cursor[0].charsets[0] = charset(code[1:])
		case ')':
			s.cursor[0].charsets[1] = charset(code[1:])
		}
	}
}

// charset returns the end of a designation: a final byte, possibly after an intermediate.
func charset(code string) string {
	if code == "B" || strings.ContainsFunc(code, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return code
}

func (s *State) csi(q sequence) {
	switch {
	case q.is(0, "", 'm'): // by far the most frequent
		s.cursor[0].style.apply(q.params)
	case q.is('?', "", 'h'), q.is('?', "", 'l'):
		for p := range strings.SplitSeq(q.params, ";") {
			s.private(number(p), q.final == 'h')
		}
	case q.is(0, "", 'h'), q.is(0, "", 'l'):
		for p := range strings.SplitSeq(q.params, ";") {
			s.modes.set(number(p), true, q.final == 'h')
		}
	case q.is('?', "", 's'):
		for p := range strings.SplitSeq(q.params, ";") {
			s.saved.copyBits(s.modes, number(p))
		}
	case q.is('?', "", 'r'):
		for p := range strings.SplitSeq(q.params, ";") {
			s.modes.copyBits(s.saved, number(p))
		}
	case q.is('>', "", 'm'):
		if head, rest, _ := strings.Cut(q.params, ";"); head == "4" || head == "" {
			s.other = min(max(number(rest), 0), 3)
		}
	case q.is(0, "", 'r'):
		top, bottom, _ := strings.Cut(q.params, ";")
		s.region(number(top), number(bottom))
	case q.is(0, " ", 'q'):
		if n := q.first(); n >= 0 && n <= 6 {
			s.shape = n
		}
	case q.is(0, "!", 'p'):
		s.softReset()
	case q.is(0, "", 's') && q.params == "":
		s.cursor[1] = s.cursor[0]
	case q.is(0, "", 'u') && q.params == "":
		s.cursor[0] = s.cursor[1]
	case q.final == 'u' && q.inter == "":
		s.keys[s.screen()].apply(q)
	}
}

// private sets or resets a private mode.
func (s *State) private(n int, on bool) {
	switch n {
	case 47, 1047, 1049:
		if n == 1049 && on {
			s.cursor[1] = s.cursor[0]
		}
		if n == 1049 && !on && s.alt != 0 {
			s.cursor[0] = s.cursor[1]
		}
		s.wasAlt = true
		if s.alt = 0; on {
			s.alt = n
		}
	case 1048:
		if on {
			s.cursor[1] = s.cursor[0]
		} else {
			s.cursor[0] = s.cursor[1]
		}
	default:
		s.modes.set(n, false, on)
	}
}

// region sets the scrolling region.
func (s *State) region(top, bottom int) {
	top = max(top, 1)
	if bottom <= 0 || bottom > s.Size.Rows {
		bottom = s.Size.Rows
	}
	switch {
	case top >= bottom:
	case top == 1 && bottom == s.Size.Rows:
		s.top, s.bottom = 0, 0
	default:
		s.top, s.bottom = top, bottom
	}
}

// softReset performs DECSTR.
func (s *State) softReset() {
	for _, n := range []int{1, 6} {
		s.modes.set(n, false, false)
	}
	s.modes.set(25, false, true)
	s.modes.set(4, true, false)
	s.keypad, s.top, s.bottom = false, 0, 0
	s.cursor = [2]cursor{}
}

// apply performs CSI > flags u, CSI < count u and CSI = flags ; how u.
func (k *keys) apply(q sequence) {
	head, rest, _ := strings.Cut(q.params, ";")
	n := number(head)
	switch q.prefix {
	case '>':
		if k.depth == len(k.flags) { // the oldest entry is dropped
			copy(k.flags[:], k.flags[1:])
			k.depth--
		}
		k.flags[k.depth] = uint8(n & 31)
		k.depth++
	case '<':
		k.depth = max(k.depth-max(n, 1), 0)
		clear(k.flags[k.depth:])
	case '=':
		if k.depth == 0 {
			k.flags[0], k.depth = 0, 1
		}
		f := &k.flags[k.depth-1]
		switch rest {
		case "2":
			*f |= uint8(n & 31)
		case "3":
			*f &^= uint8(n & 31)
		default:
			*f = uint8(n & 31)
		}
	}
}

func (s *State) osc(text string) {
	head, rest, _ := strings.Cut(text, ";")
	switch n := number(head); {
	case head == "":
	case n == 0, n == 2:
		s.title = PlainTitle(rest)
	case n == 4:
		for rest != "" {
			var index, spec string
			index, rest, _ = strings.Cut(rest, ";")
			spec, rest, _ = strings.Cut(rest, ";")
			if i := number(index); index != "" && i >= 0 && i < 256 && isColour(spec) {
				s.setColour(i, spec)
			}
		}
	case n >= 10 && n <= 12:
		for ; n <= 12 && rest != ""; n++ {
			var spec string
			if spec, rest, _ = strings.Cut(rest, ";"); isColour(spec) {
				s.colours[n-10] = strings.Clone(spec)
			}
		}
	case n == 104 && rest == "":
		s.palette = nil
	case n == 104:
		for p := range strings.SplitSeq(rest, ";") {
			s.setColour(number(p), "")
		}
	case n >= 110 && n <= 112:
		s.colours[n-110] = ""
	}
}

// isColour reports whether spec may be a colour and is not a query.
func isColour(spec string) bool {
	return spec != "" && len(spec) <= maxColour && !strings.ContainsFunc(spec, func(r rune) bool {
		return r != '#' && r != ':' && r != '/' && r != '.' && r != ',' && r != ' ' &&
			(r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

// setColour sets a colour of the palette, or removes it if spec is empty.
func (s *State) setColour(i int, spec string) {
	switch {
	case s.palette == nil && spec == "":
		return
	case s.palette == nil:
		s.palette = &palette{colours: map[int]string{}}
	case s.palette.shared:
		s.palette = &palette{colours: maps.Clone(s.palette.colours)}
	}
	if spec == "" {
		delete(s.palette.colours, i)
	} else {
		s.palette.colours[i] = strings.Clone(spec)
	}
}

// PlainTitle returns a title as text: without controls and characters that
// change the direction of writing, at most 256 bytes.
func PlainTitle(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError:
			return -1
		case r == 0x200e, r == 0x200f, r == 0x61c, r >= 0x202a && r <= 0x202e, r >= 0x2066 &&
			r <= 0x2069:
			return -1
		}
		return r
	}, s)
	if len(s) > maxTitle {
		s = s[:maxTitle]
		s = s[:len(s)-incompleteRune([]byte(s))]
	}
	return strings.Clone(s)
}
