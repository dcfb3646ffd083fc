package notebook

import (
	"fmt"
	"slices"
	"testing"
	"time"

	wire "github.com/sandgate/sandgate/protocol/notebook"
)

// TestMoved checks that versions move with their notebook, with its folder, and onto another notebook,
// and that they are there after a restart. A notebook of another session stays.
func TestMoved(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	o, other := OwnerOf("a", "s", "s_1"), OwnerOf("a", "s", "s_2")
	for i, name := range []string{"x.ipynb", "x.ipynb", "d/y.ipynb", "z.ipynb"} {
		r.clock = r.clock.Add(time.Hour)
		r.save(o, name, fmt.Sprintf(`{"cells":[],"n":%d}`, i))
	}
	r.save(other, "x.ipynb", `{"cells":[],"n":"other"}`)
	first, err := r.Versions("a", wire.Ref{Notebook: idOf("a", "s_1", "/home/user/x.ipynb")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Name("a", wire.Naming{
		Notebook: idOf("a", "s_1", "/home/user/x.ipynb"), Version: first.Versions[1].ID, Name: "named",
	}); err != nil {
		t.Fatal(err)
	}
	r.Moved(o, "/home/user/x.ipynb", "/home/user/z.ipynb")
	r.Moved(o, "/home/user/d", "/home/user/e")
	r.Moved(o, "/home/user/e/y.ipynb", "/home/user/e/y.ipynb")
	for range 2 {
		for path, want := range map[string][]string{
			"z.ipynb":   {`{"cells":[],"n":1}`, `{"cells":[],"n":0}`, `{"cells":[],"n":3}`},
			"e/y.ipynb": {`{"cells":[],"n":2}`},
		} {
			if got := r.texts("a", idOf("a", "s_1", "/home/user/"+path)); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
		}
		l, err := r.List("a", wire.Query{})
		if err != nil || len(l.Notebooks) != 3 {
			t.Errorf("%+v %v", l, err)
		}
		r = open(t, dir)
	}
}

// TestMovedKeepsLimit checks that a notebook that replaces another one has no more versions than any.
func TestMovedKeepsLimit(t *testing.T) {
	r := open(t, t.TempDir())
	o := OwnerOf("a", "s", "s_1")
	for _, name := range []string{"x.ipynb", "z.ipynb"} {
		for i := range wire.MaxVersions {
			r.clock = r.clock.Add(time.Hour)
			r.save(o, name, fmt.Sprintf(`{"cells":[],"n":%d}`, i))
			id := idOf("a", "s_1", "/home/user/"+name)
			vs, err := r.Versions("a", wire.Ref{Notebook: id})
			if err != nil {
				t.Fatal(err)
			}
			if i < wire.MaxNamed {
				_, err = r.Name("a", wire.Naming{
					Notebook: id, Version: vs.Versions[0].ID, Name: fmt.Sprint("v", i),
				})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	r.Moved(o, "/home/user/x.ipynb", "/home/user/z.ipynb")
	all := r.texts("a", idOf("a", "s_1", "/home/user/z.ipynb"))
	if want := fmt.Sprintf(`{"cells":[],"n":%d}`, wire.MaxVersions-1); len(all) != wire.MaxVersions ||
		all[0] != want {
		t.Errorf("%d versions, the newest is %s", len(all), all[0])
	}
}
