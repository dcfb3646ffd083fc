package output

import (
	"fmt"
	"strings"
	"time"
)

// Printable replaces control characters, so that a text that a user chose cannot control the
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

// Age formats the time since a moment in milliseconds, rounded to one unit.
func Age(ms int64) string { return short(time.Since(time.UnixMilli(ms))) }

// Expiry formats the time until a moment in milliseconds; 0 means never.
func Expiry(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return "in " + short(time.Until(time.UnixMilli(ms)))
}

func short(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// Size formats a number of bytes, rounded down to one unit.
func Size(n int64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
