package pty

import (
	"strconv"
	"strings"
)

// style is the state that CSI Pm m sets.
type style struct {
	// bit n is attribute n: 1 bold, 2 faint, 3 italic, 5 and 6 blink, 7 inverse, 8 hidden, 9 struck
	// out
	flags uint16
	line  uint8 // underline: 0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed
	over  bool
	fg    colour
	bg    colour
	ul    colour
}

// colour is a colour as SGR gives it. The zero value means the default colour.
type colour struct {
	kind    uint8 // 0 default, 1 one of 256, 2 RGB
	r, g, b uint8 // for one of 256, r is its number
}

// apply applies the parameters of CSI Pm m.
func (s *style) apply(params string) {
	if params == "" || params == "0" {
		*s = style{}
		return
	}
	all := strings.Split(params, ";")
	for i := 0; i < len(all); i++ {
		head, sub, colon := strings.Cut(all[i], ":")
		n := number(head)
		switch {
		case n == 0 && !colon:
			*s = style{}
		case n == 4 && colon:
			if k := number(sub); k >= 0 && k <= 5 {
				s.line = uint8(k)
			}
		case n == 4:
			s.line = 1
		case n == 21:
			s.line = 2
		case n == 24:
			s.line = 0
		case n >= 1 && n <= 9:
			s.flags |= 1 << n
		case n == 22:
			s.flags &^= 1<<1 | 1<<2
		case n == 25:
			s.flags &^= 1<<5 | 1<<6
		case n == 23, n == 27, n == 28, n == 29:
			s.flags &^= 1 << (n - 20)
		case n == 53, n == 55:
			s.over = n == 53
		case n >= 30 && n <= 37:
			s.fg = colour{kind: 1, r: uint8(n - 30)}
		case n >= 40 && n <= 47:
			s.bg = colour{kind: 1, r: uint8(n - 40)}
		case n >= 90 && n <= 97:
			s.fg = colour{kind: 1, r: uint8(n - 82)}
		case n >= 100 && n <= 107:
			s.bg = colour{kind: 1, r: uint8(n - 92)}
		case n == 39:
			s.fg = colour{}
		case n == 49:
			s.bg = colour{}
		case n == 59:
			s.ul = colour{}
		case n == 38, n == 48, n == 58:
			c, used, ok := parseColour(sub, colon, all[i+1:])
			i += used
			if ok {
				*map[int]*colour{38: &s.fg, 48: &s.bg, 58: &s.ul}[n] = c
			}
		}
	}
}

// parseColour parses the parameters after 38, 48 or 58, separated by colons or
// semicolons, and returns how many it used.
func parseColour(sub string, colon bool, next []string) (c colour, used int, ok bool) {
	args := next
	if colon {
		args = strings.Split(sub, ":")
	}
	if len(args) == 0 {
		return c, 0, false
	}
	count := map[string]int{"5": 2, "2": 4}[args[0]]
	if colon && args[0] == "2" && len(args) >= 5 { // with a colour space
		args, count = append([]string{"2"}, args[2:]...), 4
	}
	if count == 0 || len(args) < count {
		return c, min(1, len(next)), false
	}
	if !colon {
		used = count
	}
	var v [3]uint8
	for i, a := range args[1:count] {
		n := number(a)
		if n < 0 || n > 255 {
			return c, used, false
		}
		v[i] = uint8(n)
	}
	if count == 2 {
		return colour{kind: 1, r: v[0]}, used, true
	}
	return colour{kind: 2, r: v[0], g: v[1], b: v[2]}, used, true
}

// append appends the sequence that sets the style, independent of the style before.
func (s style) append(b []byte) []byte {
	b = append(b, "\x1b[0"...)
	for n := range 10 {
		if s.flags&(1<<n) != 0 {
			b = strconv.AppendInt(append(b, ';'), int64(n), 10)
		}
	}
	switch s.line {
	case 0:
	case 1:
		b = append(b, ";4"...)
	default:
		b = append(b, ";4:"+strconv.Itoa(int(s.line))...)
	}
	if s.over {
		b = append(b, ";53"...)
	}
	for _, c := range []struct {
		base string
		colour
	}{{"38", s.fg}, {"48", s.bg}, {"58", s.ul}} {
		switch c.kind {
		case 1:
			b = append(b, ";"+c.base+";5;"+strconv.Itoa(int(c.r))...)
		case 2:
			b = append(b, ";"+c.base+";2;"+strconv.Itoa(int(c.r))+";"+strconv.Itoa(int(c.g))+";"+
				strconv.Itoa(int(c.b))...)
		}
	}
	return append(b, 'm')
}
