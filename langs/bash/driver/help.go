package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol/message"
)

const (
	helpLimit  = 5 * time.Second
	maxMatches = 1000
	maxHelp    = 64 << 10 // bytes of an answer's text
)

// help answers a question from the state on disk, in a separate shell: it neither waits for a cell
// nor affects the session's shell.
func help(r *room, state string, first map[string]bool, q kernel.Request) message.Reply {
	ctx, cancel := context.WithTimeout(context.Background(), helpLimit)
	defer cancel()
	h := helper{ctx, r, state}
	reply := message.Reply{ID: q.ID}
	code := []rune(q.Code)
	cursor := min(max(q.Cursor, 0), len(code))
	switch q.Op {
	case "complete":
		reply.Matches, reply.Start = h.complete(code[:cursor])
		reply.End = cursor
	case "inspect":
		if text := h.inspect(wordAt(code, cursor), q.Detail); text != "" {
			raw, _ := json.Marshal(text)
			reply.Found, reply.Data = true, map[string]json.RawMessage{"text/plain": raw}
		}
	case "is_complete":
		reply.IsComplete = h.isComplete(q.Code)
		if reply.IsComplete == "incomplete" {
			reply.Indent = "  "
		}
	case "variables":
		reply.Variables = []message.Variable{}
		for _, v := range readState(state) {
			if !first[v.name] && !internal(v.name) {
				reply.Variables = append(reply.Variables, v.describe())
			}
		}
		if over := len(reply.Variables) - message.MaxVariables; over > 0 {
			reply.Variables = reply.Variables[over:]
		}
	}
	return reply
}

// helper runs scripts with the state.
type helper struct {
	ctx   context.Context
	room  *room
	state string
}

// run runs a script with the state sourced and arguments from $1 on.
func (h helper) run(script string, args ...string) string {
	load := "true"
	if h.state != "" {
		load = ". " + quote(h.state) + " >/dev/null 2>&1; builtin trap - EXIT ERR DEBUG; set +eux"
	}
	cmd := exec.CommandContext(h.ctx, "/bin/bash",
		append([]string{"--norc", "-O", "extglob", "-O", "expand_aliases", "-c", load + "\n" +
			script, "bash"}, args...)...)
	var out limited
	cmd.Stdout = &out
	_ = cmd.Run() // no output counts as the answer then
	return out.String()
}

// limited keeps only the beginning of the written data.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := 16*maxHelp - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// Patterns for words before the cursor.
var (
	variableWord = regexp.MustCompile(`\$\{?[!#]?(\w*)$`)
	plainWord    = regexp.MustCompile(`(?:[^\s;|&()<>"'` + "`" + `=]|\\.)*$`)
	// commandPlace matches text that may precede a command.
	commandPlace = regexp.MustCompile(`(?:^|[;|&({!` + "`" +
		`\n]|\b(?:then|do|else|elif|if|while|until|time|sudo|exec|command|builtin|type|help|which|man)\s)\s*$`)
)

// complete returns completions for the end of the code.
func (h helper) complete(code []rune) ([]message.Match, int) {
	text := string(code)
	if m := variableWord.FindStringSubmatchIndex(text); m != nil {
		return h.matches("compgen -v -- \"$1\"", "variable", text[m[2]:]), len([]rune(text[:m[2]]))
	}
	word := plainWord.FindString(text)
	before := strings.TrimSuffix(text, word)
	start := len([]rune(before))
	files := `compgen -f -- "$1" | while IFS= read -r f; do g=${f/#\~\//$HOME/}; [[ -d $g ]] && f+=/; printf '%q\n' "$f"; done`
	switch {
	case commandPlace.MatchString(before) && !strings.Contains(word, "/"):
		var all []message.Match
		for _, kind := range []struct{ flag, name string }{
			{"function", "function"},
			{"alias", "alias"},
			{"builtin", "builtin"},
			{"keyword", "keyword"},
			{"command", "command"},
		} {
			all = append(all, h.matches("compgen -A "+kind.flag+" -- \"$1\"", kind.name, word)...)
		}
		return unique(all), start
	case regexp.MustCompile(`\b(?:cd|pushd|rmdir)\s+$`).MatchString(before):
		return h.matches(`compgen -d -- "$1" | while IFS= read -r f; do printf '%q/\n' "$f"; done`,
			"path", word), start
	case regexp.MustCompile(`\b(?:unset|export|declare|readonly|local)\s+(?:\S+\s+)*$`).MatchString(
		before):
		return h.matches("compgen -v -- \"$1\"", "variable", word), start
	}
	return h.matches(files, "path", word), start
}

func (h helper) matches(script, kind, word string) []message.Match {
	var list []message.Match
	for _, line := range strings.Split(strings.TrimSuffix(h.run(script, word), "\n"), "\n") {
		if line != "" && !internal(line) {
			list = append(list, message.Match{Text: line, Type: kind})
		}
	}
	return unique(list)
}

// unique removes repeated texts, and keeps at most maxMatches.
func unique(list []message.Match) []message.Match {
	seen := map[string]bool{}
	list = slices.DeleteFunc(list, func(m message.Match) bool {
		twice := seen[m.Text]
		seen[m.Text] = true
		return twice
	})
	return list[:min(len(list), maxMatches)]
}

// internal reports whether a name belongs to the driver.
func internal(name string) bool { return strings.HasPrefix(name, "__sg_") }

// wordAt returns the word around the cursor.
func wordAt(code []rune, cursor int) string {
	part := func(r rune) bool { return !strings.ContainsRune(" \t\n;|&()<>\"'`=${}", r) }
	from, to := cursor, cursor
	for from > 0 && part(code[from-1]) {
		from--
	}
	for to < len(code) && part(code[to]) {
		to++
	}
	return string(code[from:to])
}

// inspect describes a name. With detail it asks a program of the system for its help.
func (h helper) inspect(word string, detail int) string {
	if word == "" || internal(word) {
		return ""
	}
	text := h.run(`
		kind=$(type -t -- "$1")
		case $kind in
		alias) alias -- "$1" ;;
		function) declare -f -- "$1" ;;
		builtin | keyword) help -- "$1" 2>/dev/null || type -- "$1" ;;
		file) type -a -- "$1" ;;
		esac
		declare -p -- "$1" 2>/dev/null
		if [[ $kind == file && $2 == 1 && $(type -P -- "$1") == /@(usr/|)bin/* ]]; then
			echo
			timeout 2 "$(type -P -- "$1")" --help 2>&1 </dev/null | head -n 200
		fi`, word, fmt.Sprint(detail))
	if slices.Contains([]string{"read", "mapfile", "readarray", "select", "trap"}, word) {
		text = h.run(`help -- "$1"`, word) // the driver has a function or an alias of that name
	}
	return clip(strings.TrimRight(text, "\n"))
}

// isComplete asks Bash's parser.
func (h helper) isComplete(code string) string {
	if strings.HasPrefix(code, "#!") {
		return "complete"
	}
	if regexp.MustCompile(`(?:^|[^\\])\\\n?$`).MatchString(code) {
		return "incomplete"
	}
	text, err := parse(h.ctx, code)
	switch {
	case h.ctx.Err() != nil:
		return "unknown"
	case strings.Contains(text, "unexpected end of file"), strings.Contains(text, "unexpected EOF"),
		strings.Contains(text, "here-document"):
		return "incomplete"
	case err != nil:
		return "invalid"
	}
	return "complete"
}

// parse makes Bash parse code without executing it, and returns the error messages.
func parse(ctx context.Context, code string) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/bash", "--norc", "-O", "extglob", "-n")
	cmd.Stdin = strings.NewReader(code + "\n")
	var said limited
	cmd.Stderr = &said
	err := cmd.Run()
	return said.String(), err
}

// variable is a line of the state: a variable or a function.
type variable struct{ name, flags, value string }

// declaration is a line of declare -p.
var declaration = regexp.MustCompile(`^declare -([-\w]+) (\w+)(?:=(.*))?$`)

// function is the first line of a function in declare -f.
var function = regexp.MustCompile(`^([^\s=]+) \(\) ?$`)

// readState lists the names in a state.
func readState(file string) []variable {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []variable
	for _, line := range strings.Split(string(data), "\n") {
		if m := function.FindStringSubmatch(line); m != nil {
			list = append(list, variable{m[1], "f", ""})
		} else if m := declaration.FindStringSubmatch(line); m != nil {
			list = append(list, variable{m[2], m[1], m[3]})
		}
	}
	return list
}

// describe returns the entry for the list of variables.
func (v variable) describe() message.Variable {
	out := message.Variable{Name: v.name, Type: "string", Value: v.value}
	switch {
	case v.flags == "f":
		out.Type, out.Value = "function", v.name+" ()"
	case strings.Contains(v.flags, "A"):
		out.Type, out.Size = "map", fmt.Sprint(strings.Count(v.value, "]="))
	case strings.Contains(v.flags, "a"):
		out.Type, out.Size = "array", fmt.Sprint(strings.Count(v.value, "]="))
	case strings.Contains(v.flags, "n"):
		out.Type = "reference"
	case strings.Contains(v.flags, "i"):
		out.Type = "integer"
	}
	if out.Type == "string" || out.Type == "integer" || out.Type == "reference" {
		if s, ok := strings.CutPrefix(out.Value, `"`); ok {
			out.Value = regexp.MustCompile("\\\\([\"$`\\\\])").ReplaceAllString(
				strings.TrimSuffix(s, `"`), "$1")
		}
	}
	if out.Type == "string" {
		out.Size = fmt.Sprint(len([]rune(out.Value)))
	}
	if r := []rune(out.Value); len(r) > message.MaxVariableValue {
		out.Value = string(r[:message.MaxVariableValue-1]) + "…"
	}
	return out
}
