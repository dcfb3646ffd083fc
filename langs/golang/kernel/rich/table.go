package rich

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRows is the largest number of rows that a table shows.
const maxRows = 1000

// grid is a table of texts.
type grid struct {
	head []string
	rows [][]string
	n    int // number of all rows
}

// Table returns a list, a map or a struct as rows and columns: structs and maps give a column for
// each field or key, lists one for each position.
func Table(v any) Bundle {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer || r.Kind() == reflect.Interface {
		if r.IsNil() {
			break
		}
		r = r.Elem()
	}
	g := grid{}
	switch r.Kind() {
	case reflect.Slice, reflect.Array:
		g.list(r)
	case reflect.Map:
		g.mapping(r)
	case reflect.Struct:
		g.head = []string{"field", "value"}
		g.n = r.NumField()
		for i := range r.NumField() {
			g.rows = append(g.rows, []string{r.Type().Field(i).Name, cell(r.Field(i))})
		}
	default:
		return Forms(v)
	}
	return Bundle{htmlType: g.html(), plainType: g.text()}
}

// cell returns the text of a value in a table: strings are not quoted.
func cell(v reflect.Value) string {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String && v.Type().NumMethod() == 0 {
		return v.String()
	}
	if !v.IsValid() {
		return ""
	}
	return printer{limit: 2000, methods: true, plain: true}.text(v)
}

func deref(v reflect.Value) reflect.Value {
	for (v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface) && !v.IsNil() {
		v = v.Elem()
	}
	return v
}

func (g *grid) list(v reflect.Value) {
	g.n = v.Len()
	n := min(v.Len(), maxRows)
	columns := map[string]int{}
	column := func(name string) int {
		i, ok := columns[name]
		if !ok {
			i = len(g.head)
			columns[name] = i
			g.head = append(g.head, name)
		}
		return i
	}
	for i := range n {
		e := deref(v.Index(i))
		var row []string
		set := func(at int, s string) {
			for len(row) <= at {
				row = append(row, "")
			}
			row[at] = s
		}
		switch e.Kind() {
		case reflect.Struct:
			if plainStruct(e) {
				for j := range e.NumField() {
					set(column(e.Type().Field(j).Name), cell(e.Field(j)))
				}
				break
			}
			set(column("value"), cell(v.Index(i)))
		case reflect.Map:
			for _, k := range keys(e) {
				set(column(cell(k)), cell(e.MapIndex(k)))
			}
		case reflect.Slice, reflect.Array:
			if e.Type().Elem().Kind() == reflect.Uint8 {
				set(column("value"), cell(e))
				break
			}
			for j := range min(e.Len(), maxRows) {
				set(column(fmt.Sprint(j)), cell(e.Index(j)))
			}
		default:
			set(column("value"), cell(v.Index(i)))
		}
		g.rows = append(g.rows, row)
	}
}

// plainStruct reports whether a struct is a record and not a value such as time.Time.
func plainStruct(v reflect.Value) bool {
	_, ok := reflect.PointerTo(v.Type()).MethodByName("String")
	return !ok && v.NumField() > 0
}

func (g *grid) mapping(v reflect.Value) {
	g.n = v.Len()
	list := keys(v)
	inner := grid{}
	values := reflect.MakeSlice(reflect.SliceOf(v.Type().Elem()), 0, len(list))
	for _, k := range list[:min(len(list), maxRows)] {
		values = reflect.Append(values, v.MapIndex(k))
	}
	inner.list(values)
	g.head = slices.Concat([]string{"key"}, inner.head)
	for i, row := range inner.rows {
		g.rows = append(g.rows, slices.Concat([]string{cell(list[i])}, row))
	}
}

func (g *grid) html() string {
	var b strings.Builder
	b.WriteString("<table>\n<thead><tr>")
	for _, h := range g.head {
		b.WriteString("<th>" + escape(h) + "</th>")
	}
	b.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range g.rows {
		b.WriteString("<tr>")
		for i := range g.head {
			s := ""
			if i < len(row) {
				s = row[i]
			}
			b.WriteString("<td>" + escape(s) + "</td>")
		}
		b.WriteString("</tr>\n")
	}
	b.WriteString("</tbody></table>")
	if g.n > len(g.rows) {
		fmt.Fprintf(&b, "\n<p>%d of %d rows</p>", len(g.rows), g.n)
	}
	return b.String()
}

func (g *grid) text() string {
	width := make([]int, len(g.head))
	for i, h := range g.head {
		width[i] = utf8.RuneCountInString(h)
	}
	for _, row := range g.rows {
		for i, s := range row {
			width[i] = max(width[i], min(utf8.RuneCountInString(s), 60))
		}
	}
	var b strings.Builder
	line := func(row []string) {
		for i := range g.head {
			s := ""
			if i < len(row) {
				s = strings.ReplaceAll(row[i], "\n", " ")
			}
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(s)
			if i < len(g.head)-1 {
				b.WriteString(strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(s))))
			}
		}
		b.WriteString("\n")
	}
	line(g.head)
	for _, row := range g.rows {
		line(row)
	}
	if g.n > len(g.rows) {
		fmt.Fprintf(&b, "(%d of %d rows)\n", len(g.rows), g.n)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
