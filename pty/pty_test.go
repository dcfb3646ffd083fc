package pty

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

func scan(parts ...string) *Scanner {
	c := NewScanner(Size{80, 24})
	for _, p := range parts {
		c.Write([]byte(p))
	}
	return c
}

// TestRestore: a new terminal gets the modes that a program has set, and not those that it has
// reset.
func TestRestore(t *testing.T) {
	for name, c := range map[string]struct{ out, has, lacks string }{
		"alternate screen": {"\x1b[?1049h", "\x1b[?1049h", ""},
		"and back":         {"\x1b[?1049h\x1b[?1049l", "\x1b[?1047l", "1049"},
		"mouse":            {"\x1b[?1000h\x1b[?1003;1006h", "\x1b[?1003h", "\x1b[?1000h"},
		"mouse's encoding": {"\x1b[?1003;1006h", "\x1b[?1006h", ""},
		"bracketed paste":  {"\x1b[?2004h", "\x1b[?2004h", "\x1b[?2004l"},
		"hidden cursor":    {"\x1b[?25l", "\x1b[?25l", "\x1b[?25h"},
		"keypad":           {"\x1b=", "\x1b=", "\x1b>"},
		"cursor keys":      {"\x1b[?1h", "\x1b[?1h", ""},
		"wrap":             {"\x1b[?7l", "\x1b[?7l", ""},
		"insert":           {"\x1b[4h", "\x1b[4h", ""},
		"colours": {
			"\x1b[1;38;5;200m\x1b[48:2::1:2:3m", "\x1b[0;1;38;5;200;48;2;1;2;3m",
			"",
		},
		"bright":            {"\x1b[95;104m", "\x1b[0;38;5;13;48;5;12m", ""},
		"colours taken off": {"\x1b[31;4:3m\x1b[24;39m", "\x1b[0m", "31"},
		"palette": {
			"\x1b]4;1;#ff0000\x07\x1b]10;rgb:1/2/3\x1b\\",
			"\x1b]4;1;#ff0000\x1b\\\x1b]10;rgb:1/2/3\x1b\\", "",
		},
		"palette back":     {"\x1b]4;1;#ff0000\x07\x1b]104\x07", "", "]4;"},
		"title":            {"\x1b]0;a\u202eb\x01c\x07", "\x1b]2;abc\x1b\\", ""},
		"line drawing":     {"\x1b(0", "\x1b(0", "\x1b(B"},
		"shifted":          {"\x1b)0\x0e", "\x1b)0\x0e", "\x0f"},
		"region":           {"\x1b[3;20r", "\x1b[3;20r", ""},
		"cursor's shape":   {"\x1b[5 q", "\x1b[5 q", ""},
		"kitty's keys":     {"\x1b[>1u\x1b[>3u\x1b[<u", "\x1b[>1u", "\x1b[>3u"},
		"other keys":       {"\x1b[>4;2m", "\x1b[>4;2m", ""},
		"8-bit controls":   {"\u009b?2004h\u009d2;t\u009c", "\x1b]2;t\x1b\\", "\x1b[?2004l"},
		"reset":            {"\x1b[?2004h\x1b[31m\x1b[?1049h\x1bc", "\x1b[?2004l", "1049"},
		"soft reset":       {"\x1b[?25l\x1b[4h\x1b[31m\x1b[!p", "\x1b[?25h", "31"},
		"saved":            {"\x1b[?2004h\x1b[?2004s\x1b[?2004l\x1b[?2004r", "\x1b[?2004h", ""},
		"saved cursor":     {"\x1b[31m\x1b7\x1b[32m\x1b8", "38;5;1m", "38;5;2m"},
		"half a sequence":  {"\x1b[?20", "\x1b[0m\x1b[?20", ""},
		"half a character": {"\xe6\xb8", "\x1b[0m\xe6\xb8", ""},
		"an endless string": {
			"\x1b]52;c;" + strings.Repeat("A", 9999), "\x1b[0m\x1b]88888;",
			"AAAA",
		},
		"synchronised": {"\x1b[?2026h", "", "2026"},
		"given up":     {"\x1b[?2004\x18h\x1b[?10\x1b[?1h", "\x1b[?1h", "\x1b[?2004h"},
	} {
		got := string(scan(c.out).State().Restore())
		if !strings.Contains(got, c.has) || c.lacks != "" && strings.Contains(got, c.lacks) {
			t.Errorf("%s: %q restores as %q, want %q in it and %q not", name, c.out, got, c.has,
				c.lacks)
		}
	}
}

// TestResume: a scanner continues from a state in the middle of a sequence.
func TestResume(t *testing.T) {
	out := "\x1b[?1049h\x1b[38;5;9mtext \u20ac\x1b]2;title\x07\x1b[?2004h"
	want := string(scan(out).State().Restore())
	for i := range len(out) {
		a := scan(out[:i])
		b := ResumeScanner(a.State())
		b.Write([]byte(out[i:]))
		if got := string(b.State().Restore()); got != want {
			t.Fatalf("cut at %d: %q, want %q", i, got, want)
		}
	}
}

// TestStatesAreValues: a returned state does not change later.
func TestStatesAreValues(t *testing.T) {
	c := scan("\x1b]4;1;red\x07")
	s := c.State()
	before := string(s.Restore())
	c.Write([]byte("\x1b]4;1;blue\x07\x1b]4;2;green\x07\x1b[?2004h"))
	if got := string(s.Restore()); got != before {
		t.Errorf("%q became %q", before, got)
	}
	if got := string(c.State().Restore()); !strings.Contains(got, "4;1;blue") {
		t.Errorf("the scanner says %q", got)
	}
}

// TestNormal: Reset brings every mode back to that of a new terminal.
func TestNormal(t *testing.T) {
	all := "\x1b[?1h\x1b[?7l\x1b[?25l\x1b[?1002;1006;1004;2004h\x1b[4h\x1b=\x1b[3;9r\x1b[>5u\x1b[?1049h\x1b[>7u\x1b[>4;1m\x1b[5 q\x1b]4;3;red\x07\x1b]11;blue\x07\x1b(0\x0e\x1b[31;1m"
	c := scan(all)
	c.Write(c.State().Reset())
	got, want := c.State(), scan("\x1b[0 q\x1b(B\x1b[0m").State()
	got.modes.touched, got.wasAlt, got.saved, got.cursor[1] = want.modes.touched, false, want.saved,
		want.cursor[1]
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("the way out leads to\n%+v, want\n%+v", got, want)
	}
}

func questions() []string {
	return []string{
		"\x1b[c", "\x1b[0c", "\x1b[>c", "\x1b[=c", "\x1b[5n", "\x1b[6n", "\x1b[?6n", "\x1b[?996n",
		"\x1b[?2004$p", "\x1b[4$p", "\x1b[>q", "\x1b[>0q",
		"\x1b[18t", "\x1b[21t", "\x1b[x", "\x1b[?u", "\x1b[?1;1;0S", "\x1bZ", "\x05", "\x1b[1$w",
		"\x1b[1;1;1;1;1;1*y",
		"\x1b]10;?\x07", "\x1b]11;?\x1b\\", "\x1b]4;1;?\x07", "\x1b]4;1;red;2;?\x07",
		"\x1b]52;c;?\x07", "\u009d11;?\u009c", "\x1b]21;foreground=?\x07",
		"\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Ga=q,i=1;AAAA\x1b\\", "\u009bc", "\u009b6n",
		"\x1b[0\n6n", "\x1b]1337;ReportCellSize\x07",
	}
}

// TestQueryFilter: old queries do not pass, in one piece or byte by byte, and nothing else is lost.
func TestQueryFilter(t *testing.T) {
	for _, ask := range questions() {
		stream := "a\x1b[31mb" + ask + "\x1b[?1049hc\u20ac"
		for _, step := range []int{1, 2, 3, len(stream)} {
			q := NewQueryFilter()
			var got []byte
			for i := 0; i < len(stream); i += step {
				got = q.Append(got, []byte(stream[i:min(i+step, len(stream))]))
			}
			got = q.End(got)
			want := "a\x1b[31mb\x1b[?1049hc\u20ac"
			if s := strings.ReplaceAll(strings.ReplaceAll(string(got), "\x1b\\", ""), "\u009c",
				""); s != want {
				t.Errorf("%q in steps of %d passes as %q", ask, step, got)
			}
		}
	}
	stay := "\x1b[1;31mx\x1b[2J\x1b[3;4H\x1b]2;is it?\x07\x1b]8;;http://a/?b\x07l\x1b]8;;\x07\x1b[5 q\x1b[22;0t\x1b[>4;2m\x1bPq#0\x1b\\\x1b]52;c;aGk=\x07" + strings.Repeat("z", 5000)
	q := NewQueryFilter()
	if got := string(q.End(q.Append(nil, []byte(stay)))); got != stay {
		t.Errorf("%q passes as %q", stay, got)
	}
	long := "\x1b]2;" + strings.Repeat("t", 2*maxSequence) + "\x07"
	q = NewQueryFilter()
	if got := string(q.End(q.Append(nil, []byte(long)))); got != long {
		t.Errorf("a long string of %d bytes passes as %d", len(long), len(got))
	}
	q = NewQueryFilter()
	got := string(q.Append(nil, []byte("\x1b[?1004;2004h")))
	if end := string(q.End(nil)); got != "\x1b[?2004h" || end != "\x1b[?1004h" {
		t.Errorf("a mode that reports passes as %q and %q", got, end)
	}
	q = NewQueryFilter()
	q.Append(nil, []byte("\x1b[?1004h\x1b[?1004l"))
	if end := string(q.End(nil)); end != "" {
		t.Errorf("a mode that is off again comes back: %q", end)
	}
}

func TestWithoutAnswers(t *testing.T) {
	for _, answer := range []string{
		"\x1b[?62;22c", "\x1b[>0;276;0c", "\x1b[12;40R", "\x1b[0n", "\x1b[?2004;1$y",
		"\x1b]11;rgb:0000/0000/0000\x1b\\", "\x1b]10;rgb:f/f/f\x07",
		"\x1bP1$r0m\x1b\\", "\x1bP>|XTerm(370)\x1b\\", "\x1b[I", "\x1b[O", "\x1b[8;24;80t",
		"\x1b[?1u", "\x1b_Gi=1;OK\x1b\\", "\x1b[?997;1n",
	} {
		if got := string(StripReplies([]byte("l" + answer + "s"))); got != "ls" {
			t.Errorf("%q leaves %q", answer, got)
		}
	}
	for _, keys := range []string{
		"ls\r", "\x1b", "\x1b[A", "\x1bOP", "\x1b[15~", "\x1b[1;5C", "\x1b[<0;10;20M",
		"\x1b[200~x\x1b[201~", "\x1bx", "\x1b[97;5u", "\x1b[", "\u20ac\x03", "\x1b[M !!",
		"\x1b\x1b[A",
	} {
		if got := string(StripReplies([]byte(keys))); got != keys {
			t.Errorf("the keys %q became %q", keys, got)
		}
	}
}

// hostile is text that tries to end its paste.
const hostile = "echo 1\n\x1b[201~\rrm -rf ~\r\x03\x04\u009b201~\x7f\x1b[20\x1b[201~1~\tend"

func TestPaste(t *testing.T) {
	got := string(Paste([]byte(hostile), true))
	inner := strings.TrimSuffix(strings.TrimPrefix(got, pasteBegin), pasteEnd)
	if len(got) != len(inner)+12 || strings.ContainsAny(inner, "\x1b\x03\x04\x7f\u009b\n") ||
		!strings.Contains(inner, "echo 1\r") || !strings.Contains(inner, "\tend") {
		t.Errorf("the paste is %q", got)
	}
	if got := string(Paste([]byte("a\r\nb\x1bc"), false)); got != "a\rb\u241bc" {
		t.Errorf("without brackets: %q", got)
	}
}

func TestPasteFilter(t *testing.T) {
	for name, c := range map[string]struct {
		in   []string
		want string
	}{
		"keys":    {[]string{"ls\r", "\x1b[A", "\x03"}, "ls\r\x1b[A\x03"},
		"a paste": {[]string{"\x1b[200~a\nb\x1b[201~x"}, "\x1b[200~a\rb\x1b[201~x"},
		"an end within": {
			[]string{"\x1b[200~a\x1b[201~\rrm\r\x1b[201~"},
			"\x1b[200~a\u241b[201~\rrm\r\x1b[201~",
		},
		"in pieces": {
			[]string{"x\x1b[200~a", "\x03b\x1b[20", "1~", "\x03"},
			"x\x1b[200~a\u2403b\x1b[201~\x03",
		},
		"no end": {
			[]string{"\x1b[200~a\x04", "b", "\x03", "\x04"},
			"\x1b[200~a\u2404b\x1b[201~\x03\x04",
		},
		"a split character": {
			[]string{"\x1b[200~\xe2\x82", "\xac\r", "\nb\x1b[201~"},
			"\x1b[200~\u20ac\rb\x1b[201~",
		},
		"two": {
			[]string{"\x1b[200~a\x1b[201~", "\x1b[200~b\x1b[201~"},
			"\x1b[200~a\x1b[201~\x1b[200~b\x1b[201~",
		},
	} {
		var g PasteFilter
		got := ""
		for _, in := range c.in {
			got += string(g.Filter([]byte(in)))
		}
		if got != c.want {
			t.Errorf("%s: %q became %q, want %q", name, c.in, got, c.want)
		}
	}
}

// FuzzScanner: the result does not depend on the pieces, a restored terminal is in the same state,
// and the restored bytes contain no query.
func FuzzScanner(f *testing.F) {
	for _, q := range questions() {
		f.Add([]byte("\x1b[31m"+q+"\x1b[?1049h"), 3)
	}
	f.Add(
		[]byte(
			"\x1b[?1003h\x1b[?1003s\x1b[?1002h\x1b[?1003r\x1b]2;\xe2\x80\xaex\x07\x1b(0\x0e\x1b[>1u\x1b[=3;2u\xc2"), 5)
	f.Fuzz(func(t *testing.T, out []byte, cut int) {
		if len(out) > 1<<16 {
			return
		}
		cut = min(max(cut, 0), len(out))
		whole, pieces := NewScanner(Size{80, 24}), NewScanner(Size{80, 24})
		whole.Write(out)
		pieces.Write(out[:cut])
		pieces = ResumeScanner(pieces.State())
		pieces.Write(out[cut:])
		want := whole.State().Restore()
		if got := pieces.State().Restore(); cutMatters(out[:cut]) && !bytes.Equal(got, want) {
			t.Errorf("cut at %d: %q, want %q", cut, got, want)
		}
		again := NewScanner(Size{80, 24})
		again.Write(want)
		if got := again.State().Restore(); !bytes.Equal(got, want) {
			t.Errorf("restored: %q, want %q", got, want)
		}
		p := parser{emit: func(k kind, b []byte) {
			if isQuery(k, b) {
				t.Errorf("the restored %q asks %q", want, b)
			}
		}}
		p.write(want)
	})
}

// cutMatters returns false if a State has dropped an overlong sequence, which then ends as another
// one.
func cutMatters(before []byte) bool {
	var p parser
	p.emit = func(kind, []byte) {}
	p.write(before)
	return p.in == plain || !p.over && len(p.buf) <= maxPartial
}

// FuzzQueryFilter: the output contains no query and does not depend on the pieces.
func FuzzQueryFilter(f *testing.F) {
	for _, q := range questions() {
		f.Add([]byte("x"+q+"y"), 2)
	}
	f.Fuzz(func(t *testing.T, out []byte, cut int) {
		cut = min(max(cut, 0), len(out))
		a, b := NewQueryFilter(), NewQueryFilter()
		whole := a.Append(nil, out)
		pieces := b.Append(b.Append(nil, out[:cut]), out[cut:])
		if !bytes.Equal(whole, pieces) {
			t.Errorf("cut at %d: %q, want %q", cut, pieces, whole)
		}
		p := parser{emit: func(k kind, b []byte) {
			if isQuery(k, b) || k == plain && bytes.IndexByte(b, enq) >= 0 {
				t.Errorf("%q passes and asks %q", whole, b)
			}
		}}
		p.write(whole)
	})
}

// FuzzPasteFilter: whatever is pasted in one piece, there is one end marker, and it is last.
func FuzzPasteFilter(f *testing.F) {
	f.Add([]byte(hostile))
	f.Add([]byte("\x1b[201"))
	f.Add([]byte("\xe2\x82"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var g PasteFilter
		got := g.Filter([]byte(pasteBegin + string(text) + pasteEnd))
		if g.open || !bytes.HasSuffix(got, []byte(pasteEnd)) || bytes.Count(got, []byte{esc}) != 2 {
			t.Errorf("%q became %q", text, got)
		}
		for _, c := range got[len(pasteBegin) : len(got)-len(pasteEnd)] {
			if c < ' ' && c != '\t' && c != '\r' || c == 0x7f {
				t.Errorf("%q lets %q through", text, c)
			}
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	for name, line := range map[string]string{
		"plain":    "y\r\n",
		"coloured": "\x1b[32mINFO\x1b[0m something has happened again \u20ac\r\n",
	} {
		b.Run(name, func(b *testing.B) {
			chunk := []byte(strings.Repeat(line, 32<<10/len(line)))
			c := NewScanner(Size{80, 24})
			b.SetBytes(int64(len(chunk)))
			for b.Loop() {
				c.Write(chunk)
			}
		})
	}
}

// TestFullScreen: a program that hides the cursor on the normal screen, such as top, draws the whole
// screen, as one on the alternate screen does.
func TestFullScreen(t *testing.T) {
	for out, want := range map[string]bool{
		"":                                 false,
		"text\r\n$ ":                       false,
		"\x1b[?1h\x1b=\x1b[?25l\x1b[H":     true,
		"\x1b[?25l\x1b[Htop\x1b[?25h\r\n$": false,
		"\x1b[?1049h":                      true,
		"\x1b[?1049h\x1b[?1049l":           false,
	} {
		if got := scan(out).State().FullScreen(); got != want {
			t.Errorf("%q: %v", out, got)
		}
		if got := ResumeScanner(scan(out).State()).State().FullScreen(); got != want {
			t.Errorf("%q, resumed: %v", out, got)
		}
	}
}
