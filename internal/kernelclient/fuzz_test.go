package kernelclient

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/frame"
)

// FuzzText fails when text that comes in pieces differs from text that comes at once, or is not
// UTF-8.
func FuzzText(f *testing.F) {
	f.Add([]byte("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80"), 1)
	f.Add([]byte("\xf0\x9f\x98\xff\xe2\x82"), 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(1, size)
		var whole, parts TextDecoder
		want := whole.Decode(data) + whole.End()
		var got strings.Builder
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			got.WriteString(parts.Decode(rest[:n]))
			rest = rest[n:]
		}
		got.WriteString(parts.End())
		if !utf8.ValidString(got.String()) {
			t.Errorf("%q becomes %q", data, got.String())
		}
		if utf8.Valid(data) && (got.String() != string(data) || want != string(data)) {
			t.Errorf("%q in pieces of %d becomes %q, at once %q", data, size, got.String(), want)
		}
		for n := range min(len(data), 8) {
			if clipped := Clip(string(data), n); len(clipped) > n {
				t.Errorf("%q clipped to %d bytes has %d", data, n, len(clipped))
			}
		}
	})
}

// FuzzRecord fails when a record of a kernel's log makes a gateway panic.
func FuzzRecord(f *testing.F) {
	f.Add(uint8(frame.KindExit), []byte(`{"reason":"killed"}`))
	f.Add(uint8(frame.KindGap), []byte(`{"bytes":-1}`))
	f.Add(uint8(frame.KindMessage), []byte(`{"msg_type":"x","content":null}`))
	f.Fuzz(func(_ *testing.T, kind uint8, payload []byte) {
		_, _, _ = decode(frame.Record{Kind: frame.Kind(kind), Payload: payload})
	})
}
