// Package repl is a conversation with a kernel: on a terminal, with line editing and completion, or
// over a pipe.
package repl

// Options are the flags of repl.
type Options struct {
	Language string
	// Session is the one to use; empty for a new one, which is removed at the end unless Keep.
	Session string
	Keep    bool
	// Figures is the directory for images; empty to name them only.
	Figures string
}
