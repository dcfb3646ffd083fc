package openterminal

import (
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/internal/kernelclient"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

const (
	normalMatches = 50
	maxMatches    = 500
	maxLine       = 1000    // bytes of a line that was found
	maxGrep       = 1 << 20 // bytes of output of a search
	searchTime    = 60_000  // ms
	maxListed     = 20_000  // entries that a search by name compares
	maxPattern    = 4 << 10 // bytes
)

// match is a line that was found.
type match struct {
	File    string  `json:"file"`
	Line    int     `json:"line,omitempty"`
	Content *string `json:"content,omitempty"`
}

// grep searches the lines of texts.
func grep(w http.ResponseWriter, r *http.Request, c *call) error {
	const op = "openterminal.grep"
	text, target, most, err := c.search(r, "query")
	if err != nil {
		return err
	}
	argv, perLine, err := grepCommand(r, text, target)
	if err != nil {
		return err
	}
	if _, err := c.stat(r, target); err != nil {
		return err
	}
	stdout, stderr, code, err := c.output(r, argv)
	if err != nil {
		return err
	}
	if code > 1 && stdout == "" {
		return fault.Invalid(op, "query", "%s", kernelclient.Clip(strings.TrimSpace(stderr), maxLine))
	}
	matches := []match{}
	truncated := false
	for line := range strings.SplitSeq(strings.TrimSuffix(stdout, "\n"), "\n") {
		file, rest, ok := strings.Cut(line, "\x00")
		if !ok {
			continue // a part that was cut
		}
		if len(matches) == most {
			truncated = true
			break
		}
		m := match{File: file}
		if perLine {
			number, content, _ := strings.Cut(rest, ":")
			content = kernelclient.Clip(content, maxLine)
			m.Line, _ = strconv.Atoi(number)
			m.Content = &content
		}
		matches = append(matches, m)
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"query": text, "path": target, "matches": matches, "truncated": truncated,
	})
}

// search returns the parameters that both searches have.
func (c *call) search(r *http.Request, field string) (text, target string, most int, err error) {
	const op = "openterminal.search"
	text = r.URL.Query().Get(field)
	if text == "" || len(text) > maxPattern {
		return "", "", 0, fault.Invalid(op, field, "%s has 1 to %d bytes", field, maxPattern)
	}
	at := query(r, "path")
	if at == "" {
		at = "."
	}
	if target, err = c.path("path", at); err != nil {
		return "", "", 0, err
	}
	most, err = number(r, "max_results", normalMatches, maxMatches)
	return text, target, most, err
}

// grepCommand returns the command of a search.
func grepCommand(r *http.Request, text, target string) (argv []string, perLine bool, err error) {
	regex, err := flag(r, "regex", true)
	if err != nil {
		return nil, false, err
	}
	anyCase, err := flag(r, "case_insensitive", false)
	if err != nil {
		return nil, false, err
	}
	if perLine, err = flag(r, "match_per_line", true); err != nil {
		return nil, false, err
	}
	argv = []string{"grep", "-rHIZ", "--color=never", "--exclude-dir=.git"}
	form := "-F"
	if regex {
		form = "-P"
	}
	argv = append(argv, form)
	if anyCase {
		argv = append(argv, "-i")
	}
	if perLine {
		argv = append(argv, "-n")
	} else {
		argv = append(argv, "-l")
	}
	for _, glob := range r.URL.Query()["include"] {
		if glob != "" && glob != "null" {
			argv = append(argv, "--include="+glob)
		}
	}
	return append(argv, "-e", text, "--", target), perLine, nil
}

// output runs a command to its end. Errors: DeadlineExceeded, SandboxLost.
func (c *call) output(r *http.Request, argv []string) (stdout, stderr string, code int, err error) {
	const op = "openterminal.command"
	no := false
	running, err := c.cfg.Commands.Start(r.Context(), r, protocol.ExecRequest{
		Session: c.session.ID, Argv: argv, Files: &no, TimeoutMS: searchTime,
		MaxOutputBytes: maxGrep,
	})
	if err != nil {
		return "", "", 0, err
	}
	defer running.Abandon()
	var out, errors strings.Builder
	for {
		select {
		case batch, ok := <-running.Events():
			if !ok {
				return "", "", 0, fault.New(fault.SandboxLost, op, "the sandbox has ended")
			}
			for _, e := range batch {
				switch {
				case e.Type == "stdout":
					out.WriteString(e.Text)
				case e.Type == "stderr":
					errors.WriteString(e.Text)
				case e.Type == "done" && e.Status == "timeout":
					return "", "", 0, fault.New(fault.DeadlineExceeded, op,
						"it takes too long; choose a smaller folder or file")
				case e.Type == "done" && e.ExitCode != nil:
					return out.String(), errors.String(), *e.ExitCode, nil
				}
			}
		case <-r.Context().Done():
			return "", "", 0, surface.ErrGone()
		}
	}
}

// glob searches files and folders by their names.
func glob(w http.ResponseWriter, r *http.Request, c *call) error {
	pattern, target, most, err := c.search(r, "pattern")
	if err != nil {
		return err
	}
	kind := query(r, "type")
	if kind == "" {
		kind = "any"
	}
	if kind != "any" && kind != "file" && kind != "directory" {
		return fault.Invalid("openterminal.glob", "type", "it is file, directory or any")
	}
	wanted := globs([]string{pattern, strings.TrimPrefix(pattern, "**/")})
	unwanted := globs(r.URL.Query()["exclude"])
	matches := []listedFile{}
	truncated := false
	q := protocol.FileList{FileRef: c.refOf(target), Depth: maxDepth, Limit: maxEntries}
	for listed := 0; ; {
		var page protocol.FileListing
		if err := c.node(r.Context(), protocol.OpFileList, q, &page); err != nil {
			return err
		}
		for _, f := range page.Entries {
			e := entryOf(f)
			e.Path = strings.TrimPrefix(strings.TrimPrefix(f.Path, target), "/")
			if kind != "any" && kind != e.Type || !wanted.match(e.Path) || unwanted.match(e.Path) {
				continue
			}
			if len(matches) == most {
				truncated = true
				break
			}
			matches = append(matches, e)
		}
		listed += len(page.Entries)
		if q.After = page.Next; q.After == "" || truncated {
			break
		}
		if listed >= maxListed {
			truncated = true
			break
		}
	}
	return surface.WriteJSON(w, http.StatusOK, map[string]any{
		"pattern": pattern, "path": target, "matches": matches, "truncated": truncated,
	})
}

// patterns are patterns of names in the form of Python's fnmatch: * also stands for slashes.
type patterns []*regexp.Regexp

// globs returns patterns. A pattern that is not valid matches its own text.
func globs(texts []string) patterns {
	var all patterns
	for _, text := range texts {
		if text == "" || text == "null" || len(text) > maxPattern {
			continue
		}
		expression := regexp.QuoteMeta(text)
		expression = strings.NewReplacer(`\*`, `.*`, `\?`, `.`, `\[!`, `[^`, `\[`, `[`, `\]`, `]`).
			Replace(expression)
		re, err := regexp.Compile(`^(?s:` + expression + `)$`)
		if err != nil {
			re = regexp.MustCompile(`^` + regexp.QuoteMeta(text) + `$`)
		}
		all = append(all, re)
	}
	return all
}

// match reports whether one of the patterns matches a path or its last part.
func (p patterns) match(name string) bool {
	for _, re := range p {
		if re.MatchString(name) || re.MatchString(path.Base(name)) {
			return true
		}
	}
	return false
}
