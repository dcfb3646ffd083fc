package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sandgate/sandgate/protocol/frame"
)

// TestSaveLog: a log continues in the next process as if nothing had happened, for an earlier
// reader and for a new one.
func TestSaveLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	o := LogOptions{Dir: dir, Memory: 256 << 10}
	l, err := NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	l.stallAfter = patience
	var want bytes.Buffer
	write := func(l *Log, n int) {
		for i := range n {
			line := fmt.Appendf(nil, "%d %d %s\n", want.Len(), i, bytes.Repeat([]byte("x"), i%300))
			if _, err := l.Append(frame.KindStdout, 1, line); err != nil {
				t.Fatal(err)
			}
			want.Write(line)
		}
	}
	read := func(l *Log, epoch uint64, offset int64) ([]byte, int64) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		end := l.Bounds().End
		r := l.Reader(epoch, offset, 0)
		defer r.Close()
		var got []byte
		for offset < end {
			c, err := r.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for rest := c.Records; len(rest) > 0; {
				var rec frame.Record
				rec, rest, err = frame.ParseRecord(rest)
				if err != nil || rec.Kind == frame.KindGap {
					t.Fatalf("%v, a record of kind %d", err, rec.Kind)
				}
				if rec.Kind == frame.KindStdout {
					got = append(got, rec.Payload...)
				}
			}
			offset = c.End()
			if err := r.Ack(offset); err != nil {
				t.Fatal(err)
			}
		}
		return got, offset
	}
	write(l, 100)
	first, at := read(l, 0, 0)
	for round := range 3 {
		write(l, 5000)
		b := l.Bounds()
		s, err := l.Save()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(frame.KindStdout, 1, []byte("late")); err == nil {
			t.Error("a saved log takes more")
		}
		if l, err = OpenLog(o, s); err != nil {
			t.Fatal(err)
		}
		l.stallAfter = patience
		if got := l.Bounds(); got != b {
			t.Fatalf("round %d: %+v after, %+v before", round, got, b)
		}
		write(l, 10)
		if rest, _ := read(l, s.Epoch, at); !bytes.Equal(append(bytes.Clone(first), rest...),
			want.Bytes()) {
			t.Fatalf("round %d: the reader from before has another text", round)
		}
	}
	if err := l.End(frame.KindExit, nil); err != nil {
		t.Fatal(err)
	}
	s, err := l.Save()
	if err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(o, s); err != nil {
		t.Fatal(err)
	}
	if all, _ := read(l, 0, 0); !bytes.Equal(all, want.Bytes()) || !l.Bounds().Ended {
		t.Error("the whole text is another")
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("files remain: %v", err)
	}
}
