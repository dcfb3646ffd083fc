package contents

import (
	"encoding/json"
	"testing"
)

// FuzzNotebook fails when a notebook makes the gateway panic, or when reading and writing it again
// gives another file.
func FuzzNotebook(f *testing.F) {
	for _, text := range []string{
		`{"nbformat":4,"cells":[]}`,
		`{"nbformat":4,"cells":[{"source":["a\n","b"],"outputs":[{"text":["x"],"data":{"a":["b"]}}]}]}`,
		`{"nbformat":4,"cells":[{"attachments":{"a":{"image/png":["x","y"]}},"metadata":{"trusted":1}}]}`,
		`{"nbformat":4,"cells":[null,1,{"source":[1]},{"source":["",""]}],"metadata":{"signature":1}}`,
		`{"nbformat":4.0,"cells":[]}`, `{"nbformat":4,"cells":[]} x`, `[]`, "null",
		`{"nbformat":4,"cells":[{"outputs":[{"data":{"a+json":{"b":["c"]}}}]}]}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		doc, err := decodeNotebook(file)
		if err != nil {
			return
		}
		content, err := json.Marshal(doc)
		if err != nil {
			t.Fatalf("a notebook is not JSON: %v", err)
		}
		once, err := encodeNotebook(content)
		if err != nil {
			t.Fatalf("%s cannot be written: %v", content, err)
		}
		again, err := decodeNotebook(once)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", once, err)
		}
		if content, err = json.Marshal(again); err != nil {
			t.Fatal(err)
		}
		if twice, err := encodeNotebook(content); err != nil || string(twice) != string(once) {
			t.Errorf("%s\nbecomes\n%s\n%v", once, twice, err)
		}
	})
}
