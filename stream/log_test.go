package stream

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/frame"
)

// clock is a time that only the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMicro(1_700_000_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// patience replaces stallAfter in tests: on a busy machine the spiller may not run for a second
// although the disk has not stalled.
const patience = 2 * time.Minute

func newLog(t testing.TB, o LogOptions) *Log {
	t.Helper()
	l, err := NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	l.stallAfter = patience
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return l
}

func mustAppend(t testing.TB, l *Log, kind frame.Kind, cell uint32, payload string) int64 {
	t.Helper()
	off, err := l.Append(kind, cell, []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return off
}

// parse splits encoded records, which it copies.
func parse(t testing.TB, b []byte) []frame.Record {
	t.Helper()
	var all []frame.Record
	for len(b) > 0 {
		r, rest, err := frame.ParseRecord(b)
		if err != nil {
			t.Fatal(err)
		}
		r.Payload = bytes.Clone(r.Payload)
		all, b = append(all, r), rest
	}
	return all
}

// whole reports whether b consists of whole records.
func whole(b []byte) bool {
	for len(b) > 0 {
		if len(b) < frame.RecordHeaderSize {
			return false
		}
		n := frame.RecordSize(b)
		if n > int64(len(b)) {
			return false
		}
		b = b[n:]
	}
	return true
}

func asGap(t testing.TB, c Chunk) (frame.Gap, bool) {
	t.Helper()
	r, rest, err := frame.ParseRecord(c.Records)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != frame.KindGap {
		return frame.Gap{}, false
	}
	var g frame.Gap
	if err := json.Unmarshal(r.Payload, &g); err != nil {
		t.Fatal(err)
	}
	if len(rest) != 0 || g.To != c.Offset || g.Bytes != g.To-g.From || c.End() != c.Offset {
		t.Fatalf("gap %+v in a chunk at %d with %d bytes behind it", g, c.Offset, len(rest))
	}
	return g, true
}

// drain reads and acknowledges until the reader would wait or the log ends.
func drain(t testing.TB, r *LogReader) (records []frame.Record, gaps []frame.Gap) {
	t.Helper()
	for {
		c, ok, err := r.next("test")
		if err == io.EOF || err == nil && !ok {
			return records, gaps
		}
		if err != nil {
			t.Fatal(err)
		}
		if g, is := asGap(t, c); is {
			gaps = append(gaps, g)
		} else {
			records = append(records, parse(t, c.Records)...)
		}
		if err := r.Ack(c.End()); err != nil {
			t.Fatal(err)
		}
	}
}

// consistent compares the log's counters with its content.
func consistent(t testing.TB, l *Log) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var mem, dirty, held, at, largest int64
	for _, b := range l.blocks {
		if b.start < at || b.size == 0 {
			t.Fatalf("a block at %d of %d bytes after one that ends at %d", b.start, b.size, at)
		}
		if b.buf == nil && b.seg == nil {
			t.Fatalf("the block at %d is nowhere", b.start)
		}
		if b.buf != nil && (int64(len(b.buf)) != b.size || !whole(b.buf)) {
			t.Fatalf("the block at %d has %d bytes, not %d of whole records", b.start, len(b.buf),
				b.size)
		}
		at = b.end()
		held += b.size
		mem += int64(cap(b.buf))
		if b.start >= l.spillAt {
			dirty += int64(cap(b.buf))
		}
		largest = max(largest, int64(cap(b.buf)))
	}
	if mem != l.mem || dirty != l.dirty || held+l.stats.DroppedBytes != l.end || at > l.end {
		t.Fatalf("counted mem %d dirty %d dropped %d end %d; found mem %d dirty %d held %d end %d",
			l.mem, l.dirty, l.stats.DroppedBytes, l.end, mem, dirty, held, at)
	}
	if bound := max(l.memory, largest) + 2*l.blockSize; mem > bound {
		t.Fatalf("%d bytes in memory, the bound is %d", mem, bound)
	}
	for _, b := range l.blocks {
		if b.seg != nil && !slices.Contains(l.segments, b.seg) {
			t.Fatalf("the block at %d is said to be in a file that is gone", b.start)
		}
	}
	var disk int64
	for _, s := range l.segments {
		disk += s.size
	}
	if disk != l.onDisk || disk > l.disk {
		t.Fatalf("%d bytes on disk, counted %d, the bound is %d", disk, l.onDisk, l.disk)
	}
}

func TestLogKeepsOrderAndTime(t *testing.T) {
	c := newClock()
	l := newLog(t, LogOptions{Now: c.Now})
	var want []frame.Record
	var at int64
	for i, k := range []frame.Kind{
		frame.KindMessage, frame.KindStdout, frame.KindStderr, frame.KindStdout, frame.KindEvent,
		frame.KindStdout,
	} {
		payload := strings.Repeat("p", i)
		if off := mustAppend(t, l, k, uint32(i), payload); off != at {
			t.Fatalf("record %d is at %d, want %d", i, off, at)
		}
		want = append(want, frame.Record{
			Kind: k, Cell: uint32(i), Time: c.Now().UnixMicro(),
			Payload: []byte(payload),
		})
		at += want[i].Size()
		c.Add(time.Second)
	}
	if err := l.End(frame.KindExit, []byte(`{"code":0}`)); err != nil {
		t.Fatal(err)
	}
	want = append(want, frame.Record{
		Kind: frame.KindExit, Time: c.Now().UnixMicro(),
		Payload: []byte(`{"code":0}`),
	})
	at += want[len(want)-1].Size()
	if b := l.Bounds(); b.Oldest != 0 || b.End != at || !b.Ended || b.Epoch == 0 ||
		b.Epoch >= 1<<48 {
		t.Errorf("bounds %+v, want end %d", b, at)
	}
	got, gaps := drain(t, l.Reader(0, 0, 0))
	if len(gaps) != 0 || len(got) != len(want) {
		t.Fatalf("%d records and %d gaps, want %d and none", len(got), len(gaps), len(want))
	}
	for i, w := range want {
		g := got[i]
		if g.Kind != w.Kind || g.Cell != w.Cell || g.Time != w.Time ||
			!bytes.Equal(g.Payload, w.Payload) {
			t.Errorf("record %d is %+v, want %+v", i, g, w)
		}
	}
	if _, err := l.Append(frame.KindStdout, 0, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("append after the end: %v", err)
	}
	if err := l.End(frame.KindExit, nil); !fault.Is(err, fault.Conflict) {
		t.Errorf("second end: %v", err)
	}
}

func TestLogRefusesWhatIsNoRecord(t *testing.T) {
	l := newLog(t, LogOptions{})
	for _, k := range []frame.Kind{0, frame.KindGap, frame.KindExit, 7, 255} {
		if _, err := l.Append(k, 0, nil); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("kind %d: %v", k, err)
		}
	}
	if err := l.End(frame.KindGap, nil); !fault.Is(err, fault.InvalidArgument) {
		t.Errorf("a gap as the end: %v", err)
	}
	if _, err := l.Append(frame.KindMessage, 0, make([]byte, MaxPayload+1)); !fault.Is(err,
		fault.TooLarge) {
		t.Errorf("a payload over the limit: %v", err)
	}
	if _, err := l.Append(frame.KindMessage, 0, make([]byte, MaxPayload)); err != nil {
		t.Errorf("a payload at the limit: %v", err)
	}
	c, err := l.Reader(0, 0, 0).Next(t.Context())
	if err != nil || len(frame.AppendRecords(nil, c.Offset, c.Records)) != frame.MaxBody {
		t.Errorf("the biggest record must just fit a frame: %d, %v", len(c.Records), err)
	}
	for _, o := range []LogOptions{{Memory: -1}, {Disk: -1}} {
		if _, err := NewLog(o); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewLog(LogOptions{Dir: filepath.Join(file, "dir")}); !fault.Is(err, fault.Host) {
		t.Errorf("a folder that cannot be: %v", err)
	}
}

func TestSmallOutputIsJoinedUntilSomebodySeesItsEnd(t *testing.T) {
	c := newClock()
	l := newLog(t, LogOptions{Now: c.Now})
	same := func(a, b int64, why string) {
		t.Helper()
		if a != b {
			t.Errorf("%s: not joined", why)
		}
	}
	differ := func(a, b int64, why string) {
		t.Helper()
		if a == b {
			t.Errorf("%s: joined", why)
		}
	}
	a := mustAppend(t, l, frame.KindStdout, 1, "a")
	same(a, mustAppend(t, l, frame.KindStdout, 1, "b"), "the same cell and kind")
	b := mustAppend(t, l, frame.KindStderr, 1, "c")
	differ(a, b, "another kind")
	a = mustAppend(t, l, frame.KindStderr, 2, "d")
	differ(a, b, "another cell")
	c.Add(JoinWithin)
	b = mustAppend(t, l, frame.KindStderr, 2, "e")
	same(a, b, "10 ms later")
	c.Add(1)
	b = mustAppend(t, l, frame.KindStderr, 2, "f")
	differ(a, b, "over 10 ms later")
	end := l.Bounds().End
	a = mustAppend(t, l, frame.KindStderr, 2, "g")
	differ(a, b, "after Bounds")
	same(a, end, "the end that Bounds gave")
	l.Reader(0, -1, 0).Close()
	b = mustAppend(t, l, frame.KindStderr, 2, "h")
	differ(a, b, "after a reader at the end")
	r := l.Reader(0, a, 0)
	b = mustAppend(t, l, frame.KindStderr, 2, "i")
	if _, err := r.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	differ(mustAppend(t, l, frame.KindStderr, 2, "j"), b, "after delivery")
	differ(mustAppend(t, l, frame.KindMessage, 2, "{}"), mustAppend(t, l, frame.KindMessage, 2, "{}"),
		"messages")
	a = mustAppend(t, l, frame.KindStdout, 3, strings.Repeat("x", MaxJoin-1))
	mustAppend(t, l, frame.KindStdout, 4, "")
	for range 3 {
		mustAppend(t, l, frame.KindStdout, 4, strings.Repeat("y", MaxJoin/2-10))
	}
	l.Bounds()
	got, _ := drain(t, l.Reader(0, a, 0))
	for _, g := range got {
		if len(g.Payload) > MaxJoin {
			t.Errorf("%d bytes were joined", len(g.Payload))
		}
	}
	if len(got) != 3 {
		t.Errorf("%d records, want 3", len(got))
	}
}

func TestMillionByteWritesCostLittle(t *testing.T) {
	l := newLog(t, LogOptions{Memory: 2 << 20, Now: newClock().Now})
	for i := range 1_000_000 {
		mustAppend(t, l, frame.KindStdout, 1, string(rune('a'+i%26)))
	}
	if b := l.Bounds(); b.Oldest != 0 || b.End > 1_001_000 {
		t.Errorf("1,000,000 bytes took %d", b.End)
	}
	var n int
	got, _ := drain(t, l.Reader(0, 0, 0))
	for _, r := range got {
		for _, p := range r.Payload {
			if p != byte('a'+n%26) {
				t.Fatalf("byte %d is %c", n, p)
			}
			n++
		}
	}
	if n != 1_000_000 {
		t.Errorf("%d bytes came back", n)
	}
}

func TestReaderBegins(t *testing.T) {
	for _, where := range []string{"memory", "disk"} {
		o := LogOptions{Memory: 1 << 20, Now: newClock().Now}
		if where == "disk" {
			o.Memory, o.Dir = 4096, filepath.Join(t.TempDir(), "log")
		}
		l := newLog(t, o)
		for range 1000 {
			mustAppend(t, l, frame.KindMessage, 0, "0123456789") // 30 bytes each
		}
		b := l.Bounds()
		if b.Oldest != 0 || b.End != 30_000 {
			t.Fatalf("%s: bounds %+v", where, b)
		}
		for _, c := range []struct {
			epoch  uint64
			offset int64
			want   int64 // -1 for InvalidArgument
		}{
			{0, 0, 0},
			{b.Epoch, 30, 30},
			{b.Epoch, 30_000, 30_000},
			{0, 29_970, 29_970},
			{b.Epoch, 30_001, -1},
			{0, math.MaxInt64, -1},
			{0, 1, -1},
			{b.Epoch, 29, -1},
			{b.Epoch, 31, -1},
			{0, 29_999, -1},
			{0, -1, 30_000},
			{0, -frame.RecordHeaderSize + 1, 30_000},
			{0, -frame.RecordHeaderSize, 29_970}, // one record, larger than requested
			{0, -29, 29_970},
			{0, -30, 29_970},
			{b.Epoch, -59, 29_970},
			{b.Epoch + 1, -59, 29_970},
			{0, -30_000, 0},
			{0, -30_001, 0},
			{0, math.MinInt64, 0},
			{b.Epoch + 1, 30_001, 0},
		} {
			r := l.Reader(c.epoch, c.offset, 0)
			start, err := r.Start()
			if c.want < 0 {
				_, nextErr := r.Next(t.Context())
				if !fault.Is(err, fault.InvalidArgument) || nextErr != err ||
					err.(*fault.Error).Field != "offset" {
					t.Errorf("%s: offset %d: %v and %v", where, c.offset, err, nextErr)
				}
			} else if err != nil || start != c.want {
				t.Errorf("%s: offset %d begins at %d, want %d, %v", where, c.offset, start, c.want,
					err)
			}
			r.Close()
		}
		if n := l.Stats().Readers; n != 0 {
			t.Errorf("%s: %d readers are left", where, n)
		}
	}
}

func TestGapIsExact(t *testing.T) {
	l := newLog(t, LogOptions{Memory: 4096, Now: newClock().Now})
	early := l.Reader(0, 0, 0)
	for range 1000 {
		mustAppend(t, l, frame.KindMessage, 0, "0123456789")
	}
	b := l.Bounds()
	if b.Oldest == 0 || b.Oldest != l.Stats().DroppedBytes {
		t.Fatalf("bounds %+v, dropped %d", b, l.Stats().DroppedBytes)
	}
	for name, r := range map[string]*LogReader{
		"from the beginning": early, "late": l.Reader(0, 0, 0),
		"another epoch":  l.Reader(b.Epoch+1, 4711, 0),
		"the same epoch": l.Reader(b.Epoch, 0, 0),
	} {
		records, gaps := drain(t, r)
		if len(gaps) != 1 || gaps[0] != (frame.Gap{From: 0, To: b.Oldest, Bytes: b.Oldest}) {
			t.Errorf("%s: gaps %+v, want one to %d", name, gaps, b.Oldest)
		}
		if int64(len(records)) != (b.End-b.Oldest)/30 {
			t.Errorf("%s: %d records", name, len(records))
		}
	}
	// Offsets that are no longer in the log cannot be checked.
	if _, gaps := drain(t, l.Reader(b.Epoch, 7, 0)); len(gaps) != 1 || gaps[0].From != 7 {
		t.Errorf("gaps %+v", gaps)
	}
	if _, gaps := drain(t, l.Reader(b.Epoch, -b.End, 0)); len(gaps) != 0 {
		t.Errorf("the last bytes at most begin with gaps %+v", gaps)
	}
}

func TestNewEpochIsAlwaysReported(t *testing.T) {
	l := newLog(t, LogOptions{})
	r := l.Reader(l.Bounds().Epoch+1, 1000, 0)
	c, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if g, is := asGap(t, c); !is || g != (frame.Gap{}) {
		t.Errorf("the first chunk is %+v, want an empty gap", g)
	}
	mustAppend(t, l, frame.KindStdout, 0, "x")
	if c, err := r.Next(t.Context()); err != nil || c.Offset != 0 {
		t.Errorf("then %d, %v", c.Offset, err)
	}
}

func TestCreditIsExact(t *testing.T) {
	l := newLog(t, LogOptions{Now: newClock().Now})
	for range 10 {
		mustAppend(t, l, frame.KindMessage, 0, strings.Repeat("x", 80)) // 100 bytes each
	}
	mustAppend(t, l, frame.KindMessage, 0, strings.Repeat("x", 980)) // 1000 bytes
	mustAppend(t, l, frame.KindMessage, 0, strings.Repeat("x", 80))
	r := l.Reader(0, 0, 350)
	next := func(want int) {
		t.Helper()
		c, ok, err := r.next("test")
		if err != nil || ok != (want > 0) || len(c.Records) != want {
			t.Fatalf("got %d bytes, %v, want %d", len(c.Records), err, want)
		}
	}
	ack := func(offset int64) {
		t.Helper()
		if err := r.Ack(offset); err != nil {
			t.Fatal(err)
		}
	}
	next(300)
	next(100) // 50 bytes of credit remain: one record passes
	next(0)
	ack(50) // 350 outstanding
	next(0)
	ack(51)
	next(100)
	ack(40) // never decreases
	if r.Acked() != 51 {
		t.Errorf("acked %d", r.Acked())
	}
	next(0)
	ack(500)
	next(300)
	next(100)
	next(0)
	// 1000 bytes through a window of 350, then the last record.
	ack(700)
	next(100)
	next(1000)
	next(0)
	ack(1650)
	next(0)
	ack(1651)
	next(100)
	for _, bad := range []int64{-1, 2101, math.MaxInt64} {
		if err := r.Ack(bad); !fault.Is(err, fault.InvalidArgument) {
			t.Errorf("ack %d: %v", bad, err)
		}
	}
	ack(2100)
	r = l.Reader(0, 0, 300)
	next(300) // fits exactly
	next(0)
}

func TestGapCostsNoCredit(t *testing.T) {
	l := newLog(t, LogOptions{Memory: 2048, Now: newClock().Now})
	r := l.Reader(0, 0, 1000)
	mustAppend(t, l, frame.KindMessage, 0, strings.Repeat("x", 480))
	if c, _, _ := r.next("test"); len(c.Records) != 500 {
		t.Fatal("no first record")
	}
	for range 100 {
		mustAppend(t, l, frame.KindMessage, 0, strings.Repeat("x", 80))
	}
	c, _, _ := r.next("test")
	if g, is := asGap(t, c); !is || g.From != 500 {
		t.Fatalf("no gap: %+v", g)
	}
	sent := 500
	for {
		c, ok, err := r.next("test")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
		sent += len(c.Records)
	}
	if sent != 1000 {
		t.Errorf("%d bytes were sent in a window of 1000", sent)
	}
	if err := r.Ack(c.Offset - 1); err != nil { // within the gap: returns the 500 bytes of credit
		t.Fatal(err)
	}
	if c, ok, _ := r.next("test"); !ok || len(c.Records) == 0 {
		t.Error("the acknowledgement gave no credit back")
	}
}

func TestNextWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLog(LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		epoch := l.Bounds().Epoch
		type result struct {
			c   Chunk
			err error
		}
		results := make(chan result)
		wait := func(ctx context.Context, r *LogReader) {
			go func() {
				c, err := r.Next(ctx)
				results <- result{c, err}
			}()
			synctest.Wait() // until it is blocked
		}
		r := l.Reader(epoch, 0, 10)
		wait(t.Context(), r)
		mustAppend(t, l, frame.KindStdout, 0, "data")
		if got := <-results; got.err != nil || len(got.c.Records) != 24 {
			t.Fatalf("after an append: %+v", got)
		}
		mustAppend(t, l, frame.KindStdout, 0, "more")
		wait(t.Context(), r)
		if err := r.Ack(24); err != nil {
			t.Fatal(err)
		}
		if got := <-results; got.err != nil || len(got.c.Records) != 24 {
			t.Fatalf("after an ack: %+v", got)
		}
		if err := r.Ack(48); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		wait(ctx, r)
		cancel()
		if got := <-results; !fault.Is(got.err, fault.Canceled) {
			t.Errorf("after cancel: %v", got.err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Minute)
		wait(ctx, r)
		if got := <-results; !fault.Is(got.err, fault.DeadlineExceeded) {
			t.Errorf("after the deadline: %v", got.err)
		}
		cancel()
		wait(t.Context(), r)
		r.Close()
		r.Close()
		if got := <-results; !fault.Is(got.err, fault.Canceled) {
			t.Errorf("after Close: %v", got.err)
		}
		r = l.Reader(epoch, 48, 0)
		wait(t.Context(), r)
		if err := l.End(frame.KindExit, nil); err != nil {
			t.Fatal(err)
		}
		if got := <-results; got.err != nil || len(got.c.Records) != 20 {
			t.Errorf("after End: %+v", got)
		}
		if _, err := r.Next(t.Context()); err != io.EOF {
			t.Errorf("behind the end: %v", err)
		}
		r = l.Reader(0, 0, 1)
		if _, err := r.Next(t.Context()); err != nil { // uses the credit
			t.Fatal(err)
		}
		wait(t.Context(), r)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got := <-results; !fault.Is(got.err, fault.NotFound) {
			t.Errorf("after the log's Close: %v", got.err)
		}
		if _, err := l.Append(frame.KindStdout, 0, nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("append to a closed log: %v", err)
		}
		if _, err := l.Reader(0, 0, 0).Start(); !fault.Is(err, fault.NotFound) {
			t.Errorf("reader of a closed log: %v", err)
		}
	})
}

// TestParkedReadersAreForgotten: a log without output must not keep the many viewers that came and
// left.
func TestParkedReadersAreForgotten(t *testing.T) {
	l := newLog(t, LogOptions{})
	for range 100 {
		r := l.Reader(0, 0, 0)
		if _, ok, err := r.next("test"); ok || err != nil {
			t.Fatal(ok, err)
		}
		r.Close()
	}
	if len(l.waiters) != 0 || len(l.readers) != 0 {
		t.Errorf("%d wait, %d readers", len(l.waiters), len(l.readers))
	}
}

func TestCloseRemovesFiles(t *testing.T) {
	parent := t.TempDir()
	o := LogOptions{Dir: filepath.Join(parent, "a", "log"), Memory: 4096, Disk: 1 << 20}
	one, two := newLog(t, o), newLog(t, o)
	for range 2000 {
		mustAppend(t, one, frame.KindMessage, 0, "0123456789")
		mustAppend(t, two, frame.KindMessage, 0, "0123456789")
	}
	files, err := filepath.Glob(filepath.Join(o.Dir, "*.seg"))
	if err != nil || len(files) < 2 {
		t.Fatalf("files %v, %v", files, err)
	}
	if err := one.Close(); err != nil {
		t.Fatal(err)
	}
	if records, gaps := drain(t, two.Reader(0, 0, 0)); len(records) != 2000 || len(gaps) != 0 {
		t.Errorf("the other log: %d records, %d gaps", len(records), len(gaps))
	}
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(o.Dir, "*")); len(left) != 0 {
		t.Errorf("%v are left", left)
	}
	// The log that created the folder was closed while another used it.
	if _, err := os.Stat(o.Dir); err != nil {
		t.Errorf("the folder: %v", err)
	}
	o.Dir = filepath.Join(parent, "b")
	three := newLog(t, o)
	if err := three.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder of a single log: %v", err)
	}
}

// truth has everything that was appended to the log, by offset.
type truth struct {
	bytes []byte
	// out has the payloads in order; successive payloads of one kind and cell are joined.
	out []frame.Record
}

// append appends to the log and records the result.
func (tr *truth) append(t testing.TB, l *Log, kind frame.Kind, cell uint32, payload []byte) {
	t.Helper()
	off, err := l.Append(kind, cell, payload)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	b := l.blocks[len(l.blocks)-1]
	record := bytes.Clone(b.buf[off-b.start:])
	l.mu.Unlock()
	if off > int64(len(tr.bytes)) {
		t.Fatalf("appended at %d, the end was %d", off, len(tr.bytes))
	}
	tr.bytes = append(tr.bytes[:off], record...)
	tr.note(frame.Record{Kind: kind, Cell: cell, Payload: payload})
}

func (tr *truth) note(r frame.Record) {
	if n := len(tr.out); n > 0 && tr.out[n-1].Kind == r.Kind && tr.out[n-1].Cell == r.Cell {
		tr.out[n-1].Payload = append(tr.out[n-1].Payload, r.Payload...)
		return
	}
	r.Payload = bytes.Clone(r.Payload)
	tr.out = append(tr.out, r)
}

// check checks that the records are the appended ones.
func (tr *truth) check(t testing.TB) {
	t.Helper()
	var got truth
	for _, r := range parse(t, tr.bytes) {
		got.note(r)
	}
	if len(got.out) != len(tr.out) {
		t.Fatalf("%d runs of records, %d were appended", len(got.out), len(tr.out))
	}
	for i, w := range tr.out {
		g := got.out[i]
		if g.Kind != w.Kind || g.Cell != w.Cell || !bytes.Equal(g.Payload, w.Payload) {
			t.Fatalf("run %d of records is not what was appended", i)
		}
	}
}

// viewer is a reader and the output that it must get.
type viewer struct {
	r      *LogReader
	window int64
	pos    int64
	acked  int64
	sent   []Chunk // the bytes of records are not kept
	bytes  int64   // in records
	gap    int64   // in gaps
}

// step reads one chunk, if there is one, and checks it completely.
func (v *viewer) step(t testing.TB, tr *truth) bool {
	t.Helper()
	var outstanding int64
	for _, c := range v.sent {
		outstanding += max(0, c.End()-max(c.Offset, v.acked))
	}
	c, ok, err := v.r.next("test")
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if !ok {
		if v.pos < int64(len(tr.bytes)) && outstanding < v.window {
			t.Fatalf("nothing at %d of %d with %d of %d outstanding", v.pos, len(tr.bytes),
				outstanding, v.window)
		}
		return false
	}
	if outstanding >= v.window {
		t.Fatalf("sent without credit: %d of %d outstanding", outstanding, v.window)
	}
	if g, is := asGap(t, c); is {
		if g.From != v.pos || g.To <= g.From {
			t.Fatalf("gap %+v at %d", g, v.pos)
		}
		v.gap += g.Bytes
		v.pos = g.To
		return true
	}
	n := int64(len(c.Records))
	if c.Offset != v.pos || c.End() > int64(len(tr.bytes)) ||
		!bytes.Equal(c.Records, tr.bytes[c.Offset:c.End()]) {
		t.Fatalf("the chunk at %d of %d bytes is not what was appended at %d", c.Offset, n, v.pos)
	}
	one := frame.RecordSize(c.Records) == n
	if (outstanding+n > v.window || n > MaxChunk) && !one {
		t.Fatalf("a chunk of %d bytes and more than one record with %d of %d outstanding", n,
			outstanding, v.window)
	}
	v.bytes += n
	v.pos = c.End()
	// The bytes are not kept, only their number.
	v.sent = append(v.sent, Chunk{Offset: c.Offset, Records: tr.bytes[c.Offset:c.End():c.End()]})
	return true
}

func (v *viewer) ack(t testing.TB, offset int64) {
	t.Helper()
	if err := v.r.Ack(offset); err != nil {
		t.Fatal(err)
	}
	v.acked = max(v.acked, offset)
	for len(v.sent) > 0 && v.sent[0].End() <= v.acked {
		v.sent = v.sent[1:]
	}
}

// play appends and reads as the random numbers decide. It checks that every viewer gets exactly the
// appended bytes, or the exact number of missing ones.
func play(t testing.TB, dir string, rnd *rand.Rand, steps int) {
	t.Helper()
	c := newClock()
	o := LogOptions{
		Memory: 1 + rnd.Int64N(1<<(8+rnd.IntN(9))), Disk: 1 + rnd.Int64N(1<<(8+rnd.IntN(11))),
		Now: c.Now,
	}
	if rnd.IntN(3) > 0 {
		o.Dir = dir
	}
	l, err := NewLog(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	var tr truth
	var viewers []*viewer
	attach := func(offset int64) *viewer {
		v := &viewer{window: 1 + rnd.Int64N(1<<(1+rnd.IntN(18)))}
		v.r = l.Reader([]uint64{0, l.epoch}[rnd.IntN(2)], offset, v.window)
		start, err := v.r.Start()
		if err != nil {
			t.Fatal(err)
		}
		if offset >= 0 && start != offset {
			t.Fatalf("a reader at %d begins at %d", offset, start)
		}
		v.pos, v.acked = start, start
		return v
	}
	for range steps {
		switch rnd.IntN(10) {
		default:
			size := rnd.IntN(1 << rnd.IntN(13))
			if rnd.IntN(50) == 0 {
				size = rnd.IntN(100_000)
			}
			payload := make([]byte, size)
			for i := range payload {
				payload[i] = byte(rnd.Uint32())
			}
			kinds := []frame.Kind{
				frame.KindStdout, frame.KindStdout, frame.KindStdout, frame.KindStderr,
				frame.KindMessage, frame.KindEvent,
			}
			tr.append(t, l, kinds[rnd.IntN(len(kinds))], uint32(rnd.IntN(2)), payload)
			c.Add(time.Duration(rnd.IntN(int(2 * time.Millisecond))))
		case 0:
			viewers = append(viewers, attach(0))
		case 1:
			viewers = append(viewers, attach(-1-rnd.Int64N(int64(len(tr.bytes))+10)))
		case 2:
			l.Bounds()
			consistent(t, l)
		case 3, 4, 5:
			if len(viewers) == 0 {
				continue
			}
			i := rnd.IntN(len(viewers))
			v := viewers[i]
			for range rnd.IntN(6) {
				v.step(t, &tr)
			}
			switch rnd.IntN(8) {
			case 0: // returns to the position where it stopped
				v.r.Close()
				viewers[i] = attach(v.pos)
			case 1:
				v.r.Close()
				viewers = append(viewers[:i], viewers[i+1:]...)
			default:
				if v.pos > v.acked {
					v.ack(t, v.acked+rnd.Int64N(v.pos-v.acked+1))
				}
			}
		}
	}
	if err := l.End(frame.KindExit, nil); err != nil {
		t.Fatal(err)
	}
	tr.bytes = append(tr.bytes,
		frame.AppendRecord(nil, frame.Record{Kind: frame.KindExit, Time: c.Now().UnixMicro()})...)
	tr.note(frame.Record{Kind: frame.KindExit})
	tr.check(t)
	viewers = append(viewers, attach(0))
	for _, v := range viewers {
		first := v.pos - v.bytes - v.gap
		for v.step(t, &tr) || v.acked < v.pos {
			v.ack(t, v.pos)
		}
		if _, err := v.r.Next(context.Background()); err != io.EOF {
			t.Fatalf("the end is %v", err)
		}
		if end := int64(len(tr.bytes)); first+v.bytes+v.gap != end || v.pos != end {
			t.Fatalf("from %d %d bytes came and %d are missing, the end is %d", first, v.bytes,
				v.gap, end)
		}
		v.r.Close()
	}
	l.spiller.Wait()
	consistent(t, l)
	if b := l.Bounds(); b.End != int64(len(tr.bytes)) || !b.Ended {
		t.Fatalf("bounds %+v, want %d", b, len(tr.bytes))
	}
	if s := l.Stats(); s.ReadErrors != 0 || s.SpillErrors != 0 {
		t.Fatalf("a disk that works is said to have failed: %+v", s)
	}
}

func TestViewersGetRecordsOrGaps(t *testing.T) {
	for seed := range uint64(120) {
		play(t, t.TempDir(), rand.New(rand.NewPCG(seed, 1)), 400)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzLog(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint16(100))
	f.Add(uint64(3), uint64(4), uint16(1000))
	f.Fuzz(func(t *testing.T, a, b uint64, steps uint16) {
		play(t, t.TempDir(), rand.New(rand.NewPCG(a, b)), int(steps%2000))
	})
}

// TestSkip: a reader that skips gets a gap for the skipped records, and none for records that it
// had already passed.
func TestSkip(t *testing.T) {
	l, err := NewLog(LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var at []int64
	for i := range 4 {
		offset, err := l.Append(frame.KindMessage, 0, []byte{byte('a' + i)})
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, offset)
	}
	r := l.Reader(0, 0, 0)
	defer r.Close()
	r.Skip(at[2])
	r.Skip(at[1])
	c, err := r.Next(context.Background())
	if err != nil || frame.Kind(c.Records[4]) != frame.KindGap || c.Offset != at[2] ||
		!strings.Contains(string(c.Records), fmt.Sprintf(`{"from":0,"to":%d,"bytes":%d}`, at[2],
			at[2])) {
		t.Fatalf("the skip gives %q at %d, %v", c.Records, c.Offset, err)
	}
	if c, err = r.Next(context.Background()); err != nil || c.Offset != at[2] ||
		c.End() != l.Bounds().End {
		t.Errorf("then come %d to %d, %v", c.Offset, c.End(), err)
	}
	r.Skip(at[3])
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if c, err := r.Next(ctx); err == nil {
		t.Errorf("a skip backwards gives %q", c.Records)
	}
}

// TestFollow: a reader that follows continues near the end once it is too far behind, at once
// without credit and later whenever it has credit. It gets a gap for everything in between, and
// reads everything again once it no longer follows.
func TestFollow(t *testing.T) {
	l, err := NewLog(LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const size = frame.RecordHeaderSize + 980 // 1,000
	write := func(n int) {
		for range n {
			if _, err := l.Append(frame.KindMessage, 0, make([]byte, 980)); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(100)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	r := l.Reader(0, 0, 5*size)
	defer r.Close()
	next := func(what string, offset, end int64, gap bool) {
		t.Helper()
		c, err := r.Next(ctx)
		if err != nil || c.Offset != offset || c.End() != end ||
			(frame.Kind(c.Records[4]) == frame.KindGap) != gap {
			t.Fatalf("%s: %d to %d, %v", what, c.Offset, c.End(), err)
		}
	}
	next("all the credit", 0, 5*size, false)
	r.Follow(20*size, 3*size, 0)
	next("a gap without credit", 97*size, 97*size, true)
	write(100)
	if err := r.Ack(97 * size); err != nil {
		t.Fatal(err)
	}
	next("a gap with credit", 197*size, 197*size, true)
	next("the end", 197*size, 200*size, false)
	write(20)
	next("what is not too far behind", 200*size, 202*size, false)
	r.Follow(0, 0, 100*size)
	write(50)
	next("all of it again", 202*size, 260*size, false) // up to the end of a block
}
