package queue

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/message"
)

// asker is a sleeper that keeps the answers that it gets.
type asker struct {
	sleeper
	answers chan kernel.Request
}

func (a *asker) Notify(r kernel.Request) error { a.answers <- r; return nil }

// TestInputAnswersItsRequest: an answer reaches only the request that it names. A repeat of an
// answer has no effect, also after the cell's end and in a queue that was saved meanwhile.
func TestInputAnswersItsRequest(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	d := &asker{
		sleeper{make(chan kernel.Request, 8), make(chan message.Reply, 8)},
		make(chan kernel.Request, 8),
	}
	log := &paper{wrote: make(chan struct{})}
	q := New(Options{Log: log, Driver: d, Info: message.Info{Language: "test"}})
	if _, err := q.Submit(protocol.Execute{Code: "a", Key: "a"}); err != nil {
		t.Fatal(err)
	}
	<-d.asked
	asks := func(prompt string) uint32 {
		t.Helper()
		body := q.Observe(1, []byte(`{"msg_type":"input_request","content":{"prompt":"`+prompt+
			`","password":true}}`))
		var m message.Message
		var ask message.InputRequest
		if json.Unmarshal(body, &m) != nil || json.Unmarshal(m.Content, &ask) != nil ||
			ask.Prompt != prompt || !ask.Password {
			t.Fatalf("the log has %s", body)
		}
		return ask.Request
	}
	answer := func(request uint32, value string) error {
		return q.Input(protocol.InputReply{Cell: 1, Request: request, Value: value})
	}
	conflict := func(what string, err error) {
		t.Helper()
		if !fault.Is(err, fault.Conflict) {
			t.Errorf("%s: %v, want conflict", what, err)
		}
	}
	if n := asks("one"); n != 1 {
		t.Errorf("the first request has the number %d", n)
	}
	conflict("a request that was not made", answer(2, "x"))
	if err := answer(1, "one"); err != nil {
		t.Fatal(err)
	}
	if n := asks("two"); n != 2 {
		t.Errorf("the second request has the number %d", n)
	}
	if err := answer(1, "one"); err != nil {
		t.Errorf("the repeat: %v", err)
	}
	conflict("another answer to the same request", answer(1, "other"))
	again := func() {
		t.Helper()
		s, _, err := q.Save(ctx)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := json.Marshal(s)
		var read Saved
		if err := json.Unmarshal(data, &read); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), `"one"`) {
			t.Error("the saved queue has the answer in plain text")
		}
		q = New(Options{Log: log, Driver: d, Saved: &read, Rejoin: d.wait})
	}
	again()
	if err := answer(1, "one"); err != nil {
		t.Errorf("the repeat after a restore: %v", err)
	}
	if err := answer(2, "two"); err != nil {
		t.Errorf("the answer after a restore: %v", err)
	}
	d.reply <- message.Reply{Status: "ok", Count: 1}
	log.until(t, `"execute_reply"`, 1)
	if err := answer(2, "two"); err != nil {
		t.Errorf("the repeat after the cell's end: %v", err)
	}
	conflict("a request of an ended cell", answer(3, "three"))
	var got []string
	for range len(d.answers) {
		got = append(got, (<-d.answers).Value)
	}
	if strings.Join(got, ",") != "one,two" {
		t.Errorf("the kernel got %q", got)
	}
	q.Close(Death{Reason: "closed", Message: "closed"})
}

// TestQueueRunsAfterInterrupt: a cell that is sent after the interrupt of the kernel was answered
// runs, although the interrupted cell has not ended yet. Cells that were sent earlier are aborted.
func TestQueueRunsAfterInterrupt(t *testing.T) {
	d := &sleeper{asked: make(chan kernel.Request, 8), reply: make(chan message.Reply, 8)}
	log := &paper{wrote: make(chan struct{})}
	q := New(Options{Log: log, Driver: d, Info: message.Info{Language: "test"}})
	defer q.Close(Death{Reason: "closed", Message: "closed"})
	submit := func(code string) {
		t.Helper()
		if _, err := q.Submit(protocol.Execute{Code: code, Key: code}); err != nil {
			t.Fatal(err)
		}
	}
	submit("a")
	r := <-d.asked
	r.Sent()
	submit("b")
	if err := q.Interrupt(t.Context(), 0, 0); err != nil {
		t.Fatal(err)
	}
	log.until(t, `"key":"b","status":"aborted"`, 1)
	submit("c")
	d.reply <- message.Reply{Status: "error", EName: "KeyboardInterrupt", Count: 1}
	if r := <-d.asked; r.Code != "c" {
		t.Errorf("the kernel got %q", r.Code)
	}
	d.reply <- message.Reply{Status: "ok", Count: 2}
	log.until(t, `"key":"c","status":"ok"`, 1)
}
