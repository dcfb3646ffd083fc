package pty

import "strings"

// sequence is a parsed control sequence.
type sequence struct {
	prefix byte   // one of < = > ?, or 0
	params string // digits, semicolons and colons
	inter  string // intermediates
	final  byte
}

// parseCSI parses a complete CSI. It leaves out controls within it, which the terminal has already
// executed.
func parseCSI(b []byte) sequence {
	s := sequence{final: b[len(b)-1]}
	b = b[2 : len(b)-1] // ESC [ and U+009B both have two bytes
	if len(b) > 0 && b[0] >= '<' && b[0] <= '?' {
		s.prefix, b = b[0], b[1:]
	}
	n := 0
	for n < len(b) && b[n] >= 0x30 && b[n] <= 0x3f {
		n++
	}
	if n == len(b) { // the usual case
		s.params = string(b)
		return s
	}
	var params, inter []byte
	for _, c := range b {
		switch {
		case c >= 0x30 && c <= 0x3f:
			params = append(params, c)
		case c >= 0x20 && c <= 0x2f:
			inter = append(inter, c)
		}
	}
	s.params, s.inter = string(params), string(inter)
	return s
}

// is reports whether the sequence has this prefix, intermediates and final.
func (s sequence) is(prefix byte, inter string, final byte) bool {
	return s.prefix == prefix && s.inter == inter && s.final == final
}

// first returns the first parameter; 0 if there is none, -1 if it is not a
// number.
func (s sequence) first() int {
	head, _, _ := strings.Cut(s.params, ";")
	return number(head)
}

// content returns the string of an OSC or DCS.
func content(b []byte) string {
	b = b[2:]
	if n := len(b); n > 0 && b[n-1] == bel {
		b = b[:n-1]
	}
	return string(b)
}
