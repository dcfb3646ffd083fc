package kernelclient

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// TextDecoder turns bytes into text and never splits a character between two
// pieces. It replaces bytes that are not UTF-8 by U+FFFD. The zero value is
// ready for use.
type TextDecoder struct{ tail []byte }

// Decode returns the text of the bytes that the last call left over, followed by p.
func (d *TextDecoder) Decode(p []byte) string {
	b := append(d.tail, p...)
	n := Whole(b)
	d.tail = append([]byte(nil), b[n:]...)
	return strings.ToValidUTF8(string(b[:n]), "\uFFFD")
}

// End returns the text of a character that never became complete.
func (d *TextDecoder) End() string {
	if len(d.tail) == 0 {
		return ""
	}
	d.tail = nil
	return "\uFFFD"
}

// Whole returns how many bytes of b there are before a character at its end that is not complete.
func Whole(b []byte) int { return len(b) - incomplete(b) }

// incomplete returns how many bytes at the end of b, 0 to 3, are the beginning
// of a character that is not complete.
func incomplete(b []byte) int {
	for n := 1; n <= 3 && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Clip returns at most the first n bytes of s, and no part of a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Plain returns text without the escape sequences that color it.
func Plain(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]").ReplaceAllString(text, "")
}
