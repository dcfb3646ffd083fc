// Budget prints how long print(1) takes in each part of its way: the client, the gateway, the link to
// the node, the node, the pipes to the agent, and the driver. The parts are spans of the server, which
// has the same clock as the client. At the end it measures the driver and the agent natively, without
// gVisor and without a server.
//
// It needs root and `make build`.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/sandgate/sandgate/e2e"
	"github.com/sandgate/sandgate/internal/agent/client"
	agentwire "github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/internal/trace/tracetest"
	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
	"github.com/sandgate/sandgate/protocol/message"
)

// code is the cell.
const code = "print(1)"

func main() {
	n := flag.Int("cells", 200, "cells of each measurement")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	fmt.Printf("%-50s %8s %8s\n", "ms", "p50", "p99")
	err := inSandbox(ctx, *n)
	if err == nil {
		err = natively(ctx, *n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budget:", err)
		os.Exit(1)
	}
}

// line prints the median and the 99th percentile of times.
func line(name string, took []time.Duration) {
	slices.Sort(took)
	at := func(q int) float64 { return took[(len(took)-1)*q/100].Seconds() * 1000 }
	fmt.Printf("%-50s %8.3f %8.3f\n", name, at(50), at(99))
}

// way has the times of one cell.
type way struct {
	spans  map[string]tracetest.Time
	client tracetest.Time
}

// The spans of a cell.
const (
	atGateway = "socket execute"
	atNode    = "node execute"
	queued    = "cell queued"
	running   = "cell running"
	driver    = "agent driver"
)

// hop is a part of the way.
type hop struct {
	name string
	took func(w way) time.Duration
}

// hops returns the parts of the way, in order.
func hops() []hop {
	between := func(from, to string) func(w way) time.Duration {
		return func(w way) time.Duration { return w.spans[to].Begin.Sub(w.spans[from].Begin) }
	}
	return []hop{
		{"client and gateway, to the request", func(w way) time.Duration {
			return w.spans[atGateway].Begin.Sub(w.client.Begin)
		}},
		{"gateway and link, to the node", between(atGateway, atNode)},
		{"node, to the queue of the kernel", between(atNode, queued)},
		{"queue, to the agent's pipe", func(w way) time.Duration { return w.spans[queued].Took() }},
		{"pipes to the agent and back", func(w way) time.Duration {
			return w.spans[running].Took() - w.spans[driver].Took()
		}},
		{"agent and driver", func(w way) time.Duration { return w.spans[driver].Took() }},
		{"node, link and gateway, back to the client", func(w way) time.Duration {
			return w.client.End.Sub(w.spans[running].End)
		}},
		{"the whole way", func(w way) time.Duration { return w.client.Took() }},
	}
}

// inSandbox measures n cells one after the other, and as many with a pause before each.
func inSandbox(ctx context.Context, n int) error {
	var spans tracetest.Spans
	receiver := httptest.NewServer(http.HandlerFunc(spans.Receive))
	defer receiver.Close()
	s, err := e2e.Start(ctx, "pool: {size: 1, memory: 0}\ngateway: {self_check: 0}\n"+
		"tracing: {endpoint: \""+receiver.URL+"/v1/traces\", sample: 0}")
	if err != nil {
		return err
	}
	defer s.Stop()
	k, err := open(ctx, s)
	if err != nil {
		return err
	}
	defer k.conn.CloseNow()
	for round, pause := range []time.Duration{0, 50 * time.Millisecond} {
		fmt.Printf("in gVisor, %s between two cells\n", pause)
		ways := make([]way, n)
		for i := range n {
			time.Sleep(pause)
			if ways[i].client, err = k.run(ctx, traceID(round, i)); err != nil {
				return err
			}
		}
		for i := range n {
			ways[i].spans, err = spans.Wait(ctx, traceID(round, i), atGateway, atNode, queued,
				running, driver)
			if err != nil {
				return err
			}
		}
		for _, h := range hops() {
			var took []time.Duration
			for _, w := range ways {
				took = append(took, h.took(w))
			}
			line("  "+h.name, took)
		}
	}
	return nil
}

// traceID returns an id of a trace, which is the key of its cell too.
func traceID(round, cell int) string { return fmt.Sprintf("%016x%016x", round+2, cell+1) }

// kernelSocket is a WebSocket with a kernel as channel 1. It uses no library of a client, which would
// take time of its own.
type kernelSocket struct {
	conn *websocket.Conn
	id   uint64
}

// open creates a session and attaches to its kernel, which has run a cell.
func open(ctx context.Context, s *e2e.Server) (*kernelSocket, error) {
	var session protocol.Session
	status, err := s.JSON(ctx, http.MethodPost, "/v1/sessions", map[string]any{"language": "python"},
		&session)
	if err != nil || status != http.StatusCreated {
		return nil, fmt.Errorf("a new session: %d, %w", status, err)
	}
	conn, _, err := websocket.Dial(ctx, strings.Replace(s.URL, "http", "ws", 1)+"/v1/ws",
		&websocket.DialOptions{
			Subprotocols: []string{protocol.Subprotocol},
			HTTPHeader:   http.Header{"Authorization": {"Bearer " + s.Token}},
		})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(16 << 20)
	k := &kernelSocket{conn: conn}
	for _, r := range []protocol.Request{
		{Op: protocol.OpHello, Params: json.RawMessage(`{"client":"budget"}`)},
		{Op: protocol.OpAttach, Ch: 1, Params: json.RawMessage(
			`{"session":"` + session.ID + `","channel":"` + session.Channels[0].ID + `"}`)},
	} {
		if err := k.send(ctx, r); err != nil {
			return nil, err
		}
	}
	_, err = k.run(ctx, traceID(-1, 1))
	return k, err
}

func (k *kernelSocket) send(ctx context.Context, r protocol.Request) error {
	k.id++
	r.ID = k.id
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return k.conn.Write(ctx, websocket.MessageText, text)
}

// run runs a cell with the id of a trace, and returns the times at which it was sent and its end was
// there.
func (k *kernelSocket) run(ctx context.Context, trace string) (tracetest.Time, error) {
	params, err := json.Marshal(protocol.Execute{Key: trace, Code: code})
	if err != nil {
		return tracetest.Time{}, err
	}
	t := tracetest.Time{Begin: time.Now()}
	if err := k.send(ctx, protocol.Request{
		Op: protocol.OpExecute, Ch: 1, Params: params, Trace: "00-" + trace + "-00f067aa0ba902b7-01",
	}); err != nil {
		return t, err
	}
	for {
		kind, b, err := k.conn.Read(ctx)
		if err != nil {
			return t, err
		}
		if kind == websocket.MessageText {
			var r protocol.Reply
			if err := json.Unmarshal(b, &r); err == nil && r.Error != nil {
				return t, r.Error.Err("budget.run")
			}
			continue
		}
		f, err := frame.ParseMessage(b)
		if err != nil {
			return t, err
		}
		if f.Type != frame.Records || len(f.Body) < 8 {
			continue
		}
		end, done, err := readRecords(f.Body)
		if err != nil {
			return t, err
		}
		if !done {
			continue
		}
		t.End = time.Now()
		return t, k.conn.Write(ctx, websocket.MessageBinary, frame.AppendMessage(nil, frame.Frame{
			Type: frame.Ack, Channel: 1, Body: binary.BigEndian.AppendUint64(nil, end),
		}))
	}
}

// readRecords returns the offset after the records of a frame, and whether a cell has ended.
func readRecords(body []byte) (end uint64, done bool, err error) {
	end = binary.BigEndian.Uint64(body)
	for rest := body[8:]; len(rest) > 0; {
		var r frame.Record
		if r, rest, err = frame.ParseRecord(rest); err != nil {
			return end, done, err
		}
		if r.Kind == frame.KindGap || r.Kind == frame.KindRestore {
			continue
		}
		end += uint64(r.Size())
		var m message.Message
		if r.Kind == frame.KindMessage && json.Unmarshal(r.Payload, &m) == nil {
			done = done || m.Type == message.ExecuteReplyType
		}
	}
	return end, done, nil
}

// natively measures n cells with an agent and a driver that run in the image.
func natively(ctx context.Context, n int) error {
	cmd := exec.CommandContext(ctx, "deploy/image/enter", "--root", "bin/image.erofs",
		"/opt/sandgate/agent")
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = in.Close() // it ends with its wire
		_ = cmd.Wait()
	}()
	agent := client.New(out, in, nil) // the output does not matter
	if err := agent.WaitHello(ctx); err != nil {
		return err
	}
	if _, err := agent.Kernels.Start(ctx, 1, agentwire.StartKernel{Language: "python"}); err != nil {
		return err
	}
	var all, inside []time.Duration
	for i := range n + 1 {
		took := func(d time.Duration) { inside = append(inside, d) }
		began := time.Now()
		r, err := agent.Kernels.Request(ctx, 1, kernel.Request{
			Op: "execute", Cell: uint32(i + 1), Code: code, Took: took,
		})
		if err == nil && r.Status != "ok" {
			err = fault.New(fault.Internal, "budget.natively", "%s: %s", r.EName, r.EValue)
		}
		if err != nil {
			return err
		}
		all = append(all, time.Since(began))
	}
	fmt.Println("natively, 0s between two cells")
	line("  agent and driver", inside[1:]) // the first cell is slower
	line("  the whole way, over pipes", all[1:])
	return nil
}
