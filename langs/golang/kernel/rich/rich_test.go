package rich

import (
	"encoding/json"
	"errors"
	"image"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

type node struct {
	Next *node
	v    int
}

type loud struct{ n int }

func (loud) String() string { panic("called") }

func cyclic() *node { n := &node{v: 1}; n.Next = n; return n }

func TestText(t *testing.T) {
	list := []any{1, nil}
	list[1] = list
	m := map[string]any{}
	m["m"] = m
	cases := []struct {
		v     any
		plain string
		want  string // in Go's syntax
	}{
		{nil, "<nil>", "<nil>"},
		{1, "1", "1"},
		{"a\"b\n", "a\"b\n", `"a\"b\n"`},
		{[]int(nil), "[]", "[]int(nil)"},
		{[]byte("hi"), "[104 105]", `[]byte("hi")`},
		{[]byte{0xff}, "[255]", "[]byte{255}"},
		{map[string][]int{"b": {1}, "a": nil}, "map[a:[] b:[1]]", `map[string][]int{"a": nil, "b": {1}}`},
		{struct{ A any }{[]any{1}}, "{[1]}", "struct { A interface {} }{A: []interface {}{1}}"},
		{&node{v: 1}, "&{<nil> 1}", "&rich.node{Next: (*rich.node)(nil), v: 1}"},
		{cyclic(), "", "&rich.node{Next: &…, v: 1}"},
		{list, "[1 […]]", "[]interface {}{1, []interface {}{…}}"},
		{m, "map[m:map[…]]", `map[string]interface {}{"m": map[string]interface {}{…}}`},
		{time.Second, "1s", "1s"},
		{errors.New("e"), "e", "e"},
		{(*int)(nil), "<nil>", "(*int)(nil)"},
		{math.NaN(), "NaN", "NaN"},
		{make(chan int, 2), "chan int (0 of 2)", "chan int (0 of 2)"},
		{loud{1}, "<rich.loud: its method panicked: called>", "<rich.loud: its method panicked: called>"},
		{[2]bool{true}, "[true false]", "[2]bool{true, false}"},
	}
	for _, c := range cases {
		if got := Syntax(c.v); got != c.want {
			t.Errorf("got %s, wanted %s", got, c.want)
		}
		if got := Text(c.v); got != c.plain && c.plain != "" {
			t.Errorf("got %s, wanted %s", got, c.plain)
		}
	}
	if got := Text(make([]int, 5000)); !strings.HasSuffix(got, "… (5000 in all)]") {
		t.Errorf("a long list ends in %q", got[len(got)-40:])
	}
	if got := Text(strings.Repeat("x", 3*MaxText)); len(got) > MaxText+100 ||
		!strings.Contains(got, "cut off") {
		t.Errorf("a huge text has %d bytes", len(got))
	}
}

func TestShortCallsNothing(t *testing.T) {
	if got := Short(reflect.ValueOf(loud{1}), 200); got != "rich.loud{n: 1}" {
		t.Errorf("got %s", got)
	}
	if got := Short(reflect.ValueOf(strings.Repeat("ö", 500)), 200); len(got) > 200 ||
		!strings.HasSuffix(got, "…") {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestJSONNeverFails(t *testing.T) {
	for _, v := range []any{
		math.Inf(-1), cyclic(),
		map[any]any{1: 2, "a": make(chan int)},
		"\xff",
		[]byte{1, 2},
		complex(1, 2),
		loud{1},
		func() {},
		struct {
			A float64 `json:"a"`
			b int
		}{math.NaN(), 1},
	} {
		b := JSON(v)
		if !json.Valid(b) {
			t.Errorf("%T gave %s", v, b)
		}
	}
	if got := string(JSON(cyclic())); got != `{"Next":"…"}` {
		t.Errorf("a cycle gave %s", got)
	}
}

func TestBundles(t *testing.T) {
	if b := Forms(image.NewGray(image.Rect(0, 0, 2, 2))); !strings.HasPrefix(
		b["image/png"].(string), "iVBOR") {
		t.Errorf("a picture gave %v", b)
	}
	if b := Forms((*image.Gray)(nil)); b["image/png"] != nil {
		t.Errorf("no picture gave %v", b)
	}
	type row struct {
		Name string
		N    int
	}
	b := Table([]row{{"<x>", 1}, {"y", 22}})
	if h := b["text/html"].(string); !strings.Contains(h, "<td>&lt;x&gt;</td><td>1</td>") {
		t.Errorf("got %s", h)
	}
	if p := b["text/plain"].(string); p != "Name  N\n<x>   1\ny     22" {
		t.Errorf("got %q", p)
	}
	if b := Show("chart", "no json"); b[chartType] != nil {
		t.Errorf("got %v", b)
	}
	if b := Show("line", [2]any{[]int{1}, []float64{math.NaN()}}); !json.Valid(
		b[chartType].(json.RawMessage)) {
		t.Errorf("got %v", b)
	}
}

func TestSize(t *testing.T) {
	for want, v := range map[string]any{
		"3": "abc", "2 × 3": [][]int{{1, 2, 3}, {4, 5, 6}}, "2": [][]int{{1}, {}}, "": 1,
		"1": map[int]int{1: 1},
	} {
		if got := Size(reflect.ValueOf(v)); got != want {
			t.Errorf("%v has size %q, wanted %q", v, got, want)
		}
	}
}
