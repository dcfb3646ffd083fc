// Package demo is a surface for tests: plain net/http handlers that stream in both directions,
// wait, and take a connection over. It shows how to write a surface.
package demo

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/sandgate/sandgate/gateway/surface"
	"github.com/sandgate/sandgate/protocol"
)

// Surface is the surface. Left receives the reason why the context of each waiting request ended.
type Surface struct {
	Left chan error
	next chan struct{}
}

// Routes returns the routes.
func (s *Surface) Routes() []surface.Route {
	s.next = make(chan struct{})
	wait := http.HandlerFunc(s.wait)
	return []surface.Route{
		{
			Method: "GET", Path: "/demo/count/:n", Access: protocol.ScopeRead,
			Handler: surface.HandlerFunc(s.count),
		},
		{
			Method: "POST", Path: "/demo/next", Access: protocol.ScopeRead,
			Handler: http.HandlerFunc(s.step),
		},
		{
			Method: "POST", Path: "/demo/echo", Access: protocol.ScopeWrite, MaxBody: 1 << 20,
			Handler: http.HandlerFunc(echo),
		},
		{
			Method: "POST", Path: "/demo/size", Access: protocol.ScopeWrite, MaxBody: 1 << 20,
			Handler: surface.HandlerFunc(size),
		},
		{Method: "GET", Path: "/demo/wait", Access: protocol.ScopeRead, Handler: wait},
		{Method: "POST", Path: "/demo/wait", Access: protocol.ScopeRead, MaxBody: 9, Handler: wait},
		{
			Method: "GET", Path: "/demo/who/:name", Access: protocol.ScopeRead,
			Handler: http.HandlerFunc(who),
		},
		{
			Method: "GET", Path: "/demo/upgrade", Access: protocol.ScopeWrite,
			Handler: surface.HandlerFunc(upgrade),
		},
		{
			Method: "GET", Path: "/demo/panic", Access: protocol.ScopeRead,
			Handler: http.HandlerFunc(fail),
		},
	}
}

// count writes numbers, and waits for step before each further one.
func (s *Surface) count(w http.ResponseWriter, r *http.Request) error {
	n, err := strconv.Atoi(r.PathValue("n"))
	if err != nil {
		return err
	}
	for i := range n {
		fmt.Fprintln(w, i)
		w.(http.Flusher).Flush()
		<-s.next
	}
	return nil
}

func (s *Surface) step(http.ResponseWriter, *http.Request) { s.next <- struct{}{} }

// echo writes each part of the body as soon as it arrives.
func echo(w http.ResponseWriter, r *http.Request) {
	w.(http.Flusher).Flush()
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			_, _ = w.Write(buf[:n])
			w.(http.Flusher).Flush()
		}
		if err != nil {
			return
		}
	}
}

// size reads the whole body.
func size(w http.ResponseWriter, r *http.Request) error {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return err
	}
	fmt.Fprint(w, n)
	return nil
}

// wait reads the body, answers, and returns when the client has disconnected.
func (s *Surface) wait(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.(http.Flusher).Flush()
	<-r.Context().Done()
	s.Left <- r.Context().Err()
}

func who(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s", surface.CallOf(r).Who.Subject, r.PathValue("name"))
}

// upgrade takes the connection over and sends the received bytes back.
func upgrade(w http.ResponseWriter, _ *http.Request) error {
	c, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = io.WriteString(
		c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: demo\r\n\r\n")
	_, _ = io.Copy(c, buffered.Reader)
	return nil
}

func fail(http.ResponseWriter, *http.Request) { panic("a bug") }
