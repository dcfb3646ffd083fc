// Package jsontext encodes text as JSON strings without copies in between.
package jsontext

import (
	"encoding/binary"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// Append appends text as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD, one
// for each run of them. The two line separators of JavaScript are escaped.
func Append(dst, text []byte) []byte {
	dst = append(dst, '"')
	for broken := false; len(text) > 0; {
		n := plain(text)
		if dst = append(dst, text[:n]...); n > 0 {
			broken = false
		}
		if text = text[n:]; len(text) == 0 {
			break
		}
		if c := text[0]; c < utf8.RuneSelf {
			dst, text, broken = appendEscape(dst, c), text[1:], false
			continue
		}
		r, size := utf8.DecodeRune(text)
		bad := r == utf8.RuneError && size == 1
		switch {
		case bad && broken:
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, `\u202`...), hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
		text, broken = text[size:], bad
	}
	return append(dst, '"')
}

// plain returns the number of characters at the beginning of text that a JSON string has as they
// are: those of ASCII without control characters, quotes and backslashes.
func plain(text []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	n := 0
	// A word has such a character if one of these leaves the highest bit of its byte.
	for ; len(text)-n >= 8; n += 8 {
		w := binary.LittleEndian.Uint64(text[n:])
		quote, slash := w^'"'*ones, w^'\\'*ones
		if (w|(w-' '*ones)|(quote-ones)|(slash-ones))&highs != 0 {
			break
		}
	}
	for ; n < len(text); n++ {
		if c := text[n]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			break
		}
	}
	return n
}

// appendEscape appends an ASCII character that cannot stand in a JSON string.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
