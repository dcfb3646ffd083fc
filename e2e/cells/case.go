// Package cells reads the conformance cells of a language,
// langs/<language>/cells/*.yaml, and runs them in a kernel through the public
// protocol. README.md describes the files.
package cells

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Case is one test. The cases of a file share a kernel and run in order.
type Case struct {
	Name   string   `yaml:"case"`
	Proves []string `yaml:"proves"`
	Fresh  bool     `yaml:"fresh"`
	Steps  []Step   `yaml:"steps"`
	// At is the file and line, for messages.
	At string `yaml:"-"`
}

// Step is one action, which the first group of fields names, and the expected results.
type Step struct {
	File       *File               `yaml:"file"`
	Run        *Text               `yaml:"run"`
	Complete   *Text               `yaml:"complete"`
	Inspect    *Text               `yaml:"inspect"`
	IsComplete *Text               `yaml:"is_complete"`
	Question   *Text               `yaml:"question"`
	Variables  map[string]Variable `yaml:"variables"`
	Restart    bool                `yaml:"restart"`
	Program    *Program            `yaml:"program"`

	// Fields of run.
	Repeat      int                  `yaml:"repeat"`
	Status      string               `yaml:"status"`
	Stdout      *Text                `yaml:"stdout"`
	StdoutLike  *Pattern             `yaml:"stdout~"`
	StdoutBytes int                  `yaml:"stdout_bytes"`
	StdoutHash  string               `yaml:"stdout_sha256"`
	Stderr      *Text                `yaml:"stderr"`
	StderrLike  *Pattern             `yaml:"stderr~"`
	Result      *Text                `yaml:"result"`
	ResultLike  *Pattern             `yaml:"result~"`
	Data        map[string]Pattern   `yaml:"data"`
	Display     []map[string]Pattern `yaml:"display"`
	Update      []map[string]Pattern `yaml:"update"`
	Error       *Error               `yaml:"error"`
	ExitCode    *int                 `yaml:"exit_code"`
	Event       *Event               `yaml:"event"`
	Order       []Text               `yaml:"order"`
	Input       []Input              `yaml:"input"`
	NoInput     bool                 `yaml:"no_input"`
	Whole       bool                 `yaml:"whole"`
	When        *When                `yaml:"when"`
	Later       *Later               `yaml:"later"`
	// Fields of complete. Without is a field of variables, too.
	Matches []Text `yaml:"matches"`
	Without []Text `yaml:"without"`
	// Field of inspect.
	Found *bool    `yaml:"found"`
	Text  *Pattern `yaml:"text"`
	// Fields of question. Before and After are the other cells of the notebook.
	Kind   string   `yaml:"kind"`
	Before []Text   `yaml:"before"`
	After  []Text   `yaml:"after"`
	New    string   `yaml:"new"`
	Answer *Pattern `yaml:"answer"`
	// Field of is_complete.
	Gives string `yaml:"gives"`

	line int
	does string // the key of the first group
}

// verbs returns the keys that name an action, and for each action the keys that it
// allows.
func verbs() map[string][]string {
	return map[string][]string{
		"file": nil, "restart": nil, "program": nil,
		"run": {
			"repeat", "status", "stdout", "stdout~", "stdout_bytes", "stdout_sha256",
			"stderr", "stderr~", "result", "result~", "data", "display", "update",
			"error", "exit_code", "event", "order", "input", "no_input", "whole", "when", "later",
		},
		"complete": {"matches", "without"}, "inspect": {"found", "text"}, "is_complete": {"gives"},
		"variables": {"without"},
		"question":  {"kind", "before", "after", "new", "answer", "error"},
	}
}

// File is a file in the user's home.
type File struct {
	Path    string `yaml:"path"`
	Content Text   `yaml:"content"`
}

// Program is a file that is run like `sandgate run`.
type Program struct {
	File    string   `yaml:"file"`
	Content Text     `yaml:"content"`
	Args    []Text   `yaml:"args"`
	Stdin   Text     `yaml:"stdin"`
	Stdout  *Pattern `yaml:"stdout"`
	Stderr  *Pattern `yaml:"stderr"`
	Exit    int      `yaml:"exit"`
}

// Variable describes a listed variable. Its patterns match the whole text.
type Variable struct {
	Type  *Pattern `yaml:"type"`
	Value *Pattern `yaml:"value"`
	Size  *Pattern `yaml:"size"`
}

// Error describes the error message of a cell.
type Error struct {
	Name      Text     `yaml:"name"`
	Value     *Pattern `yaml:"value"`
	Traceback *Pattern `yaml:"traceback"`
	Without   *Pattern `yaml:"without"`
}

// Event is a kernel_event message, or an event record of the channel.
type Event struct {
	Event   string   `yaml:"event"`
	Message *Pattern `yaml:"message"`
	// May marks an event that may be missing.
	May bool `yaml:"may"`
}

// Input answers an input_request. With Do: interrupt it interrupts the cell instead.
type Input struct {
	Prompt   *Text  `yaml:"prompt"`
	Password bool   `yaml:"password"`
	Value    Text   `yaml:"value"`
	EOF      bool   `yaml:"eof"`
	Do       string `yaml:"do"`
}

// When is an action that happens once, when a stream matches.
type When struct {
	Stdout *Pattern `yaml:"stdout"`
	Stderr *Pattern `yaml:"stderr"`
	// Do is interrupt, insist (an interrupt every half second), or nothing.
	Do string `yaml:"do"`
	// GraceMS is the grace of the interrupt.
	GraceMS int64 `yaml:"grace_ms"`
}

// Later is output with the cell's number after its reply.
type Later struct {
	Stdout *Pattern `yaml:"stdout"`
	Stderr *Pattern `yaml:"stderr"`
}

// Text is a scalar as it is written in the file, independent of its type in YAML: True
// stays True and 0x10 stays 0x10. !!binary is decoded.
type Text string

// UnmarshalYAML implements yaml.Unmarshaler.
func (t *Text) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: this must be text", n.Line)
	}
	if n.Tag == "!!binary" {
		b, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		*t = Text(b)
		return nil
	}
	*t = Text(n.Value)
	return nil
}

// Pattern is a regular expression.
type Pattern struct{ *regexp.Regexp }

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *Pattern) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode {
		return fmt.Errorf("line %d: this must be a regular expression", n.Line)
	}
	re, err := regexp.Compile(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %w", n.Line, err)
	}
	p.Regexp = re
	return nil
}

// whole reports whether the pattern matches all of s.
func (p Pattern) whole(s string) bool {
	// p is a valid expression
	return regexp.MustCompile(`\A(?:` + p.String() + `)\z`).MatchString(s)
}

// Parse reads a file of cases. An unknown key is an error.
func Parse(name string, data []byte) ([]Case, error) {
	bad := func(line int, format string, args ...any) error {
		return fmt.Errorf("%s:%d: %s", name, line, fmt.Sprintf(format, args...))
	}
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(root.Content) != 1 || root.Content[0].Kind != yaml.SequenceNode {
		return nil, bad(1, "a file of cells is a list of cases")
	}
	if n := findNull(&root); n != nil {
		return nil, bad(n.Line, "null means nothing here: quote it if it is meant as text")
	}
	var list []Case
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return nil, bad(1, "a second document follows")
	}
	for i := range list {
		c, node := &list[i], root.Content[0].Content[i]
		c.At = fmt.Sprintf("%s:%d", name, node.Line)
		if c.Name == "" || strings.Contains(c.Name, "/") {
			return nil, bad(node.Line, "a case needs a name without slashes")
		}
		for _, k := range c.Proves {
			if !isKey(k) {
				return nil, bad(node.Line, "%q is no key that a case can prove", k)
			}
		}
		steps := value(node, "steps")
		if steps == nil || len(c.Steps) == 0 {
			return nil, bad(node.Line, "case %q has no steps", c.Name)
		}
		for j := range c.Steps {
			s, node := &c.Steps[j], steps.Content[j]
			s.line = node.Line
			if err := s.check(node); err != nil {
				return nil, bad(node.Line, "%s", err)
			}
		}
	}
	return list, nil
}

// value returns the value of a mapping's key, or nil.
func value(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// findNull finds a scalar that YAML reads as null.
func findNull(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return n
	}
	for _, child := range n.Content {
		if found := findNull(child); found != nil {
			return found
		}
	}
	return nil
}

// check finds the action of the step and checks which keys it has.
func (s *Step) check(node *yaml.Node) error {
	all := verbs()
	var rest []string
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i].Value
		if _, ok := all[key]; !ok {
			rest = append(rest, key)
			continue
		}
		if s.does != "" {
			return fmt.Errorf("a step does one thing, not %s and %s", s.does, key)
		}
		s.does = key
	}
	if s.does == "" {
		return fmt.Errorf("a step needs one of %s", strings.Join(slices.Sorted(maps.Keys(all)),
			", "))
	}
	for _, key := range rest {
		if !slices.Contains(all[s.does], key) {
			return fmt.Errorf("%s does not go with %s", key, s.does)
		}
	}
	oneOf := func(what, is string, may ...string) error {
		if is != "" && !slices.Contains(may, is) {
			return fmt.Errorf("%s is %q, want one of %s", what, is, strings.Join(may, ", "))
		}
		return nil
	}
	err := errors.Join(
		oneOf("status", s.Status, "ok", "error", "aborted"),
		oneOf("gives", s.Gives, "complete", "incomplete", "invalid", "unknown"),
	)
	switch {
	case s.does == "file" && s.File.Path == "":
		err = errors.New("a file needs a path")
	case s.does == "program" && s.Program.File == "":
		err = errors.New("a program needs a file")
	case s.does == "restart" && !s.Restart:
		err = errors.New("restart must be true or missing")
	case s.does == "is_complete" && s.Gives == "":
		err = errors.New("is_complete needs gives")
	case s.does == "question" && (s.Kind == "" || (s.Answer == nil) == (s.Error == nil)):
		err = errors.New("a question needs a kind, and an answer or an error")
	case slices.Contains([]string{"complete", "inspect", "question"}, s.does) &&
		strings.Count(s.code(), "|") == 0:
		err = errors.New("the code needs a | where the cursor is")
	case s.Stdout != nil && s.StdoutLike != nil, s.Stderr != nil && s.StderrLike != nil,
		s.Result != nil && s.ResultLike != nil:
		err = errors.New("give the text or the pattern, not both")
	case s.When != nil && s.When.Stdout == nil && s.When.Stderr == nil:
		err = errors.New("when needs stdout or stderr")
	case s.When != nil:
		err = errors.Join(err, oneOf("do", s.When.Do, "interrupt", "insist", "nothing"))
	case s.Repeat < 0:
		err = errors.New("repeat must be above 0")
	}
	for _, in := range s.Input {
		err = errors.Join(err, oneOf("do", in.Do, "interrupt", "nothing"))
	}
	return err
}

// code returns the code of the step.
func (s *Step) code() string {
	for _, t := range []*Text{s.Run, s.Complete, s.Inspect, s.IsComplete, s.Question} {
		if t != nil {
			return string(*t)
		}
	}
	return ""
}

// cursor returns the code without the mark of the cursor, and the position of the mark in
// code points. The last | is the mark, so that the code may have others.
func (s *Step) cursor() (string, int) {
	code := s.code()
	i := strings.LastIndexByte(code, '|')
	return code[:i] + code[i+1:], len([]rune(code[:i]))
}
