package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAppend compares Append with the encoder of the standard library.
func FuzzAppend(f *testing.F) {
	for _, text := range []string{
		"", "a", "\x00\x1f \"\\/\b\f\n\r\t\x7f", "é€😀", "\u2028\u2029\uFFFD", "\xff\xfe a \xe2\x82",
		"\xed\xa0\x80", "a\xc3", strings.Repeat("line\n", 100),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		valid := strings.ToValidUTF8(string(text), "\uFFFD")
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(valid); err != nil {
			t.Fatal(err)
		}
		var back string
		got := Append([]byte("x"), text)
		if err := json.Unmarshal(got[1:], &back); err != nil || back != valid || got[0] != 'x' {
			t.Fatalf("%q: %s decodes to %q, %v", text, got, back, err)
		}
		same := strings.NewReplacer(`\b`, `\u0008`, `\f`, `\u000c`).Replace(want.String())
		if !strings.Contains(valid, `\`) && string(got[1:])+"\n" != same {
			t.Fatalf("%q: %s, want %s", text, got[1:], same)
		}
	})
}

// BenchmarkAppend encodes lines of text.
func BenchmarkAppend(b *testing.B) {
	text := []byte(strings.Repeat(strings.Repeat("x", 99)+"\n", 640))
	var dst []byte
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Append(dst[:0], text)
	}
}
