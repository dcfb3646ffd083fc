// Package main is cell 0 of a session, which all cells import: functions that generated code calls,
// and the helpers for users.
package main

import (
	"fmt"
	"image"
	"os"
	"sync/atomic"
)

// alarm__ is not zero while a goroutine of a cell has to stop.
var alarm__ uint32

// kernel__ has the kernel's functions.
var kernel__ struct {
	check   func()
	result  func(v []any)
	local   func(name string, pointer any)
	display func(kind string, v any, id string, update bool)
	clear   func(wait bool)
	input   func(prompt string, password bool) (string, error)
	put     func(name string, v any) error
	get     func(name string, into any) error
	names   func() []string
}

// Install__ is called by the kernel, once.
func Install__(check func(), result func([]any), local func(string, any),
	display func(string, any, string, bool), clear func(bool),
	input func(string, bool) (string, error), put, get func(string, any) error,
	names func() []string,
) *uint32 {
	kernel__.check, kernel__.result, kernel__.local = check, result, local
	kernel__.display, kernel__.clear, kernel__.input = display, clear, input
	kernel__.put, kernel__.get, kernel__.names = put, get, names
	return &alarm__
}

// Check__ is called in every loop and in every function that calls another.
func Check__() {
	if atomic.LoadUint32(&alarm__) != 0 {
		check__()
	}
}

//go:noinline
func check__() { kernel__.check() }

// Result__ shows the value of a cell.
func Result__(v ...any) { kernel__.result(v) }

// Var__ registers a variable with the kernel.
func Var__(name string, pointer any) { kernel__.local(name, pointer) }

// Cell__ is the function that runs a cell.
func Cell__() {}

// Keep__ makes the stock linker keep a function that only the kernel calls.
//
//go:noinline
func Keep__(any) {}

func main() { Keep__(Install__) }

// displayer__ shows values in a client.
type displayer__ struct{ id string }

// display shows values in forms that a client can draw.
var display displayer__

// Any shows a value in all its forms: those of its methods HTML, Markdown, SVG, JSON (string) and
// MIME (map[string]any), an image as PNG, and text.
func (d displayer__) Any(v any) { kernel__.display("any", v, d.id, false) }

// HTML shows a piece of HTML.
func (d displayer__) HTML(text string) { kernel__.display("html", text, d.id, false) }

// Markdown shows Markdown.
func (d displayer__) Markdown(text string) { kernel__.display("markdown", text, d.id, false) }

// SVG shows a drawing.
func (d displayer__) SVG(text string) { kernel__.display("svg", text, d.id, false) }

// Latex shows a formula.
func (d displayer__) Latex(text string) { kernel__.display("latex", text, d.id, false) }

// JSON shows any value as a tree.
func (d displayer__) JSON(v any) { kernel__.display("json", v, d.id, false) }

// Image shows a picture as PNG.
func (d displayer__) Image(m image.Image) { kernel__.display("image", m, d.id, false) }

// PNG shows an encoded PNG picture.
func (d displayer__) PNG(data []byte) { kernel__.display("png", data, d.id, false) }

// JPEG shows an encoded JPEG picture.
func (d displayer__) JPEG(data []byte) { kernel__.display("jpeg", data, d.id, false) }

// Table shows a slice of structs, maps, slices or values, or a map, as a table.
func (d displayer__) Table(v any) { kernel__.display("table", v, d.id, false) }

// Chart shows a Vega-Lite specification: a map, a struct, or JSON in a string.
func (d displayer__) Chart(spec any) { kernel__.display("chart", spec, d.id, false) }

// Line draws ys over xs.
func (d displayer__) Line(xs, ys any) { kernel__.display("line", [2]any{xs, ys}, d.id, false) }

// Bar draws a bar for each x, a number or a name.
func (d displayer__) Bar(xs, ys any) { kernel__.display("bar", [2]any{xs, ys}, d.id, false) }

// Points draws a point for each x and y.
func (d displayer__) Points(xs, ys any) { kernel__.display("point", [2]any{xs, ys}, d.id, false) }

// Histogram draws how often values occur.
func (d displayer__) Histogram(xs any) { kernel__.display("histogram", xs, d.id, false) }

// MIME shows a bundle: values by MIME type.
func (d displayer__) MIME(bundle map[string]any) { kernel__.display("mime", bundle, d.id, false) }

// ID returns a display that can be updated: its content has the id.
func (d displayer__) ID(id string) displayer__ { return displayer__{id} }

// Update replaces the content that was shown under the id.
func (d displayer__) Update(v any) { kernel__.display("any", v, d.id, true) }

// Clear removes the cell's output; with wait, when the next output comes.
func (d displayer__) Clear(wait ...bool) { kernel__.clear(len(wait) > 0 && wait[0]) }

// inputs__ asks the user.
type inputs__ struct{}

// input asks the user for lines. Reading os.Stdin asks as well.
var input inputs__

// Line asks for a line; io.EOF means the end of input.
func (inputs__) Line(prompt string) (string, error) { return kernel__.input(prompt, false) }

// Password asks for a line that is not shown.
func (inputs__) Password(prompt string) (string, error) { return kernel__.input(prompt, true) }

type values__ struct{}

// sandgate has the values that the kernels of the session share.
var sandgate values__

// Put stores a value for the other kernels. A slice of structs or maps with the same names is a
// table.
func (values__) Put(name string, v any) error { return kernel__.put(name, v) }

// Get reads what a kernel has stored into the value that a pointer points to. A table is a list of
// objects.
func (values__) Get(name string, into any) error { return kernel__.get(name, into) }

// Names returns the names of the stored values.
func (values__) Names() []string { return kernel__.names() }

// print and println replace the built-in functions, so that their output keeps its order with all
// other output.
func print(args ...any) {
	for _, a := range args {
		os.Stderr.WriteString(plain__(a))
	}
}

func println(args ...any) {
	s := ""
	for i, a := range args {
		if i > 0 {
			s += " "
		}
		s += plain__(a)
	}
	os.Stderr.WriteString(s + "\n")
}

func plain__(a any) string {
	switch a := a.(type) {
	case float64:
		return float__(a)
	case float32:
		return float__(float64(a))
	case error, fmt.Stringer:
		return fmt.Sprintf("%T", a)
	}
	return fmt.Sprint(a)
}

// float__ writes three digits of exponent, as the built-in functions do.
func float__(f float64) string {
	s := fmt.Sprintf("%+e", f)
	if n := len(s); n > 4 && (s[n-3] == '+' || s[n-3] == '-') {
		s = s[:n-2] + "0" + s[n-2:]
	}
	return s
}
