package pty

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestSaveState: a state that was written and read back is unchanged.
func TestSaveState(t *testing.T) {
	c := NewScanner(Size{Cols: 90, Rows: 20})
	c.Write(
		[]byte(
			"\x1b]0;a title\a\x1b[1;3;31;48;5;7;58;2;1;2;3m\x1b7\x1b[?2004h\x1b[?1049h\x1b[2;9r\x1b(0\x0e\x1b]4;3;#102030\a\x1b]10;red\a\x1b[>5u\x1b[>4;2m\x1b=\x1b[3 q\x1b[?2004s\x1b[3"))
	want := c.State()
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got State
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if want.palette == nil || want.partial == nil || want.title == "" || want.keys == [2]keys{} {
		t.Fatalf("the state is too plain: %+v", want)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s\ngives %+v\nwant %+v", b, got, want)
	}
	for _, s := range []State{got, want} {
		c := ResumeScanner(s)
		c.Write([]byte("1;4mx"))
		if a, b := string(c.State().Restore()),
			string(
				func() []byte {
					d := ResumeScanner(want)
					d.Write([]byte("1;4mx"))
					return []byte(
						d.State().Restore())
				}()); a != b {
			t.Errorf("it goes on as %q, want %q", a, b)
		}
	}
}

func TestSavePasteFilter(t *testing.T) {
	var g PasteFilter
	g.Filter([]byte("\x1b[200~abc\xc3"))
	b, err := json.Marshal(g)
	var got PasteFilter
	if err != nil || json.Unmarshal(b, &got) != nil || !reflect.DeepEqual(got, g) || !got.open {
		t.Errorf("%s gives %+v, want %+v, %v", b, got, g, err)
	}
}
