package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sandgate/sandgate/client/wire"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// server is shared by the tests that do not change it.
var server *Server

func TestMain(m *testing.M) {
	if root := os.Getenv("SANDGATE_TEST_CONTAINER"); root != "" {
		fmt.Fprintln(os.Stderr, containerMain(root)) // it returns only when it fails
		os.Exit(1)
	}
	flag.Parse()
	os.Exit(func() int {
		defer fails.print(os.Stderr)
		// The conformance cells start servers of their own, or use a given one.
		if strings.HasPrefix(flag.Lookup("test.run").Value.String(), "TestLanguages") {
			return m.Run()
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		keys, err := filepath.Abs("testdata/librechat.pem")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		lobe, err := newLobeHub()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer lobe.close()
		server, err = Start(ctx, "pool: {size: 2}\nlimits: {memory: 1GiB}\n"+
			"webhooks: {allow: [127.0.0.0/8]}\nlibrechat: {jwt_keys: "+keys+"}\n"+
			lobe.config+"\nsurfaces: {fastgpt: {timeout: 10s}}")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		code := m.Run()
		if code != 0 {
			fmt.Fprintln(os.Stderr, server.Complaints())
		}
		if err := server.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		return code
	}())
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// session is a session with a connection and its Python kernel.
type session struct {
	t      *testing.T
	ctx    context.Context
	client *wire.Client
	conn   *wire.Conn
	kernel *wire.Kernel
	id     string
}

func open(t *testing.T, s *Server) *session {
	t.Helper()
	ctx := deadline(t)
	c, err := wire.New(s.URL, s.Token, wire.Options{})
	check(t, err)
	made, err := c.CreateSession(ctx, protocol.SessionCreate{Language: "python"})
	check(t, err)
	t.Cleanup(func() { c.DeleteSession(context.WithoutCancel(ctx), made.ID) })
	conn, err := c.Connect(ctx)
	check(t, err)
	t.Cleanup(func() { conn.Close() })
	k, err := conn.Kernel(ctx, made.ID, made.Channels[0].ID)
	check(t, err)
	return &session{t, ctx, c, conn, k, made.ID}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// output is the output of a cell.
type output struct {
	stdout, stderr string
	messages       map[string][]json.RawMessage
	events         []string
	reply          message.ExecuteReply
}

// begin executes code without waiting for its end.
func (s *session) begin(code string) *wire.Cell {
	s.t.Helper()
	cell, err := s.kernel.Execute(s.ctx, code, wire.ExecuteOptions{})
	check(s.t, err)
	return cell
}

// collect reads a cell to its end, and calls see for each record if see is not nil.
func (s *session) collect(cell *wire.Cell, see func(frame.Record)) output {
	s.t.Helper()
	out := output{messages: map[string][]json.RawMessage{}}
	for {
		r, err := cell.Next(s.ctx)
		if errors.Is(err, io.EOF) {
			out.reply = *cell.Reply()
			return out
		}
		check(s.t, err)
		switch r.Kind {
		case frame.KindStdout:
			out.stdout += string(r.Payload)
		case frame.KindStderr:
			out.stderr += string(r.Payload)
		case frame.KindMessage:
			var m message.Message
			check(s.t, json.Unmarshal(r.Payload, &m))
			out.messages[m.Type] = append(out.messages[m.Type], m.Content)
		case frame.KindEvent:
			out.events = append(out.events, string(r.Payload))
		case frame.KindGap:
			s.t.Errorf("a gap: %s", r.Payload)
		}
		if see != nil {
			see(r)
		}
	}
}

// run executes code and fails the test unless its status is want.
func (s *session) run(want, code string) output {
	s.t.Helper()
	out := s.collect(s.begin(code), nil)
	if out.reply.Status != want {
		s.t.Fatalf("status %q, want %q, of:\n%s\n%+v", out.reply.Status, want, code, out)
	}
	return out
}

// result returns the text/plain of the cell's execute_result.
func (o output) result(t *testing.T) string {
	t.Helper()
	if len(o.messages[message.ExecuteResultType]) != 1 {
		t.Fatalf("%d results, want 1: %+v", len(o.messages[message.ExecuteResultType]), o)
	}
	return text(t, o.messages[message.ExecuteResultType][0], "text/plain")
}

func text(t *testing.T, content json.RawMessage, mime string) string {
	t.Helper()
	var b message.Bundle
	check(t, json.Unmarshal(content, &b))
	var s string
	if raw, ok := b.Data[mime]; !ok {
		t.Fatalf("no %s in %s", mime, content)
	} else if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func contains(t *testing.T, s string, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !strings.Contains(s, want) {
			t.Errorf("no %q in:\n%s", want, s)
		}
	}
}
