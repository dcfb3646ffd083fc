package agent

import "bytes"

// noNetwork explains an error of a cell. It is written to the cell's standard error.
const noNetwork = "This session has no network. A session that is created with network reaches " +
	"the hosts that its server allows (egress.allow).\n"

// maxNetworkText is the size from which output is not searched, in bytes. Errors come in smaller
// pieces, and a flood of output is not slowed down.
const maxNetworkText = 32 << 10

// networkErrors are what programs print when a name cannot be resolved, or nothing is reachable:
// glibc's programs, Python and PHP; Node and npm; curl, git and Composer; wget; Go; Java and Maven.
var networkErrors = [][]byte{
	[]byte("Temporary failure in name resolution"),
	[]byte("EAI_AGAIN"),
	[]byte("Could not resolve host"),
	[]byte("unable to resolve host"),
	[]byte("dial tcp: lookup "),
	[]byte("UnknownHostException"),
	[]byte("UnresolvedAddressException"),
	[]byte("etwork is unreachable"),
	[]byte("ENETUNREACH"),
}

// keptNetworkText is how much of a pipe's last text is searched again with the next, in bytes: curl
// writes its errors byte by byte.
const keptNetworkText = 64

// notePipeError is noteNetworkError for text of a pipe.
func (l *loop) notePipeError(i int, cell uint32, text []byte) {
	if !l.c.isKernel() || cell == l.offline {
		return
	}
	last := append(l.recent[i], text[:min(len(text), keptNetworkText)]...)
	l.noteNetworkError(cell, last)
	l.noteNetworkError(cell, text)
	if len(text) >= keptNetworkText {
		last = text
	}
	l.recent[i] = append(l.recent[i][:0], last[max(0, len(last)-keptNetworkText):]...)
}

// noteNetworkError remembers the cell whose output has an error of the network.
func (l *loop) noteNetworkError(cell uint32, text []byte) {
	if cell == 0 || cell == l.offline || len(text) > maxNetworkText || !l.c.isKernel() {
		return
	}
	for _, e := range networkErrors {
		if bytes.Contains(text, e) {
			l.offline = cell
			return
		}
	}
}

// explainNetworkError appends the explanation to the output of a cell that had such an error, once,
// if the session has no network.
func (l *loop) explainNetworkError(cell uint32) {
	if cell != l.offline || l.c.s.egress.isOpen() {
		return
	}
	l.notice(cell, noNetwork)
}
