package rawterminal

import (
	"testing"
)

func TestEscapes(t *testing.T) {
	for _, c := range []struct {
		in   []string
		keys string
		what escaped
	}{
		{[]string{"ls\r"}, "ls\r", nothing},
		{[]string{"~."}, "", detach},
		{[]string{"a\r", "~", "."}, "a\r", detach},
		{[]string{"~~."}, "~.", nothing},
		{[]string{"~", "x"}, "~x", nothing},
		{[]string{"~?"}, "", help},
		{[]string{"a~."}, "a~.", nothing},
		{[]string{"\n~.rest"}, "\n", detach},
		{[]string{"~\r~."}, "~\r", detach},
	} {
		var e escapes
		keys, what := "", nothing
		for _, in := range c.in {
			var k []byte
			k, what = e.feed([]byte(in))
			keys += string(k)
		}
		if keys != c.keys || what != c.what {
			t.Errorf("%q: keys %q and %d, want %q and %d", c.in, keys, what, c.keys, c.what)
		}
	}
}
