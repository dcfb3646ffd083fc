package fileclient

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// FuzzParseRange fails when a header is read as a range that no file has.
func FuzzParseRange(f *testing.F) {
	for _, header := range []string{
		"bytes=0-", "bytes=3-5", "bytes=-3", "bytes=0-9223372036854775807",
		"bytes=-9223372036854775808", "bytes=1-2,4-5", "bytes=+1-2", "bytes=--1",
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		var p protocol.FileRead
		if !ParseRange(header, &p) {
			if p != (protocol.FileRead{}) {
				t.Errorf("%q is refused and changes the request: %+v", header, p)
			}
			return
		}
		if p.Length < 0 || p.Offset < 0 && p.Length != 0 || p.Offset > 0 && p.Offset+p.Length < 0 {
			t.Errorf("%q is read as %d bytes at %d", header, p.Length, p.Offset)
		}
		_ = ParseETag(header)
	})
}
