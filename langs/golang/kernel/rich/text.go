// Package rich converts values to forms that a client can show: text, JSON, tables,
// charts, pictures. It never fails, whatever the value: cyclic, huge, half initialised, or with
// methods that panic.
package rich

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxText is the largest text of a value, in bytes. MaxElements is the number of elements of a
	// list or map that are shown. MaxDepth is the nesting depth that is shown.
	MaxText     = 1 << 20
	MaxElements = 1000
	MaxDepth    = 16
	// maxSyntax is the largest text in Go's syntax beside the other text.
	maxSyntax = 64 << 10
)

// Text returns a value as fmt.Println prints it, except that functions and channels have their type
// instead of an address. Methods Error and String are called.
func Text(v any) string {
	return printer{limit: MaxText, methods: true, plain: true}.text(reflect.ValueOf(v))
}

// Syntax returns a value in Go's syntax, on one line unless its methods return several.
func Syntax(v any) string {
	return printer{limit: maxSyntax, methods: true}.text(reflect.ValueOf(v))
}

// Short returns a value on one line of at most n bytes, without calling methods.
func Short(v reflect.Value, n int) string {
	s := printer{limit: n + 1}.text(v)
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s)
	if len(s) <= n {
		return s
	}
	s = s[:n-len("…")]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}

func (p printer) text(v reflect.Value) string {
	p.b = new(strings.Builder)
	p.value(v, 0, false)
	s := p.b.String()
	if len(s) > p.limit && p.methods {
		s = strings.ToValidUTF8(s[:p.limit], "") +
			"… (cut off at " + strconv.Itoa(p.limit) + " bytes)"
	}
	return s
}

type printer struct {
	b       *strings.Builder
	limit   int
	methods bool
	plain   bool      // as fmt prints it, not in Go's syntax
	above   []uintptr // pointers that are being printed
}

func (p *printer) full() bool { return p.b.Len() > p.limit }

func (p *printer) put(s string) {
	if !p.full() {
		if room := p.limit + 64 - p.b.Len(); len(s) > room {
			s = s[:room]
		}
		p.b.WriteString(s)
	}
}

// value prints v. typed means that the context already shows its type.
func (p *printer) value(v reflect.Value, depth int, typed bool) {
	if !v.IsValid() {
		p.put("<nil>")
		return
	}
	if p.full() {
		return
	}
	if p.method(v) {
		return
	}
	if depth > MaxDepth {
		p.put("…")
		return
	}
	switch v.Kind() {
	case reflect.Bool, reflect.Complex64, reflect.Complex128, reflect.Float32, reflect.Float64,
		reflect.Uintptr,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		p.put(fmt.Sprint(v))
	case reflect.String:
		p.quoted(v.String())
	case reflect.Pointer:
		p.pointer(v, depth)
	case reflect.Interface:
		if v.IsNil() {
			p.put("<nil>")
		} else {
			p.value(v.Elem(), depth, false)
		}
	case reflect.Struct:
		p.structure(v, depth, typed)
	case reflect.Map:
		p.table(v, depth, typed)
	case reflect.Slice, reflect.Array:
		p.list(v, depth, typed)
	case reflect.Chan:
		if v.IsNil() {
			p.put("(" + Type(v.Type()) + ")(nil)")
		} else {
			p.put(fmt.Sprintf("%s (%d of %d)", Type(v.Type()), v.Len(), v.Cap()))
		}
	case reflect.Func:
		if v.IsNil() {
			p.put("(" + Type(v.Type()) + ")(nil)")
		} else {
			p.put(Type(v.Type()))
		}
	case reflect.UnsafePointer:
		p.put(fmt.Sprintf("unsafe.Pointer(%#x)", v.Pointer()))
	}
}

// quoted prints a string, as a literal in Go's syntax, and only reads the part that is shown.
func (p *printer) quoted(s string) {
	if len(s) > p.limit {
		s = s[:p.limit+1]
	}
	if p.plain {
		p.put(strings.ToValidUTF8(s, "\uFFFD"))
	} else {
		p.put(strconv.Quote(s))
	}
}

// open and next print what stands before the first and the next element.
func (p *printer) open(plain string) {
	if p.plain {
		p.put(plain)
	} else {
		p.put("{")
	}
}

func (p *printer) next(i int) {
	switch {
	case i == 0:
	case p.plain:
		p.put(" ")
	default:
		p.put(", ")
	}
}

func (p *printer) close(plain string) {
	if p.plain {
		p.put(plain)
	} else {
		p.put("}")
	}
}

// method prints the result of Error or String, if v has such a method.
func (p *printer) method(v reflect.Value) (done bool) {
	if !p.methods || !v.CanInterface() {
		return false
	}
	if k := v.Kind(); (k == reflect.Pointer || k == reflect.Interface) && v.IsNil() {
		return false
	}
	var call func() string
	switch x := v.Interface().(type) {
	case fmt.Formatter:
		if !p.plain {
			if s, ok := x.(fmt.Stringer); ok {
				call = s.String
				break
			}
			return false
		}
		call = func() string { return fmt.Sprint(x) }
	case error:
		call = x.Error
	case fmt.Stringer:
		call = x.String
	default:
		return false
	}
	defer func() {
		if r := recover(); r != nil {
			p.put(fmt.Sprintf("<%s: its method panicked: %.200v>", Type(v.Type()), r))
			done = true
		}
	}()
	p.put(call())
	return true
}

func (p *printer) pointer(v reflect.Value, depth int) {
	if p.plain {
		switch k := v.Type().Elem().Kind(); {
		case v.IsNil():
			p.put("<nil>")
		case depth == 0 && (k == reflect.Struct || k == reflect.Slice || k == reflect.Array ||
			k == reflect.Map):
			p.put("&")
			p.value(v.Elem(), depth+1, true)
		default:
			p.put(fmt.Sprintf("%#x", v.Pointer()))
		}
		return
	}
	if v.IsNil() {
		p.put("(" + Type(v.Type()) + ")(nil)")
		return
	}
	if p.enter(v.Pointer()) {
		p.put("&…")
		return
	}
	defer p.leave()
	switch v.Elem().Kind() {
	case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		p.put("&")
		p.value(v.Elem(), depth+1, false)
	default:
		p.put("&")
		p.put(Type(v.Type().Elem()) + "(")
		p.value(v.Elem(), depth+1, true)
		p.put(")")
	}
}

// none prints a slice or map that is nil.
func (p *printer) none(v reflect.Value, typed bool) {
	if p.plain {
		p.put(map[bool]string{true: "map[]", false: "[]"}[v.Kind() == reflect.Map])
	} else if typed {
		p.put("nil")
	} else {
		p.put(Type(v.Type()) + "(nil)")
	}
}

// enter records that the value at a is being printed, and reports whether it already is.
func (p *printer) enter(a uintptr) bool {
	if slices.Contains(p.above, a) {
		return true
	}
	p.above = append(p.above, a)
	return false
}

func (p *printer) leave() { p.above = p.above[:len(p.above)-1] }

func (p *printer) structure(v reflect.Value, depth int, typed bool) {
	t := v.Type()
	if !typed && !p.plain {
		p.put(Type(t))
	}
	p.put("{")
	for i := range t.NumField() {
		p.next(i)
		if !p.plain {
			p.put(t.Field(i).Name + ": ")
		}
		p.value(v.Field(i), depth+1, false)
		if p.full() {
			return
		}
	}
	p.put("}")
}

func (p *printer) list(v reflect.Value, depth int, typed bool) {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			p.none(v, typed)
			return
		}
		if v.Len() > 0 {
			if p.enter(v.Pointer()) {
				p.again(v, "[…]")
				return
			}
			defer p.leave()
		}
	}
	if !typed && !p.plain {
		p.put(Type(v.Type()))
	}
	if !p.plain && v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 &&
		v.Type().Elem().PkgPath() == "" {
		if b := v.Bytes(); len(b) > 0 && utf8.Valid(b) {
			p.put("(")
			p.quoted(string(b[:min(len(b), p.limit)]))
			p.put(")")
			return
		}
	}
	p.open("[")
	plain := simple(v.Type().Elem())
	for i := range v.Len() {
		p.next(i)
		if i == MaxElements {
			p.put(fmt.Sprintf("… (%d in all)", v.Len()))
			break
		}
		p.value(v.Index(i), depth+1, plain)
		if p.full() {
			return
		}
	}
	p.close("]")
}

// again prints a list or map inside of itself.
func (p *printer) again(v reflect.Value, plain string) {
	if p.plain {
		p.put(plain)
	} else {
		p.put(Type(v.Type()) + "{…}")
	}
}

func (p *printer) table(v reflect.Value, depth int, typed bool) {
	if v.IsNil() {
		p.none(v, typed)
		return
	}
	if p.enter(v.Pointer()) {
		p.again(v, "map[…]")
		return
	}
	defer p.leave()
	if !typed && !p.plain {
		p.put(Type(v.Type()))
	}
	p.open("map[")
	for i, k := range keys(v) {
		p.next(i)
		if i == MaxElements {
			p.put(fmt.Sprintf("… (%d in all)", v.Len()))
			break
		}
		p.value(k, depth+1, true)
		if p.plain {
			p.put(":")
		} else {
			p.put(": ")
		}
		p.value(v.MapIndex(k), depth+1, simple(v.Type().Elem()))
		if p.full() {
			return
		}
	}
	p.close("]")
}

// simple reports whether elements of a type need no type before them.
func simple(t reflect.Type) bool {
	return t.Kind() != reflect.Interface && t.Kind() != reflect.Pointer
}

// keys returns the keys of a map in order; of a large map only some.
func keys(v reflect.Value) []reflect.Value {
	var list []reflect.Value
	for it := v.MapRange(); it.Next() && len(list) <= 100*MaxElements; {
		list = append(list, it.Key())
	}
	slices.SortFunc(list, compare)
	return list
}

func compare(a, b reflect.Value) int {
	for a.Kind() == reflect.Interface && b.Kind() == reflect.Interface {
		a, b = a.Elem(), b.Elem()
	}
	if a.Kind() != b.Kind() {
		return cmp.Compare(a.Kind(), b.Kind())
	}
	switch {
	case a.CanInt():
		return cmp.Compare(a.Int(), b.Int())
	case a.CanUint():
		return cmp.Compare(a.Uint(), b.Uint())
	case a.CanFloat():
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind() == reflect.String:
		return cmp.Compare(a.String(), b.String())
	}
	return cmp.Compare(Short(a, 64), Short(b, 64))
}

// Type returns a type's name in the session: its own types have no package.
func Type(t reflect.Type) string {
	s := strings.ReplaceAll(t.String(), "[]uint8", "[]byte")
	var b strings.Builder
	for {
		i := strings.Index(s, "main.")
		if i < 0 {
			return b.String() + s
		}
		before := i > 0 && (s[i-1] == '_' || s[i-1] == '.' || s[i-1] == '/' || s[i-1] >= '0' &&
			s[i-1] <= '9' || s[i-1] >= 'a' && s[i-1] <= 'z' || s[i-1] >= 'A' && s[i-1] <= 'Z')
		b.WriteString(s[:i])
		if before {
			b.WriteString("main.")
		}
		s = s[i+len("main."):]
	}
}

// Size returns the size of a value in the unit that is usual for its kind; it may be empty.
func Size(v reflect.Value) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String, reflect.Map, reflect.Chan:
		return strconv.Itoa(v.Len())
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); (k == reflect.Slice || k == reflect.Array) && v.Len() > 0 {
			n := v.Index(0).Len()
			for i := range min(v.Len(), MaxElements) {
				if v.Index(i).Len() != n {
					return strconv.Itoa(v.Len())
				}
			}
			return fmt.Sprintf("%d × %d", v.Len(), n)
		}
		return strconv.Itoa(v.Len())
	}
	return ""
}
