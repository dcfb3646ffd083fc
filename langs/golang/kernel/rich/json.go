package rich

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxJSON is the largest number of values in a JSON tree.
const maxJSON = 1 << 20

// JSON returns the result of encoding/json for v. If that fails it returns a tree in which values
// that JSON lacks are replaced: infinite numbers and NaN by text, bytes by base64, cycles and parts
// that are too deep or too many by "…".
func JSON(v any) json.RawMessage {
	if b, err := marshal(v); err == nil {
		return b
	}
	t := tree{}
	b, err := json.Marshal(t.clean(reflect.ValueOf(v), 0))
	if err != nil { // a user's method has failed again
		b, _ = json.Marshal(Short(reflect.ValueOf(v), 1000))
	}
	return b
}

// marshal is json.Marshal, but a panic in a method becomes an error.
func marshal(v any) (b []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return json.Marshal(v)
}

type tree struct {
	above []uintptr
	n     int
}

func (t *tree) clean(v reflect.Value, depth int) any {
	t.n++
	if !v.IsValid() {
		return nil
	}
	if t.n > maxJSON || depth > 64 {
		return "…"
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
	}
	if v.CanInterface() {
		if m, ok := v.Interface().(encoding.TextMarshaler); ok {
			if b, err := m.MarshalText(); err == nil {
				return string(b)
			}
		}
	}
	switch v.Kind() {
	case reflect.Interface:
		return t.clean(v.Elem(), depth)
	case reflect.Pointer:
		return t.inside(v.Pointer(), func() any { return t.clean(v.Elem(), depth+1) })
	case reflect.Bool:
		return v.Bool()
	case reflect.String:
		return strings.ToValidUTF8(v.String(), string(utf8.RuneError))
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return strconv.FormatFloat(f, 'g', -1, 64)
		}
		return v.Float()
	case reflect.Complex64, reflect.Complex128:
		return fmt.Sprint(v.Complex())
	case reflect.Map:
		if v.IsNil() {
			return nil
		}
		return t.inside(v.Pointer(), func() any {
			m := map[string]any{}
			for i, k := range keys(v) {
				if i == 100*MaxElements {
					m["…"] = v.Len()
					break
				}
				name := Short(k, 1000)
				if k.Kind() == reflect.String {
					name = k.String()
				}
				m[name] = t.clean(v.MapIndex(k), depth+1)
			}
			return m
		})
	case reflect.Slice:
		if v.IsNil() {
			return nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return base64.StdEncoding.EncodeToString(v.Bytes())
		}
		if v.Len() == 0 {
			return []any{}
		}
		return t.inside(v.Pointer(), func() any { return t.list(v, depth) })
	case reflect.Array:
		return t.list(v, depth)
	case reflect.Struct:
		m := map[string]any{}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" {
				continue
			}
			if name == "" {
				name = f.Name
			}
			m[name] = t.clean(v.Field(i), depth+1)
		}
		return m
	case reflect.Chan, reflect.Func, reflect.UnsafePointer:
		return Type(v.Type())
	}
	if v.CanInt() {
		return v.Int()
	}
	return v.Uint()
}

func (t *tree) list(v reflect.Value, depth int) any {
	out := make([]any, 0, min(v.Len(), 1<<16))
	for i := range v.Len() {
		if t.n > maxJSON {
			return append(out, "…")
		}
		out = append(out, t.clean(v.Index(i), depth+1))
	}
	return out
}

// inside guards against cycles.
func (t *tree) inside(a uintptr, f func() any) any {
	for _, b := range t.above {
		if a == b {
			return "…"
		}
	}
	t.above = append(t.above, a)
	defer func() { t.above = t.above[:len(t.above)-1] }()
	return f()
}
