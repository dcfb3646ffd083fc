package e2e

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// The modes of a faultProxy.
const (
	passing   = iota // it works
	dropping         // no bytes pass and no error is reported, as in a network partition
	noAnswers        // answers do not pass
	refusing         // connections are closed, and new ones refused
)

// faultProxy is a TCP proxy for the network between two parts of a cluster. A test can make it
// fail.
type faultProxy struct {
	ln   net.Listener
	work sync.WaitGroup

	mu      sync.Mutex // guards all below
	targets []string   // the first that can be reached gets the connection
	turn    int
	host    *host // the host that dials the targets; nil for this machine
	mode    int
	delay   time.Duration
	changed chan struct{} // closed and replaced with each change
	conns   map[net.Conn]struct{}
	ended   bool
}

func newFaultProxy(t *testing.T, targets ...string) *faultProxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w := &faultProxy{
		ln: ln, targets: targets, changed: make(chan struct{}),
		conns: map[net.Conn]struct{}{},
	}
	w.work.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			w.work.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		w.setMode(refusing, 0)
		w.work.Wait()
	})
	return w
}

func (w *faultProxy) address() string { return w.ln.Addr().String() }

// from makes the proxy dial the targets from a host.
func (w *faultProxy) from(h *host) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.host = h
}

// setMode changes the mode of the proxy, also for existing connections.
func (w *faultProxy) setMode(mode int, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mode, w.delay = mode, delay
	close(w.changed)
	w.changed = make(chan struct{})
	if mode == refusing {
		for c := range w.conns {
			_ = c.(*net.TCPConn).SetLinger(0) // as a machine that has lost power
			_ = c.Close()
		}
	}
}

// pass waits until bytes may pass in a direction. It is false if the connection ends first.
func (w *faultProxy) pass(back bool) bool {
	for {
		w.mu.Lock()
		mode, delay, changed, ended := w.mode, w.delay, w.changed, w.ended
		w.mu.Unlock()
		switch {
		case mode == refusing || ended:
			return false
		case mode == dropping || mode == noAnswers && back:
			<-changed
			continue
		}
		if delay > 0 {
			timer := time.NewTimer(delay)
			defer timer.Stop()
			<-timer.C
		}
		return true
	}
}

// add registers a connection, or closes it.
func (w *faultProxy) add(c net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.mode == refusing {
		_ = c.Close()
		return false
	}
	w.conns[c] = struct{}{}
	return true
}

func (w *faultProxy) drop(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

func (w *faultProxy) carry(down net.Conn) {
	if !w.add(down) {
		return
	}
	defer w.drop(down)
	if !w.pass(false) {
		return
	}
	up := w.dial()
	if up == nil || !w.add(up) {
		return
	}
	defer w.drop(up)
	var both sync.WaitGroup
	flow := func(to, from net.Conn, back bool) {
		buf := make([]byte, 32<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				if !w.pass(back) {
					break
				}
				if _, werr := to.Write(buf[:n]); werr != nil {
					break
				}
			}
			if err == io.EOF && w.pass(back) {
				_ = to.(*net.TCPConn).CloseWrite()
				return
			}
			if err != nil {
				break
			}
		}
		_, _ = to.Close(), from.Close()
	}
	both.Go(func() { flow(up, down, false) })
	both.Go(func() { flow(down, up, true) })
	both.Wait()
}

// dial connects to one of the targets, in turn.
func (w *faultProxy) dial() net.Conn {
	w.mu.Lock()
	all, turn, host := w.targets, w.turn, w.host
	w.turn++
	w.mu.Unlock()
	for i := range all {
		if c, err := host.dial("tcp", all[(turn+i)%len(all)]); err == nil {
			return c
		}
	}
	return nil
}
