package pty

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

const (
	pasteBegin = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// Paste encodes text as a terminal sends a paste: in brackets if the program
// wants them, with CR at the ends of lines. Control characters except tab
// become visible symbols, so that nothing in the text can end the brackets,
// send a signal or press a key.
func Paste(text []byte, brackets bool) []byte {
	b := make([]byte, 0, len(text)+len(pasteBegin)+len(pasteEnd))
	if brackets {
		b = append(b, pasteBegin...)
	}
	b = appendHarmless(b, text)
	if brackets {
		b = append(b, pasteEnd...)
	}
	return b
}

// appendHarmless appends text without control characters to b.
func appendHarmless(b, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			b = utf8.AppendRune(b, utf8.RuneError)
		case r == '\r' && len(text) > 1 && text[1] == '\n':
			b = append(b, '\r')
			size = 2
		case r == '\n':
			b = append(b, '\r')
		case r == '\t', r == '\r':
			b = append(b, byte(r))
		case r < ' ':
			b = utf8.AppendRune(b, 0x2400+r)
		case r == 0x7f:
			b = utf8.AppendRune(b, 0x2421)
		case r >= 0x80 && r < 0xa0:
			b = utf8.AppendRune(b, utf8.RuneError)
		default:
			b = append(b, text[:size]...)
		}
		text = text[size:]
	}
	return b
}

// PasteFilter neutralizes pastes that terminals send in brackets among the keys. The beginning of a
// paste is certain, but its end is not, because the text may contain an end marker. The filter
// takes the last end marker in a piece of input as the end, and everything before it as text.
// Without an end marker, the paste continues in the next piece. Ctrl-C as a piece of its own is a
// key press and also ends the paste.
type PasteFilter struct {
	open bool
	tail []byte // an unfinished character or end marker of the open paste
}

// Filter returns the input for the program. It returns b itself if b contains no paste.
func (f *PasteFilter) Filter(b []byte) []byte {
	if !f.open && !bytes.Contains(b, []byte(pasteBegin)) {
		return b
	}
	var out []byte
	if f.open && len(b) == 1 && b[0] == 3 {
		out = appendHarmless(out, f.tail)
		f.open, f.tail = false, nil
		return append(append(out, pasteEnd...), b...)
	}
	if !f.open {
		i := bytes.Index(b, []byte(pasteBegin))
		out = append(out, b[:i+len(pasteBegin)]...)
		b = b[i+len(pasteBegin):]
		f.open = true
	} else {
		b = append(f.tail, b...)
	}
	f.tail = nil
	text, after, ended := b, b[:0], false
	if i := bytes.LastIndex(b, []byte(pasteEnd)); i >= 0 {
		text, after, ended = b[:i], b[i:], true
	} else if n := undecided(b); n > 0 {
		text, f.tail = b[:len(b)-n], bytes.Clone(b[len(b)-n:])
	}
	out = appendHarmless(out, text)
	if !ended {
		return out
	}
	f.open = false
	out = append(out, pasteEnd...)
	return append(out, f.Filter(after[len(pasteEnd):])...)
}

// undecided returns how many bytes at the end of an open paste need the next
// piece.
func undecided(b []byte) int {
	for n := min(len(pasteEnd)-1, len(b)); n > 0; n-- {
		if strings.HasPrefix(pasteEnd, string(b[len(b)-n:])) {
			return n
		}
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		return 1
	}
	return incompleteRune(b)
}
