package agent

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sandgate/sandgate/internal/agent/wire"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// dialLimit is how long a program may take to accept a connection.
const dialLimit = 10 * time.Second

// portConn is a connection to a port, or to the outside. Its transfer takes
// data from the host.
type portConn struct {
	*transfer
	tcp *net.TCPConn
	// before is sent to the host first. body is the number of bytes from the program that are sent
	// after it. The remaining bytes are dropped. A negative body means all.
	before []byte
	body   int64
}

// portDial connects the host to a program.
func (s *Server) portDial(r wire.Request) {
	op := "agent." + r.Op
	var q wire.PortDial
	err := params(r, &q)
	switch {
	case err != nil:
	case q.Port < 1 || q.Port > 65535:
		err = fault.Invalid(op, "port", "a port is a number from 1 to 65535")
	case s.egress.listensOn(q.Port):
		err = &fault.Error{
			Kind: fault.Unavailable, Op: op, Field: "port", RetryAfter: 1,
			Message: "nothing listens on port " + strconv.Itoa(q.Port) + " but the sandbox's proxy",
		}
	}
	t := &transfer{
		s: s, id: r.Channel, changed: make(chan struct{}, 1),
		room: make(chan struct{}, 1), conn: true,
	}
	t.win.limit, t.win.wake = wire.ConnWindow, t.signalRoom
	if err == nil {
		err = s.addTransfer(op, t, true)
	}
	if err != nil {
		s.respond(r.ID, nil, err)
		return
	}
	go func() {
		defer s.wg.Done()
		defer s.removeTransfer(t, true)
		tcp, err := dial(q.Port)
		s.respond(r.ID, struct{}{}, err)
		if err == nil {
			c := &portConn{transfer: t, tcp: tcp, body: -1}
			t.mu.Lock()
			t.cut = c.reset
			t.mu.Unlock()
			c.serve()
		}
	}()
}

// dial connects to a port on the sandbox's loopback addresses.
func dial(port int) (*net.TCPConn, error) {
	const op = "agent.port.dial"
	var err error
	for _, ip := range []string{"127.0.0.1", "::1"} {
		d := net.Dialer{Timeout: dialLimit}
		var c net.Conn
		if c, err = d.Dial("tcp", net.JoinHostPort(ip, strconv.Itoa(port))); err == nil {
			return c.(*net.TCPConn), nil
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			break
		}
	}
	e := &fault.Error{
		Kind: fault.Unavailable, Op: op, Field: "port", RetryAfter: 1,
		Message: "nothing listens on port " + strconv.Itoa(port), Err: err,
	}
	var late net.Error
	switch {
	case errors.Is(err, syscall.ECONNRESET):
		e.Message = "the program on port " + strconv.Itoa(port) + " cut the connection"
	case errors.As(err, &late) && late.Timeout():
		e.Message = "the program on port " + strconv.Itoa(port) + " does not accept connections"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.ENOBUFS):
		e.Kind, e.Message = fault.Exhausted, "the sandbox has too many open files"
	}
	return nil, e
}

// serve carries bytes both ways until both directions have ended, or one is
// cut.
func (c *portConn) serve() {
	if c.isAborted() {
		c.reset() // it was aborted while it was dialled
		c.reportCut()
		return
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if err := c.send(); err != nil {
			c.abort()
		}
	}()
	_, err := io.CopyBuffer(struct{ io.Writer }{c.tcp}, struct{ io.Reader }{c.transfer},
		make([]byte, wire.MaxChunk))
	if err == nil {
		err = c.tcp.CloseWrite()
	}
	if err != nil {
		// Report the cut to the other end, so that it does not wait.
		c.abort()
	}
	<-sent
	c.tcp.Close()
	if err != nil || c.isAborted() {
		c.reportCut()
	}
}

// reportCut reports to the host that both directions have ended. The host may
// not have been the one that cut the connection.
func (c *portConn) reportCut() {
	body, _ := json.Marshal(fault.Public{
		Kind:    fault.Unavailable,
		Message: "the connection to the port was cut",
	})
	c.s.host.write(frame.Append(nil, frame.Frame{
		Type:  frame.Data,
		Flags: frame.FlagEnd | wire.FlagAbort, Channel: c.id, Body: body,
	}))
}

// reset closes the connection with a TCP reset.
func (c *portConn) reset() {
	c.tcp.SetLinger(0)
	c.tcp.Close()
}

// send sends the program's data to the host.
func (c *portConn) send() error {
	buf := make([]byte, frame.HeaderSize+wire.MaxChunk)
	for len(c.before) > 0 {
		n := copy(buf[frame.HeaderSize:], c.before)
		c.before = c.before[n:]
		if err := c.put(buf, n); err != nil {
			return err
		}
	}
	c.before = nil
	for {
		n, err := c.tcp.Read(buf[frame.HeaderSize:])
		if c.body >= 0 {
			n = int(min(int64(n), c.body))
			c.body -= int64(n)
		}
		if n > 0 {
			if err := c.put(buf, n); err != nil {
				return err
			}
		}
		if err == io.EOF {
			c.s.host.write(frame.Append(nil,
				frame.Frame{Type: frame.Data, Flags: frame.FlagEnd, Channel: c.id}))
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// listening returns the ports that programs listen on, at most wire.MaxPorts.
func (s *Server) listening() wire.Ports {
	found := wire.Ports{Ports: []wire.Port{}}
	seen := map[wire.Port]bool{}
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		for in := bufio.NewScanner(f); in.Scan(); {
			fields := strings.Fields(in.Text())
			if len(fields) < 4 || fields[3] != "0A" { // TCP_LISTEN
				continue
			}
			if p, ok := portOf(fields[1]); ok && !seen[p] && len(seen) < wire.MaxPorts &&
				!s.egress.listensOn(p.Port) {
				seen[p] = true
				found.Ports = append(found.Ports, p)
			}
		}
		f.Close()
	}
	slices.SortFunc(found.Ports, func(a, b wire.Port) int {
		if a.Port != b.Port {
			return a.Port - b.Port
		}
		return strings.Compare(a.Address, b.Address)
	})
	return found
}

// portOf parses an address of /proc/net: words of four bytes in the byte order
// of the host, which is little-endian wherever gVisor runs, and a port.
func portOf(s string) (wire.Port, bool) {
	address, number, _ := strings.Cut(s, ":")
	raw, err := hex.DecodeString(address)
	port, perr := strconv.ParseUint(number, 16, 16)
	if err != nil || perr != nil || len(raw) != 4 && len(raw) != 16 {
		return wire.Port{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		slices.Reverse(raw[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(raw)
	return wire.Port{Port: int(port), Address: ip.String()}, ok
}
