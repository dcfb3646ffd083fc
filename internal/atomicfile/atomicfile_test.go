package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a")
	for _, text := range []string{"one", "another"} {
		if err := Write(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(name); err != nil || string(data) != text {
			t.Errorf("the file holds %q, %v; want %q", data, err, text)
		}
	}
	if err := Write(filepath.Join(t.TempDir(), "none", "a"), nil); err == nil {
		t.Error("a file in a folder that does not exist was written")
	}
	if all, err := os.ReadDir(filepath.Dir(name)); err != nil || len(all) != 1 {
		t.Errorf("the folder holds %v, %v", all, err)
	}
}
