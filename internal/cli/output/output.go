// Package output prints the results of commands as tables or as JSON.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Format is a way to print a result. It is a flag's value.
type Format string

// The formats. JSON is the result as the server's API returns it.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
)

// Formats lists the names of the formats.
func Formats() []string { return []string{string(Table), string(Wide), string(JSON)} }

func (f *Format) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *Format) Set(text string) error {
	if !slices.Contains(Formats(), text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(Formats(), ", "))
	}
	*f = Format(text)
	return nil
}

// Type implements pflag.Value.
func (f *Format) Type() string { return "format" }

// Printer prints in one format.
type Printer struct {
	W      io.Writer
	Format Format
	// Quiet prints only the first column.
	Quiet bool
	// NoHeader leaves out the names of the columns.
	NoHeader bool
}

// Column is a column of a table.
type Column[T any] struct {
	Name string
	// Wide columns are only in wide tables, Narrow columns only in the others.
	Wide, Narrow bool
	Text         func(T) string
}

// List prints the result of a command that lists: rows as a table, or result as JSON. A table
// without rows has no header.
func List[T any](p Printer, result any, rows []T, columns []Column[T]) error {
	if p.Format == JSON && !p.Quiet {
		return WriteJSON(p.W, result)
	}
	if p.Quiet {
		columns = columns[:1]
	}
	columns = slices.DeleteFunc(columns, func(c Column[T]) bool {
		return c.Wide && p.Format != Wide || c.Narrow && p.Format == Wide
	})
	w := tabwriter.NewWriter(p.W, 0, 4, 2, ' ', 0)
	line := func(text func(Column[T]) string) {
		cells := make([]string, len(columns))
		for i, c := range columns {
			cells[i] = text(c)
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	if len(rows) > 0 && !p.Quiet && !p.NoHeader {
		line(func(c Column[T]) string { return c.Name })
	}
	for _, row := range rows {
		line(func(c Column[T]) string { return c.Text(row) })
	}
	return w.Flush()
}

// Object prints one thing: as a table of one row, or as JSON.
func Object[T any](p Printer, one T, columns []Column[T]) error {
	return List(p, one, []T{one}, columns)
}

// WriteJSON prints v as JSON, indented. JSON contains no control characters, so that a terminal
// can show it.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
