package repl

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// history holds the lines that were typed, newest first, and stores them in a file.
type history struct {
	path  string
	mu    sync.Mutex // guards lines
	lines []string
}

func loadHistory(path string) *history {
	h := &history{path: path}
	b, err := os.ReadFile(path)
	if err != nil {
		return h // no history yet, or it cannot be read: the console works without it
	}
	for line := range strings.Lines(string(b)) {
		h.Add(strings.TrimSuffix(line, "\n"))
	}
	return h
}

// Add implements term.History.
func (h *history) Add(line string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if strings.TrimSpace(line) == "" || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return
	}
	h.lines = append(h.lines, line)
	if len(h.lines) > historyLines {
		h.lines = h.lines[len(h.lines)-historyLines:]
	}
}

// Len implements term.History.
func (h *history) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.lines)
}

// At implements term.History; 0 is the newest.
func (h *history) At(i int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lines[len(h.lines)-1-i]
}

func (h *history) save() {
	h.mu.Lock()
	text := strings.Join(h.lines, "\n") + "\n"
	h.mu.Unlock()
	if os.MkdirAll(filepath.Dir(h.path), 0o700) == nil {
		_ = os.WriteFile(h.path, []byte(text), 0o600)
	}
}
