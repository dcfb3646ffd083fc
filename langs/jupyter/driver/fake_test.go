package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// fakeKernel is a Jupyter kernel without a language: the first word of a cell says what it does.
type fakeKernel struct {
	turn    sync.Mutex // held while a request of the channel shell is handled
	mu      sync.Mutex // guards sockets and made
	changed sync.Cond
	sockets [channels]*socket
	made    [channels]int // connections so far
	wire    signer
	stop    chan string
}

func TestMain(m *testing.M) {
	if file := os.Getenv("FAKE_KERNEL"); file != "" {
		runFake(os.Args[len(os.Args)-1])
		return
	}
	os.Exit(m.Run())
}

func runFake(file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	var info map[string]any
	if err := json.Unmarshal(text, &info); err != nil {
		panic(err)
	}
	k := &fakeKernel{
		stop: make(chan string, 8), wire: signer{key: []byte(info["key"].(string)), session: "kernel"},
	}
	k.changed.L = &k.mu
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT)
	go func() {
		for range signals {
			k.stop <- "signal"
		}
	}()
	for c := range channels {
		network, address := "unix", fmt.Sprintf("%s-%v", info["ip"], info[c.port()])
		if info["transport"] == "tcp" {
			network, address = "tcp", fmt.Sprintf("%s:%v", info["ip"], info[c.port()])
		} else if os.Getenv("FAKE_KERNEL") == "tcp" {
			fmt.Fprintln(os.Stderr, "only tcp")
			os.Exit(1)
		}
		l, err := net.Listen(network, address)
		if err != nil {
			panic(err)
		}
		go k.accept(c, l)
	}
	select {}
}

func (k *fakeKernel) accept(c channel, l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		s := newSocket(conn)
		if s.handshake("ROUTER", "") != nil {
			continue
		}
		k.mu.Lock()
		k.sockets[c] = s
		k.made[c]++
		k.changed.Broadcast()
		k.mu.Unlock()
		go k.serve(c, s)
	}
}

func (k *fakeKernel) serve(c channel, s *socket) {
	for {
		parts, err := s.receive()
		if err != nil {
			return
		}
		switch c {
		case heartbeat:
			_ = s.write(encodeParts(parts))
		case control:
			if p, err := k.wire.decode(parts); err == nil && p.header.Type == "interrupt_request" {
				k.stop <- "message"
			}
		case shell:
			if p, err := k.wire.decode(parts); err == nil {
				k.turn.Lock()
				k.shell(p)
				k.turn.Unlock()
			}
		}
	}
}

func (k *fakeKernel) send(c channel, kind string, p packet, content any) {
	m, err := k.wire.encode(k.wire.newID(0), kind, p.rawHead, nil, content, nil)
	if err != nil {
		panic(err)
	}
	k.mu.Lock()
	s := k.sockets[c]
	k.mu.Unlock()
	_ = s.write(m)
}

func (k *fakeKernel) print(p packet, text string) {
	k.send(iopub, "stream", p, map[string]string{"name": "stdout", "text": text})
}

func (k *fakeKernel) shell(p packet) {
	k.send(iopub, "status", p, map[string]string{"execution_state": "busy"})
	defer k.send(iopub, "status", p, map[string]string{"execution_state": "idle"})
	if p.header.Type != "execute_request" {
		k.send(shell, "kernel_info_reply", p, map[string]any{"status": "ok"})
		return
	}
	var x struct {
		Code string `json:"code"`
	}
	_ = json.Unmarshal(p.content, &x)
	k.send(iopub, "execute_input", p, map[string]any{"code": x.Code})
	reply := map[string]any{"status": "ok", "execution_count": 1}
	switch word, _, _ := strings.Cut(x.Code, " "); word {
	case "wait": // for an interrupt
		k.print(p, "waiting ")
		k.print(p, <-k.stop)
		reply = map[string]any{"status": "error", "ename": "Stopped"}
	case "deaf": // to the first two interrupts
		k.print(p, "waiting ")
		<-k.stop
		<-k.stop
		k.print(p, <-k.stop)
		reply = map[string]any{"status": "error", "ename": "Stopped"}
	case "break": // all connections, and answer on new ones
		k.reconnect(func() {})
		k.print(p, "again")
	case "lose": // the reply with the connections
		k.reconnect(func() { k.send(shell, "execute_reply", p, reply) })
		return
	case "swallow": // an interrupt prevents the reply
		k.print(p, "waiting")
		<-k.stop
		return
	case "forge":
		real := k.wire.key
		k.wire.key = []byte("another")
		k.print(p, "forged")
		k.wire.key = real
	case "flood":
		for range 40 {
			k.print(p, strings.Repeat("x", 1<<20))
		}
	case "exit":
		reply["payload"] = []any{map[string]any{"source": "ask_exit", "keepkernel": false}}
		k.send(shell, "execute_reply", p, reply)
		k.send(iopub, "status", p, map[string]string{"execution_state": "idle"})
		os.Exit(3)
	case "die":
		k.print(p, "last words")
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	k.send(shell, "execute_reply", p, reply)
}

// reconnect closes the connections for replies and output and waits for new ones. before is called
// on the old ones after the driver cannot read them any more.
func (k *fakeKernel) reconnect(before func()) {
	k.mu.Lock()
	shells, outs := k.made[shell], k.made[iopub]
	for _, c := range []channel{shell, iopub} {
		k.sockets[c].close()
	}
	k.mu.Unlock()
	before()
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.made[shell] == shells || k.made[iopub] == outs {
		k.changed.Wait()
	}
}
