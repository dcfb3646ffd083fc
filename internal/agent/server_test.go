package agent

import (
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/kernel"
	"github.com/sandgate/sandgate/stream"
)

// FuzzServer fails when a frame of the host's can make the agent panic. It
// starts no process.
func FuzzServer(f *testing.F) {
	root := f.TempDir()
	s := NewServer(Config{Langs: root, Home: root, MachineID: filepath.Join(root, "machine-id"), SetHostname: func(string) error { return nil }})
	s.wire.w = io.Discard
	close(s.quit) // nothing can be started
	for op, p := range map[string]any{
		OpKernelStart: StartKernel{Language: "test"}, OpKernelRequest: kernel.Request{Op: "execute"},
		OpProcessStart: StartProcess{Argv: []string{"true"}}, OpInterrupt: nil, OpSignal: Signal{Signal: "SIGINT"},
		OpClose: nil, OpFileStat: FileRead{Path: "x"}, OpFileRead: FileRead{Path: "x"}, OpReseed: Reseed{Seed: "00", Hostname: "h"},
		OpPing: nil, OpStats: nil,
	} {
		params, err := json.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		body, err := json.Marshal(Request{ID: 1, Op: op, Channel: 1, Params: params})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(stream.Control), uint8(0), uint32(1), body)
	}
	f.Add(uint8(stream.Input), uint8(1), uint32(1), []byte("12345678x"))
	f.Add(uint8(stream.Data), uint8(5), uint32(1), []byte("x"))
	f.Add(uint8(stream.Ack), uint8(0), uint32(1), []byte("\x40\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, kind, flags uint8, channel uint32, body []byte) {
		if strings.Contains(string(body), "file.write") {
			return // it would write, with the user's rights, where it likes
		}
		s.handle(stream.Frame{Type: stream.Type(kind), Flags: flags, Channel: channel, Body: body})
		s.mu.Lock()
		for _, tr := range s.transfers {
			tr.abort()
		}
		s.mu.Unlock()
	})
}
