package pty

import (
	"bytes"
	"strconv"
	"strings"
)

// QueryFilter removes queries from old output: sequences to which a terminal replies with its
// state, colours, size or name. They were answered long ago, and a new reply would become input of
// the program that runs now. Everything else passes unchanged. A sequence passes once it is
// complete.
type QueryFilter struct {
	parser   parser
	out      []byte
	drop     bool // the parts of the present sequence are dropped
	whole    bool // the last piece was not a part
	open     bool // the output ends in a string that only the next piece ends
	deferred [3]bool
}

// reporting are the modes for which a terminal sends a report as soon as they
// are set.
func reporting() [3]int { return [3]int{1004, 2031, 2048} }

// NewQueryFilter returns a filter for the beginning of a stream.
func NewQueryFilter() *QueryFilter {
	q := &QueryFilter{whole: true}
	q.parser.emit = q.emit
	return q
}

// Append appends the part of b that passes to dst.
func (q *QueryFilter) Append(dst, b []byte) []byte {
	q.out = dst
	q.parser.write(b)
	dst, q.out = q.out, nil
	return dst
}

// End appends everything that the filter has held back, at the end of the old output: the reporting
// modes that the program has set, and an unfinished sequence.
func (q *QueryFilter) End(dst []byte) []byte {
	for i, on := range q.deferred {
		if on {
			dst = append(dst, "\x1b[?"+strconv.Itoa(reporting()[i])+"h"...)
		}
	}
	if q.parser.in != plain && !q.parser.over {
		dst = append(dst, q.parser.buf...)
	}
	if q.parser.c2 {
		dst = append(dst, 0xc2)
	}
	return dst
}

func (q *QueryFilter) emit(k kind, b []byte) {
	if k == part {
		if q.whole {
			q.drop = q.maybeQuery(b)
		}
		q.whole = false
		if q.drop {
			q.dropPiece()
		} else {
			q.out, q.open = append(q.out, b...), true
		}
		return
	}
	q.whole = true
	switch {
	case k == plain:
		for {
			i := bytes.IndexByte(b, enq)
			if i < 0 {
				break
			}
			q.open = i > 0 && b[i-1] >= 0x80 || i == 0 && q.open
			q.out = append(q.out, b[:i]...)
			q.dropPiece()
			b = b[i+1:]
		}
		if len(b) == 0 {
			return
		}
	case isQuery(k, b):
		q.dropPiece()
		return
	case k == csi:
		if b = q.deferModes(b); len(b) == 0 {
			q.dropPiece()
		}
	case k == escape && string(b) == "\x1bc":
		q.deferred = [3]bool{}
	}
	q.out = append(q.out, b...)
	if n := len(b); n > 0 {
		q.open = k >= osc && b[n-1] != bel || k == broken && b[n-1] != can && b[n-1] != sub ||
			k == plain && b[n-1] >= 0x80
	}
}

// dropPiece is called for a piece that is removed. It ends a string that the
// removed piece would have ended.
func (q *QueryFilter) dropPiece() {
	if q.open {
		q.out, q.open = append(q.out, "\x1b\\"...), false
	}
}

// maybeQuery reports whether a sequence that is too long to be kept may be a
// query.
func (q *QueryFilter) maybeQuery(begin []byte) bool {
	switch k := q.parser.in; k {
	case osc:
		head, _, _ := strings.Cut(content(begin), ";")
		return number(head) != 52 && isOSCQuery(head+";?")
	case dcs, apc:
		return isQuery(k, begin)
	}
	return true
}

// deferModes removes the reporting modes from a CSI ? Pm h and keeps them for
// End.
func (q *QueryFilter) deferModes(b []byte) []byte {
	s := parseCSI(b)
	on := s.is('?', "", 'h')
	if !on && !s.is('?', "", 'l') {
		return b
	}
	var left []string
	for p := range strings.SplitSeq(s.params, ";") {
		late := false
		for i, n := range reporting() {
			if number(p) == n {
				q.deferred[i], late = on, on
			}
		}
		if !late {
			left = append(left, p)
		}
	}
	if len(left) == strings.Count(s.params, ";")+1 {
		return b
	}
	if len(left) == 0 {
		return nil
	}
	return []byte("\x1b[?" + strings.Join(left, ";") + "h")
}

// isQuery reports whether a terminal replies to the piece.
func isQuery(k kind, b []byte) bool {
	switch k {
	case escape:
		return string(b) == "\x1bZ" || string(b) == "\xc2\x9a"
	case csi:
		return parseCSI(b).isQuery()
	case osc:
		return isOSCQuery(content(b))
	case dcs:
		t := strings.TrimLeft(content(b), "0123456789;")
		return strings.HasPrefix(t, "$q") || strings.HasPrefix(t, "+q") ||
			strings.HasPrefix(t, "+Q")
	case apc: // images of the kitty protocol are acknowledged
		return bytes.HasPrefix(b, []byte("\x1b_G")) || bytes.HasPrefix(b, []byte("\xc2\x9fG"))
	}
	return false
}

func (s sequence) isQuery() bool {
	switch s.inter + string(s.final) {
	case "c":
		return s.prefix != '?' // otherwise it is a reply
	case "n":
		return s.prefix == 0 || s.prefix == '?'
	case "x":
		return s.prefix == 0
	case "q":
		return s.prefix == '>'
	case "u":
		return s.prefix == '?'
	case "S":
		return s.prefix == '?'
	case "t":
		switch s.first() {
		case 11, 13, 14, 15, 16, 18, 19, 20, 21:
			return s.prefix == 0
		}
	case "$p", "$w", "$u", "*y", "\"v", "&u", "'|", "#|", "*x":
		return s.inter != "*" || s.final == 'y'
	}
	return false
}

func isOSCQuery(text string) bool {
	head, rest, _ := strings.Cut(text, ";")
	switch n := number(head); {
	case head == "":
	case n == 4, n == 5, n >= 10 && n <= 19, n == 21, n == 22, n == 52, n == 60, n == 61, n == 99,
		n == 5522:
		return strings.Contains(rest, "?")
	case n == 1337:
		return strings.HasPrefix(rest, "Report") || strings.HasPrefix(rest, "Request")
	}
	return false
}

// StripReplies returns input without a terminal's replies to queries and its
// reports of focus. Keys, mouse events and text remain. It looks only at whole
// sequences in b, and returns b itself if there is nothing to remove.
func StripReplies(b []byte) []byte {
	if bytes.IndexByte(b, esc) < 0 {
		return b
	}
	var kept []byte
	dropped, ended := false, false // ended: the terminator of a dropped string may follow
	p := parser{}
	p.emit = func(k kind, piece []byte) {
		drop := k == dcs || k == osc || k == apc || k == part || k == csi &&
			parseCSI(piece).isReply() || ended && k == escape && string(piece) == "\x1b\\"
		ended = drop && k >= osc
		if drop {
			dropped = true
		} else {
			kept = append(kept, piece...)
		}
	}
	p.write(b)
	if p.in != plain && !p.over {
		kept = append(kept, p.buf...)
	}
	if p.c2 {
		kept = append(kept, 0xc2)
	}
	if !dropped {
		return b
	}
	return kept
}

// isReply reports whether only a terminal sends the sequence, and no key does.
func (s sequence) isReply() bool {
	switch s.inter + string(s.final) {
	case "c", "u", "S":
		return s.prefix != 0
	case "n", "t", "x":
		return true
	case "$y", "*y", "$u", "&w":
		return true
	case "R":
		return s.prefix == '?' || strings.Count(s.params, ";") == 1
	case "I", "O":
		return s.params == ""
	}
	return false
}
