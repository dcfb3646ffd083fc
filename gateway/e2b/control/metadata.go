package control

import (
	"encoding/base64"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// encodedKey begins the labels of keys of metadata that cannot be the key of a label. The key
// follows in base64.
const encodedKey = "e2b.key/"

// labelOf returns the label of a key of metadata. Keys of labels have fewer characters.
func labelOf(key string) string {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("._/-", r)
	}
	if key == "" || !strings.ContainsFunc(key, other) && !strings.HasPrefix(key, encodedKey) {
		return key
	}
	return encodedKey + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// keyOf returns the key of metadata of a label.
func keyOf(label string) string {
	if text, ok := strings.CutPrefix(label, encodedKey); ok {
		if key, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			return string(key)
		}
	}
	return label
}

// metadataOf returns the labels of a session that its user has set.
func metadataOf(labels map[string]string) map[string]string {
	m := map[string]string{}
	for key, value := range labels {
		if !strings.HasPrefix(key, protocol.ReservedLabels) {
			m[keyOf(key)] = value
		}
	}
	return m
}
