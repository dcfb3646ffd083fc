package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sandgate/sandgate/langs/golang/kernel/front"
	"github.com/sandgate/sandgate/langs/golang/kernel/modules"
	"github.com/sandgate/sandgate/langs/golang/kernel/support"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

const (
	// codeTime is how long an answer about code may take.
	codeTime = 5 * time.Second
	// maxEarlier is the number of executed cells that a question considers.
	maxEarlier = 200
)

// goSource is the source of the standard library in the image.
const goSource = "/usr/local/go/src"

// code answers questions about the cells of a notebook. It checks them in a session of its own, so
// that no cell waits for it, and that it waits for no cell.
type code struct {
	newest sync.Map   // the id of the latest question of each kind about a cell
	mu     sync.Mutex // held while a question is answered, also after its time
	read   *modules.Reader
	book   *front.Notebook
}

// question is a question about code.
type question struct {
	Kind  string   `json:"kind"`
	Cells []string `json:"cells"`
	At    int      `json:"at"`
	New   string   `json:"new"`
}

func parseQuestion(q wire.Request) (about question, ok bool) {
	if len(q.About) == 0 || json.Unmarshal(q.About, &about) != nil {
		return about, false
	}
	if len(about.Cells) == 0 {
		about.Cells, about.At = []string{q.Code}, 0
	}
	if about.At < 0 || about.At >= len(about.Cells) {
		return about, false
	}
	about.Cells[about.At] = q.Code
	return about, true
}

func (q question) key(op string) string { return fmt.Sprint(op, " ", q.Kind, " ", q.At) }

// note records a question, which replaces an earlier one of its kind about the same cell that still
// waits.
func (c *code) note(q wire.Request) {
	if about, ok := parseQuestion(q); ok {
		c.newest.Store(about.key(q.Op), q.ID)
	}
}

// errSlow is the answer to a question whose code takes too long to check.
var errSlow = errors.New("the code takes too long to check")

// aboutCode answers a question about code. It reports whether the request is one.
func (s *Session) aboutCode(q wire.Request, r *wire.Reply) bool {
	about, ok := parseQuestion(q)
	if !ok {
		return len(q.About) > 0 && q.Op == "inspect"
	}
	if id, ok := s.code.newest.Load(about.key(q.Op)); ok && id != q.ID {
		return true // a newer one waits
	}
	if !s.code.mu.TryLock() {
		return true // the code of an earlier question is still being checked
	}
	answer := *r
	done := make(chan error, 1)
	go func() {
		defer s.code.mu.Unlock()
		defer func() {
			if v := recover(); v != nil {
				done <- fmt.Errorf("the code could not be checked: %v", v)
			}
		}()
		done <- s.answerCode(about, q, &answer)
	}()
	var err error
	select {
	case err = <-done:
	case <-time.After(codeTime):
		err = errSlow
	}
	switch {
	case err == nil:
		*r = answer
	default:
		r.Status, r.EName, r.EValue = "error", "ValueError", err.Error()
	}
	return true
}

// earlier returns the cells that were executed, in order.
func (s *Session) earlier() (codes []string) {
	byNumber := map[int]string{}
	s.sources.Range(func(file, text any) bool {
		digits := strings.TrimSuffix(strings.TrimPrefix(file.(string), "cell"), ".go")
		if n, err := strconv.Atoi(digits); err == nil {
			byNumber[n] = text.(string)
		}
		return true
	})
	numbers := make([]int, 0, len(byNumber))
	for n := range byNumber {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers[max(0, len(numbers)-maxEarlier):] {
		codes = append(codes, byNumber[n])
	}
	return codes
}

func (s *Session) answerCode(about question, q wire.Request, r *wire.Reply) error {
	c := &s.code
	if c.book == nil {
		files := token.NewFileSet()
		read := s.modules.Reader(files)
		book, err := front.NewNotebook(read, files, s.modules.Std(), support.Source)
		if err != nil {
			return err
		}
		c.read, c.book = read, book
	}
	cells := front.Cells{Earlier: s.earlier(), Codes: about.Cells, At: about.At}
	at := byteOffset(q.Code, q.Cursor)
	if q.Op == "complete" {
		list, start, end := c.book.Complete(cells, at)
		r.Start, r.End = utf8.RuneCountInString(q.Code[:start]),
			utf8.RuneCountInString(q.Code[:end])
		for _, m := range list {
			r.Matches = append(r.Matches, wire.Match{Text: m.Text, Type: m.Type})
		}
		return nil
	}
	var answer any
	switch about.Kind {
	case "problems":
		answer = map[string]any{"problems": c.book.Problems(cells, c.read.Missing)}
	case "describe":
		if x, ok := c.book.Describe(cells, at); ok {
			r.Found, r.Data = true, s.page(x, q.Detail)
		}
	case "signature":
		if x, ok := c.book.Signature(cells, at); ok {
			answer = x
		}
	case "definition":
		if x, ok := c.book.Definition(cells, at,
			[]string{goSource}); ok {
			answer = x
		}
	case "names":
		name, places, err := c.book.Names(cells, at, about.New)
		if err != nil {
			return err
		}
		if name != "" {
			answer = map[string]any{"name": name, "places": places}
		}
	case "format":
		text, err := front.Format(q.Code)
		if err != nil {
			return err
		}
		answer = map[string]any{"code": text}
	}
	if answer != nil {
		r.Found, r.Data = true, map[string]any{"application/json": answer}
	}
	return nil
}
