package rawterminal

// escapes finds ssh's escapes among keys: ~. and ~? at the beginning of a line.
type escapes struct {
	inLine bool // something was typed since the last Enter
	tilde  bool // a ~ at the beginning of a line waits for the next key
}

// escaped is the request of an escape.
type escaped int

const (
	nothing escaped = iota
	detach
	help
)

const escapeHelp = "\r\nAt the beginning of a line:\r\n  ~.  detach; the program goes on\r\n  ~~  a ~\r\n  ~?  this help\r\n"

// feed returns the keys for the program. Keys after a ~. are dropped.
func (e *escapes) feed(b []byte) (keys []byte, what escaped) {
	for _, c := range b {
		if e.tilde {
			e.tilde = false
			switch c {
			case '.':
				return keys, detach
			case '?':
				what = help
				continue
			case '~':
			default:
				keys = append(keys, '~')
			}
		} else if c == '~' && !e.inLine {
			e.tilde = true
			continue
		}
		keys = append(keys, c)
		e.inLine = c != '\r' && c != '\n'
	}
	return keys, what
}
