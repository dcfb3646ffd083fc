package interpreter

import (
	"slices"
	"unicode/utf8"
)

// Clients decode every part of a response on its own, so a character that is cut between two parts
// is lost. All output is therefore ASCII.

const hex = "0123456789abcdef"

// appendText appends s as a JSON string in ASCII.
func appendText(b []byte, s string) []byte {
	b = slices.Grow(b, len(s)+2)
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf && c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		b = append(b, s[start:i]...)
		size := 1
		if c < utf8.RuneSelf {
			b = appendSpecial(b, c)
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(s[i:])
			b = appendRune(b, r)
		}
		i += size
		start = i
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendSpecial appends an ASCII character that cannot stand in a JSON string.
func appendSpecial(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendRune appends a character that is not ASCII.
func appendRune(b []byte, r rune) []byte {
	if r < 1<<16 {
		return appendUnit(b, uint16(r))
	}
	r -= 1 << 16
	return appendUnit(appendUnit(b, 0xd800+uint16(r>>10)), 0xdc00+uint16(r&0x3ff))
}

func appendUnit(b []byte, u uint16) []byte {
	return append(b, '\\', 'u', hex[u>>12], hex[u>>8&15], hex[u>>4&15], hex[u&15])
}

// appendJSON appends valid JSON in ASCII and on one line. Outside of ASCII, characters can only be
// in strings, and line ends only between values.
func appendJSON(b, raw []byte) []byte {
	b = slices.Grow(b, len(raw))
	start := 0
	for i := 0; i < len(raw); {
		c := raw[i]
		if c < utf8.RuneSelf && c != '\n' && c != '\r' {
			i++
			continue
		}
		b = append(b, raw[start:i]...)
		size := 1
		if c < utf8.RuneSelf {
			b = append(b, ' ')
		} else {
			var r rune
			r, size = utf8.DecodeRune(raw[i:])
			b = appendRune(b, r)
		}
		i += size
		start = i
	}
	return append(b, raw[start:]...)
}
