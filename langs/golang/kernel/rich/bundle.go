package rich

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"image"
	"image/png"
	"reflect"
	"strings"
)

// MIME types of bundles.
const (
	plainType = "text/plain"
	// syntaxType is the text in Go's syntax.
	syntaxType = "text/x-go"
	htmlType   = "text/html"
	chartType  = "application/vnd.vegalite.v5+json"
)

// Bundle is one value in several forms, by MIME type.
type Bundle map[string]any

// Forms returns a value's own forms: those of its methods, a picture, and text.
func Forms(v any) Bundle {
	b := Bundle{plainType: Text(v)}
	b.addSyntax(Syntax(v))
	if m, ok := v.(image.Image); ok && !isNil(v) {
		b[plainType] = fmt.Sprintf("%T %s", v, m.Bounds())
		if data, err := encode(m); err == nil {
			b["image/png"] = data
		} else {
			b[plainType] = fmt.Sprintf("%T: %v", v, err)
		}
	}
	if h, ok := v.(template.HTML); ok {
		b[htmlType] = string(h)
	}
	b.methods(v)
	return b
}

// methods adds the results of a value's methods. A method that panics adds nothing.
func (b Bundle) methods(v any) {
	if isNil(v) {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			b[plainType] = fmt.Sprintf("%s\n(a method for display panicked: %.500v)", b[plainType],
				r)
		}
	}()
	b.drawing(v)
	if x, ok := v.(interface{ HTML() string }); ok {
		b[htmlType] = x.HTML()
	}
	if x, ok := v.(interface{ Markdown() string }); ok {
		b["text/markdown"] = x.Markdown()
	}
	if x, ok := v.(interface{ SVG() string }); ok {
		b["image/svg+xml"] = x.SVG()
	}
	if x, ok := v.(interface{ JSON() string }); ok {
		b["application/json"] = raw(x.JSON())
	}
	if x, ok := v.(interface{ MIME() map[string]any }); ok {
		b.add(x.MIME())
	}
}

// isNil reports whether a method call would dereference nil.
func isNil(v any) bool {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Invalid:
		return true
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Interface:
		return r.IsNil()
	}
	return false
}

func (b Bundle) add(m map[string]any) {
	for k, v := range m {
		switch v := v.(type) {
		case string, json.RawMessage:
			b[k] = v
		case []byte:
			b[k] = base64.StdEncoding.EncodeToString(v)
		default:
			b[k] = JSON(v)
		}
	}
}

// raw checks JSON from user code.
func raw(s string) any {
	if json.Valid([]byte(s)) {
		return json.RawMessage(s)
	}
	return s
}

func encode(m image.Image) (data string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(b.Bytes()), nil
}

// Results returns the bundle of a cell's value, which may be several values.
func Results(v []any) Bundle {
	if len(v) == 1 {
		return Forms(v[0])
	}
	texts, syntax := make([]string, len(v)), make([]string, len(v))
	for i, x := range v {
		texts[i], syntax[i] = Text(x), Syntax(x)
	}
	b := Bundle{plainType: strings.Join(texts, " ")}
	b.addSyntax(strings.Join(syntax, ", "))
	return b
}

// addSyntax adds the text in Go's syntax, if it is another one.
func (b Bundle) addSyntax(text string) {
	if text != b[plainType] {
		b[syntaxType] = text
	}
}

// Show returns the bundle for the arguments of a helper of package cells/0. kind names the helper.
func Show(kind string, v any) Bundle {
	switch kind {
	case "html":
		return Bundle{htmlType: v, plainType: v}
	case "markdown":
		return Bundle{"text/markdown": v, plainType: v}
	case "svg":
		return Bundle{"image/svg+xml": v, plainType: "<svg>"}
	case "latex":
		return Bundle{"text/latex": v, plainType: v}
	case "json":
		return Bundle{"application/json": JSON(v), plainType: Text(v)}
	case "png", "jpeg":
		data, _ := v.([]byte)
		return Bundle{
			"image/" + kind: base64.StdEncoding.EncodeToString(data),
			plainType:       fmt.Sprintf("%s of %d bytes", strings.ToUpper(kind), len(data)),
		}
	case "table":
		return Table(v)
	case "chart":
		return chart(v)
	case "line", "bar", "point", "histogram":
		return plot(kind, v)
	case "mime":
		b := Bundle{}
		m, _ := v.(map[string]any)
		b.add(m)
		if b[plainType] == nil {
			b[plainType] = fmt.Sprintf("%d forms", len(m))
		}
		return b
	}
	return Forms(v)
}

// chart returns the bundle of a Vega-Lite specification.
func chart(v any) Bundle {
	switch s := v.(type) {
	case string:
		v = raw(s)
	case []byte:
		v = raw(string(s))
	}
	if s, ok := v.(string); ok {
		return Bundle{plainType: "this is not JSON: " + s}
	}
	return Bundle{chartType: JSON(v), plainType: "Vega-Lite chart"}
}

// plot builds the specification of a simple chart.
func plot(kind string, v any) Bundle {
	field := func(name string, x any) map[string]any {
		t := "quantitative"
		if r := reflect.ValueOf(x); r.Kind() == reflect.Slice &&
			r.Type().Elem().Kind() == reflect.String {
			t = "nominal"
		} else if r.Kind() == reflect.Slice && r.Type().Elem().PkgPath() == "time" &&
			r.Type().Elem().Name() == "Time" {
			t = "temporal"
		}
		return map[string]any{"field": name, "type": t}
	}
	at := func(x any, i int) any {
		r := reflect.ValueOf(x)
		if (r.Kind() == reflect.Slice || r.Kind() == reflect.Array) && i < r.Len() {
			return JSON(r.Index(i).Interface())
		}
		return nil
	}
	count := func(x any) int {
		if r := reflect.ValueOf(x); r.Kind() == reflect.Slice || r.Kind() == reflect.Array {
			return r.Len()
		}
		return 0
	}
	var rows []any
	spec := map[string]any{
		"$schema": "https://vega.github.io/schema/vega-lite/v5.json",
		"mark":    kind,
	}
	if kind == "histogram" {
		for i := range count(v) {
			rows = append(rows, map[string]any{"x": at(v, i)})
		}
		spec["mark"] = "bar"
		spec["encoding"] = map[string]any{
			"x": map[string]any{"field": "x", "type": "quantitative", "bin": true},
			"y": map[string]any{"aggregate": "count", "type": "quantitative"},
		}
	} else {
		xy, _ := v.([2]any)
		for i := range max(count(xy[0]), count(xy[1])) {
			rows = append(rows, map[string]any{"x": at(xy[0], i), "y": at(xy[1], i)})
		}
		spec["encoding"] = map[string]any{"x": field("x", xy[0]), "y": field("y", xy[1])}
	}
	spec["data"] = map[string]any{"values": rows}
	return Bundle{chartType: JSON(spec), plainType: fmt.Sprintf("%s chart of %d points", kind,
		len(rows))}
}

// escape escapes text for HTML.
func escape(s string) string { return html.EscapeString(s) }
