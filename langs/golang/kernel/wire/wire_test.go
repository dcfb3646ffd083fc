package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"os"
	"testing"
)

func frameOf(kind byte, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
	b = append(append(b, kind), make([]byte, 11)...)
	return append(b, body...)
}

func TestRead(t *testing.T) {
	in := bytes.NewReader(bytes.Join([][]byte{
		frameOf(control, `{"op":"execute","id":7,"cell":3,"code":"x"}`),
		frameOf(control, `{"op":1,"id":8}`), frameOf(9, "x"),
	}, nil))
	if q, err := Read(in); err != nil || q.Op != "execute" || q.ID != 7 || q.Cell != 3 {
		t.Errorf("%+v, %v", q, err)
	}
	if q, err := Read(in); !errors.Is(err, ErrMalformed) || q.ID != 8 {
		t.Errorf("%+v, %v", q, err)
	}
	if _, err := Read(in); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := Read(in); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(frameOf(control, `{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for r := bytes.NewReader(b); ; {
			if _, err := Read(r); err != nil && !errors.Is(err, ErrMalformed) {
				return
			}
		}
	})
}

// TestOutputKeepsOrder writes to both streams and checks that text of one stream and cell is
// joined, and that the order is kept.
func TestOutputKeepsOrder(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o := NewOutput(w)
	o.Stdout(1, []byte("a"))
	o.Stdout(1, []byte("b"))
	o.Stderr(1, []byte("c"))
	o.Stdout(2, []byte("d"))
	o.Message(2, []byte(`{}`))
	o.Reply(Reply{Op: "reply", ID: 5, Status: "ok"})
	w.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	type frame struct {
		kind byte
		cell uint32
		body string
	}
	want := []frame{{stdout, 1, "ab"}, {stderr, 1, "c"}, {stdout, 2, "d"}, {message, 2, "{}"}}
	for _, x := range want {
		n := binary.BigEndian.Uint32(all)
		got := frame{all[4], binary.BigEndian.Uint32(all[12:]), string(all[16 : 16+n])}
		if got != x || all[5] != flagClear {
			t.Errorf("got %+v, flags %d, wanted %+v", got, all[5], x)
		}
		all = all[16+n:]
	}
	var last Reply
	if err := json.Unmarshal(all[16:], &last); err != nil || last.ID != 5 {
		t.Errorf("%s: %v", all, err)
	}
}

// TestLargeTextIsCut checks that no frame is larger than the limit.
func TestLargeTextIsCut(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		o := NewOutput(w)
		o.Stdout(1, bytes.Repeat([]byte("x"), 5<<20))
		o.Flush()
		w.Close()
	}()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for len(all) > 0 {
		n := int(binary.BigEndian.Uint32(all))
		if n > maxText {
			t.Fatalf("a frame of %d bytes", n)
		}
		total, all = total+n, all[16+n:]
	}
	if total != 5<<20 {
		t.Errorf("%d bytes came", total)
	}
}
