package e2bname

import (
	"encoding/hex"
	"strings"
)

// hexKeyPrefix begins the hexadecimal form of a key's secret.
const hexKeyPrefix = "e2b_"

// HexKey returns the form of a key's secret that clients of E2B accept: "e2b_" and the hexadecimal
// digits of the secret. The server accepts both forms everywhere.
func HexKey(secret string) string { return hexKeyPrefix + hex.EncodeToString([]byte(secret)) }

// FromHexKey returns the secret of a key from its hexadecimal form. ok is false for any other text.
func FromHexKey(key string) (secret string, ok bool) {
	digits, ok := strings.CutPrefix(key, hexKeyPrefix)
	if !ok {
		return "", false
	}
	raw, err := hex.DecodeString(digits)
	return string(raw), err == nil && len(raw) > 0
}
