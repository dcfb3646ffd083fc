package e2bname

import (
	"encoding/base64"
	"strings"

	"github.com/sandgate/sandgate/protocol"
)

// EncodedKey begins the labels of keys of metadata that cannot be the key of a label. The key
// follows in base64.
const EncodedKey = "e2b.key/"

// LabelOf returns the label of a key of metadata. Keys of labels have fewer characters.
func LabelOf(key string) string {
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') &&
			!strings.ContainsRune("._/-", r)
	}
	if key == "" || !strings.ContainsFunc(key, other) && !strings.HasPrefix(key, EncodedKey) {
		return key
	}
	return EncodedKey + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// KeyOf returns the key of metadata of a label.
func KeyOf(label string) string {
	if text, ok := strings.CutPrefix(label, EncodedKey); ok {
		if key, err := base64.RawURLEncoding.DecodeString(text); err == nil {
			return string(key)
		}
	}
	return label
}

// MetadataOf returns the labels of a session that its user has set.
func MetadataOf(labels map[string]string) map[string]string {
	m := map[string]string{}
	for key, value := range labels {
		if !strings.HasPrefix(key, protocol.ReservedLabels) {
			m[KeyOf(key)] = value
		}
	}
	return m
}
