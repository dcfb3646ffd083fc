package fileclient

import (
	"testing"

	"github.com/sandgate/sandgate/protocol"
)

// TestParseRange fails when a header is read as another range than RFC 9110 defines.
func TestParseRange(t *testing.T) {
	for header, want := range map[string]protocol.FileRead{
		"bytes=0-":   {},
		"bytes=3-5":  {Offset: 3, Length: 3},
		"bytes=7-":   {Offset: 7},
		"bytes=-3":   {Offset: -3},
		"bytes=0-0":  {Length: 1},
		"bytes=10-9": {Offset: -1}, // Offset -1 stands for no range
		"bytes=-0":   {Offset: -1},
		"bytes=-":    {Offset: -1},
		"bytes=a-b":  {Offset: -1},
		"bytes=1-2,": {Offset: -1},
		"bytes=1":    {Offset: -1},
		"bits=1-2":   {Offset: -1},
		"bytes=+1-2": {Offset: -1},

		"bytes=2-9223372036854775807": {Offset: 2},
		"":                            {Offset: -1},
	} {
		var p protocol.FileRead
		ok := ParseRange(header, &p)
		if none := header != "bytes=-3" && want.Offset < 0; ok == none || ok && p != want ||
			!ok && p != (protocol.FileRead{}) {
			t.Errorf("%q: %v, %+v", header, ok, p)
		}
	}
}

// TestETags fails when a header that is not one strong ETag has a value.
func TestETags(t *testing.T) {
	for header, want := range map[string]string{
		`"a"`: "a", ` "a" `: "a", `W/"a"`: "", `"a", "b"`: "", `"`: "", `""`: "", `a`: "", `*`: "",
	} {
		if got := ParseETag(header); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}
