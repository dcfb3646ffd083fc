package cells

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/message"
)

// stayed is how long a cell must run after the text of When, so that it is certain that
// the text arrived while the cell ran. `do: nothing` is for a cell that prints and then
// sleeps 300 ms or more.
const stayed = 100 * time.Millisecond

// compare compares the outcome with the expectation of the step.
func (s *Step) compare(o *outcome, i int) {
	number := func(t *Text) string {
		if s.Repeat == 0 {
			return string(*t)
		}
		return strings.ReplaceAll(string(*t), "{i}", fmt.Sprint(i))
	}
	stream := func(name, got string, exact *Text, like *Pattern) {
		switch {
		case like != nil:
			if !like.MatchString(got) {
				o.problem("%s: wanted something like %s, got %s", name, like, show(got))
			}
		case exact != nil:
			if want := number(exact); got != want {
				o.problem("%s: wanted %s\n%*s     got %s", name, show(want), len(name), "",
					show(got))
			}
		case len(s.Order) == 0 && got != "":
			o.problem("%s: wanted nothing, got %s", name, show(got))
		}
	}
	got := o.stdout.String()
	if s.StdoutBytes == 0 || s.Stdout != nil || s.StdoutLike != nil {
		stream("stdout", got, s.Stdout, s.StdoutLike)
	}
	if s.StdoutBytes != 0 && len(got) != s.StdoutBytes {
		o.problem("stdout: wanted %d bytes, got %d", s.StdoutBytes, len(got))
	}
	if hash := sha256.Sum256([]byte(got)); s.StdoutHash != "" &&
		hex.EncodeToString(hash[:]) != s.StdoutHash {
		o.problem("stdout: wanted the hash %s, got %x of %s", s.StdoutHash, hash, show(got))
	}
	stream("stderr", o.stderr.String(), s.Stderr, s.StderrLike)
	s.checkStatus(o)
	s.checkResult(o, number)
	if len(s.Order) == 0 || s.Display != nil {
		checkBundles(o, "display", s.Display, o.displays)
	}
	if s.Update != nil {
		checkBundles(o, "update", s.Update, o.updates)
	}
	s.checkOrder(o)
	if o.asked < len(s.Input) {
		o.problem("input: wanted %d requests, got %d", len(s.Input), o.asked)
	}
	if s.When != nil && o.matched.IsZero() {
		o.problem("when: the text never came")
	} else if s.When != nil && s.When.Do == "nothing" && o.ended.Sub(o.matched) < stayed {
		o.problem("when: the text came only at the cell's end, %v before the reply",
			o.ended.Sub(o.matched))
	}
}

func (s *Step) checkStatus(o *outcome) {
	status := s.Status
	if status == "" {
		status = "ok"
		if s.Error != nil {
			status = "error"
		}
	}
	if o.reply.Status != status {
		o.problem("status: wanted %s, got %s", status, o.reply.Status)
	}
	if s.ExitCode != nil && (o.reply.ExitCode == nil || *o.reply.ExitCode != *s.ExitCode) {
		got := "none"
		if o.reply.ExitCode != nil {
			got = fmt.Sprint(*o.reply.ExitCode)
		}
		o.problem("exit_code: wanted %d, got %s", *s.ExitCode, got)
	}
	switch {
	case status == "ok" && len(o.errors) > 0:
		o.problem("error: wanted none, got %s", o.errors[0].EName)
	case len(o.errors) > 1:
		o.problem("error: wanted one, got %d", len(o.errors))
	case s.Error != nil && len(o.errors) == 0:
		o.problem("error: wanted %s, and no error message came", s.Error.Name)
	case s.Error != nil:
		s.Error.check(o, o.errors[0])
	}
	for _, e := range o.events {
		if (e.Event == "state_lost" || e.Event == "restored") &&
			(s.Event == nil || s.Event.Event != e.Event) {
			o.problem("event: wanted none, got %s: %s", e.Event, e.Message)
		}
	}
}

func (e *Error) check(o *outcome, got message.Error) {
	if e.Name != "" && got.EName != string(e.Name) {
		o.problem("error name: wanted %s, got %s", e.Name, got.EName)
	}
	if o.reply.EName != got.EName {
		o.problem("error name: the message says %s, the reply %s", got.EName, o.reply.EName)
	}
	if e.Value != nil && !e.Value.MatchString(got.EValue) {
		o.problem("error value: wanted something like %s, got %s", e.Value, show(got.EValue))
	}
	trace := plain(strings.Join(got.Traceback, "\n"))
	if e.Traceback != nil && !e.Traceback.MatchString(trace) {
		o.problem("error traceback: wanted something like %s", e.Traceback)
	}
	if e.Without != nil {
		if found := e.Without.FindString(trace); found != "" {
			o.problem("error traceback: it should not have %q", found)
		}
	}
}

func (s *Step) checkResult(o *outcome, number func(*Text) string) {
	wanted := s.Result != nil || s.ResultLike != nil || s.Data != nil
	switch {
	case !wanted && len(s.Order) == 0 && len(o.results) > 0:
		o.problem("result: wanted none, got %s", show(plainText(o.results[0])))
	case wanted && len(o.results) != 1:
		o.problem("result: wanted one, got %d", len(o.results))
	case wanted:
		got := plainText(o.results[0])
		if s.Result != nil && *s.Result != "any" {
			if want := number(s.Result); got != want {
				o.problem("result: wanted %s\n            got %s", show(want), show(got))
			}
		}
		if s.ResultLike != nil && !s.ResultLike.MatchString(got) {
			o.problem("result: wanted something like %s, got %s", s.ResultLike, show(got))
		}
		checkData(o, "result", s.Data, o.results[0])
	}
}

func plainText(b message.Bundle) string { return dataText(b.Data["text/plain"]) }

func checkBundles(o *outcome, what string, want []map[string]Pattern, got []message.Bundle) {
	if len(want) != len(got) {
		o.problem("%s: wanted %d, got %d", what, len(want), len(got))
		return
	}
	for i := range want {
		checkData(o, fmt.Sprintf("%s %d", what, i+1), want[i], got[i])
	}
}

func checkData(o *outcome, what string, want map[string]Pattern, got message.Bundle) {
	for mime, like := range want {
		raw, ok := got.Data[mime]
		if !ok {
			o.problem("%s: wanted %s, got %s", what, mime, strings.Join(types(got.Data), " "))
		} else if !like.MatchString(dataText(raw)) {
			o.problem("%s: %s: wanted something like %s, got %s", what, mime, like,
				show(dataText(raw)))
		}
	}
}

func types(data map[string]json.RawMessage) []string {
	var list []string
	for mime := range data {
		list = append(list, mime)
	}
	slices.Sort(list)
	return list
}

// checkOrder compares the pieces of output in their order. Line ends around a stream's
// text are ignored. Results and errors are compared only if the order mentions one.
func (s *Step) checkOrder(o *outcome) {
	if len(s.Order) == 0 {
		return
	}
	mentions := func(kind string) bool {
		return slices.ContainsFunc(s.Order,
			func(t Text) bool { return strings.HasPrefix(string(t), kind) })
	}
	var got []string
	for _, it := range o.order {
		if (it.kind == "result" || it.kind == "error") && !mentions(it.kind) {
			continue
		}
		switch it.kind {
		case "stdout", "stderr", "error":
			got = append(got, it.kind+":"+strings.Trim(it.text, "\n"))
		default:
			got = append(got, it.kind+":"+strings.Join(it.types, " "))
		}
	}
	matches := len(got) == len(s.Order)
	for i := 0; matches && i < len(got); i++ {
		wantKind, want, _ := strings.Cut(string(s.Order[i]), ":")
		kind, text, _ := strings.Cut(got[i], ":")
		switch kind {
		case "display", "update", "result":
			matches = kind == wantKind &&
				(want == "" || slices.Contains(strings.Fields(text), want))
		default:
			matches = kind == wantKind && text == strings.Trim(want, "\n")
		}
	}
	if !matches {
		o.problem("order: wanted %q\n           got %q", s.Order, got)
	}
}
