package pty

import "unicode/utf8"

// maxSequence is how many bytes of one sequence the parser keeps. No sequence
// that sets a mode or is a query is longer.
const maxSequence = 4 << 10

// kind is the kind of a piece.
type kind uint8

const (
	plain  kind = iota // text, and controls of one byte
	escape             // ESC, intermediates, a final byte
	csi                // ESC [ or U+009B, parameters, intermediates, a final byte
	osc                // ESC ] or U+009D and a string; its terminator is the next piece
	dcs                // ESC P or U+0090 and a string
	apc                // ESC X, ESC ^ or ESC _ and a string
	part               // a piece of a sequence over maxSequence bytes
	broken             // a sequence that was cancelled
)

// parser cuts a stream as a terminal does (Paul Williams' state machine, over UTF-8) and passes
// each piece to emit. The pieces together are the stream. It keeps at most maxSequence bytes.
//
// BEL is the last byte of the string that it ends. ESC or a C1 control, U+0080 to U+009F, ends a
// string and begins the next piece.
type parser struct {
	emit func(k kind, b []byte)

	in    kind // kind of the sequence in buf; plain means no sequence
	begun bool // a lone ESC has been read, and in is escape
	buf   []byte
	over  bool // the sequence is over maxSequence bytes, and buf empty
	c2    bool // the byte C2 was read, which may begin a C1 control
	tail  []byte
}

const (
	esc = 0x1b
	bel = 0x07
	can = 0x18
	sub = 0x1a
	enq = 0x05
	so  = 0x0e
	si  = 0x0f
)

// write parses b.
func (p *parser) write(b []byte) {
	for i := 0; i < len(b); {
		if p.c2 {
			p.c2 = false
			if c := b[i]; c >= 0x80 && c <= 0x9f {
				p.c1(c)
				i++
				continue
			}
			p.character([]byte{0xc2})
			continue
		}
		if p.in == plain {
			n := i
			for n < len(b) && b[n] != esc && b[n] != 0xc2 {
				n++
			}
			if n > i {
				p.text(b[i:n])
			}
			i = n
			if i < len(b) {
				p.start(b[i])
				i++
			}
			continue
		}
		if p.in >= osc {
			n := i
			for n < len(b) && b[n] != esc && b[n] != 0xc2 && b[n] != bel && b[n] != can &&
				b[n] != sub {
				n++
			}
			p.add(b[i:n])
			if i = n; i == len(b) {
				return
			}
			switch c := b[i]; {
			case c == bel && p.in == osc:
				p.add(b[i : i+1])
				p.endSequence(p.in)
			case c == can, c == sub:
				p.add(b[i : i+1])
				p.endSequence(broken)
			case c == bel:
				p.add(b[i : i+1])
			default:
				p.start(c)
			}
			i++
			continue
		}
		p.step(b[i])
		i++
	}
}

// start processes a byte that may begin a sequence and end the previous one: ESC or C2.
func (p *parser) start(c byte) {
	if c == 0xc2 {
		p.c2 = true
		return
	}
	p.finish()
	p.in, p.begun = escape, true
	p.addByte(c)
}

// finish ends a sequence at ESC or a C1 control: a string is complete, any
// other sequence is cancelled.
func (p *parser) finish() {
	if p.in >= osc {
		p.endSequence(p.in)
	} else if p.in != plain {
		p.endSequence(broken)
	}
}

// c1 processes a control from U+0080 to U+009F, which is short for ESC and a byte.
func (p *parser) c1(c byte) {
	p.finish()
	p.in = escape
	p.add([]byte{0xc2, c})
	p.opened(c - 0x40)
}

// opened selects the kind of sequence that ESC and c begin.
func (p *parser) opened(c byte) {
	switch p.begun = false; {
	case c == '[':
		p.in = csi
	case c == ']':
		p.in = osc
	case c == 'P':
		p.in = dcs
	case c == 'X', c == '^', c == '_':
		p.in = apc
	case c >= 0x30 && c <= 0x7e:
		p.endSequence(escape)
	}
}

// character processes bytes that are not a control.
func (p *parser) character(b []byte) {
	switch {
	case p.in == plain:
		p.text(b)
	case p.in >= osc:
		p.add(b)
	default:
		p.endSequence(broken)
		p.text(b)
	}
}

// step processes a byte of an escape sequence or a CSI.
func (p *parser) step(c byte) {
	switch {
	case c == esc, c == 0xc2:
		p.start(c)
	case c == can, c == sub:
		p.addByte(c)
		p.endSequence(broken)
	case c >= 0x80:
		p.character([]byte{c})
	case c < 0x20, c == 0x7f:
		p.addByte(c) // the terminal executes the control, and the sequence continues
	case p.in == csi:
		p.addByte(c)
		if c >= 0x40 {
			p.endSequence(csi)
		}
	case c < 0x30:
		p.begun = false
		p.addByte(c)
	case p.begun:
		p.addByte(c)
		p.opened(c)
	default:
		p.addByte(c)
		p.endSequence(escape)
	}
}

// addByte is add for one byte.
func (p *parser) addByte(c byte) {
	if p.over || len(p.buf) == maxSequence {
		p.add([]byte{c})
		return
	}
	p.buf = append(p.buf, c)
}

// add keeps bytes of a sequence, or passes them to emit if the sequence is too long.
func (p *parser) add(b []byte) {
	if len(b) == 0 {
		return
	}
	if p.over {
		p.emit(part, b)
		return
	}
	if len(p.buf)+len(b) > maxSequence {
		p.over = true
		if len(p.buf) > 0 {
			p.emit(part, p.buf)
		}
		p.buf = p.buf[:0]
		p.emit(part, b)
		return
	}
	p.buf = append(p.buf, b...)
}

// endSequence passes the sequence to emit.
func (p *parser) endSequence(k kind) {
	b, over := p.buf, p.over
	p.in, p.begun, p.over, p.buf = plain, false, false, p.buf[:0]
	p.tail = p.tail[:0]
	if !over {
		p.emit(k, b)
	}
}

// text passes text to emit and keeps an incomplete character.
func (p *parser) text(b []byte) {
	if len(b) >= utf8.UTFMax {
		p.tail = append(p.tail[:0], b[len(b)-utf8.UTFMax:]...)
	} else {
		p.tail = append(p.tail, b...)
	}
	n := incompleteRune(p.tail)
	p.tail = append(p.tail[:0], p.tail[len(p.tail)-n:]...)
	p.emit(plain, b)
}

// incompleteRune returns how many bytes at the end of b begin an incomplete
// character: 0 to 3.
func incompleteRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// maxPartial is how many bytes of an unfinished sequence a State keeps.
const maxPartial = 512

// partial returns bytes that bring another parser into the same state: those of
// the unfinished sequence or character. For one that is too long it returns the
// beginning of a similar sequence without effect.
func (p *parser) partial() []byte {
	var b []byte
	switch {
	case p.in == plain:
		b = append(b, p.tail...)
	case !p.over && len(p.buf) <= maxPartial:
		b = append(b, p.buf...)
	case p.in == csi || p.in == escape:
		b = append(b, "\x1b[0<"...)
	case p.in == osc:
		b = append(b, "\x1b]88888;"...)
	default:
		b = append(b, "\x1b^"...)
	}
	if p.c2 {
		b = append(b, 0xc2)
	}
	return b
}
