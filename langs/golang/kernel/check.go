package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/sandgate/sandgate/langs/golang/kernel/session"
	"github.com/sandgate/sandgate/langs/golang/kernel/tools"
	"github.com/sandgate/sandgate/langs/golang/kernel/wire"
)

// check runs two cells, the second with the state of the first, and reports errors, so that no
// image is made with a kernel that does not work in it.
func check(dir tools.Dir, work string) error {
	from, to, err := os.Pipe()
	if err != nil {
		return err
	}
	said := make(chan []byte)
	go func() {
		b, _ := io.ReadAll(from)
		said <- b
	}()
	s, err := session.New(dir, work, wire.NewOutput(to))
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for i, code := range []string{
		"type t struct{ n int }\nx := []t{{41}}",
		"x[0].n++\nfmt.Sprint(x[0].n, json.Valid(nil))",
	} {
		body, err := json.Marshal(wire.Request{Op: "execute", ID: uint64(i + 1), Code: code})
		if err != nil {
			return err
		}
		in.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
		in.Write(append([]byte{1}, make([]byte, 11)...))
		in.Write(body)
	}
	if err := s.Serve(&in); err != nil {
		return err
	}
	to.Close()
	out := <-said
	if !bytes.Contains(out, []byte(`\"42 false\"`)) {
		return fmt.Errorf("two cells gave: %q", out)
	}
	return nil
}
