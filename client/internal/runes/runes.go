// Package runes has what the clients need to know of text in UTF-8.
package runes

import "unicode/utf8"

// Incomplete returns how many bytes at the end of b, 0 to 3, begin an incomplete character.
func Incomplete(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if c := b[len(b)-n]; utf8.RuneStart(c) {
			if c >= 0x80 && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
