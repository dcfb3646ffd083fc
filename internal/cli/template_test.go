package cli

import (
	"strings"
	"testing"
)

// TestLogNotifications: each part of a log is shown once, also when its beginning is no longer available.
func TestLogNotifications(t *testing.T) {
	long := strings.Repeat("0123456789\n", 100)
	for _, x := range []struct{ shown, log, want string }{
		{"", "", ""},
		{"", "a\n", "a\n"},
		{"a\n", "a\nb", "b"},
		{long + "end\n", long[500:] + "end\nmore\n", "more\n"},
		{"gone\n", "something else\n", "something else\n"},
	} {
		if got := news(x.shown, x.log); got != x.want {
			t.Errorf("after %.20q, %.20q shows %q", x.shown, x.log, got)
		}
	}
	if got := screened("a\x1b[2Jb\r\nc\rd\n\ne"); got != "a?[2Jb\nc?d\n\ne" {
		t.Errorf("screened: %q", got)
	}
}
