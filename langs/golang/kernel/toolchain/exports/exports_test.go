package main

import (
	"fmt"
	"testing"
)

func TestFirst(t *testing.T) {
	member := func(name, body string) string {
		return fmt.Sprintf("%-16s%-12d%-6d%-6d%-8s%-10d`\n%s", name, 0, 0, 0, "644", len(body),
			body)
	}
	head := magic + member("__.PKGDEF", "export")
	got, err := first([]byte(head + member("_go_.o", "code")))
	if err != nil || string(got) != head {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"", magic, head[:len(head)-1], magic + member("_go_.o", "code")} {
		if _, err := first([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
