package warm

import (
	"strings"
	"sync"
)

// buildLog keeps the last maxBuildLog bytes of a build's output.
type buildLog struct {
	mu   sync.Mutex // guards all below
	text []byte
	from int // the mark: the position in text at which the current command begins
}

func (l *buildLog) write(p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if over := len(l.text) - maxBuildLog; over > 0 {
		l.text = append(l.text[:0], l.text[over:]...)
		l.from = max(0, l.from-over)
	}
}

// mark begins the output of a command.
func (l *buildLog) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from = len(l.text)
}

// sinceMark returns the output of the current command.
func (l *buildLog) sinceMark() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(string(l.text[l.from:]), "\uFFFD")
}

// String returns all output that is kept.
func (l *buildLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.ToValidUTF8(string(l.text), "\uFFFD")
}
