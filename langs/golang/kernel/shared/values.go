// Package shared stores values for the other kernels of the session, and gets theirs.
package shared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	folder   = "/tmp/.sandgate-values" // has the values as NAME.json
	maxBytes = 64 << 20                // limit for a value as JSON
)

var name = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// stored is the content of a file: a value, or a table if it has columns.
type stored struct {
	Value   json.RawMessage     `json:"value,omitempty"`
	Columns []string            `json:"columns,omitempty"`
	Rows    [][]json.RawMessage `json:"rows,omitzero"`
}

func path(n string) (string, error) {
	if !name.MatchString(n) {
		return "", fmt.Errorf("%q is not a name of letters, digits and _, at most 64 characters", n)
	}
	return filepath.Join(folder, n+".json"), nil
}

// Put stores a value as encoding/json writes it. A slice of structs or maps with the same names is a
// table.
func Put(n string, v any) error {
	to, err := path(n)
	if err != nil {
		return err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	s, ok := table(raw)
	if !ok {
		s = stored{Value: raw}
	}
	if raw, err = json.Marshal(s); err != nil {
		return err
	}
	if len(raw) > maxBytes {
		return fmt.Errorf("%s has %d bytes as JSON; the limit is %d", n, len(raw), maxBytes)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	part, err := os.CreateTemp(folder, ".")
	if err != nil {
		return err
	}
	_, err = part.Write(raw)
	if err = errors.Join(err, part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}

// table returns a list of objects with the same names, whose values are no objects or lists.
func table(raw json.RawMessage) (stored, bool) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return stored{}, false
	}
	s := stored{Rows: make([][]json.RawMessage, len(list))}
	for i, object := range list {
		columns, row, ok := fields(object)
		if i == 0 {
			s.Columns = columns
		}
		if !ok || !slices.Equal(columns, s.Columns) {
			return stored{}, false
		}
		s.Rows[i] = row
	}
	return s, true
}

// fields returns the names and values of an object in their order.
func fields(object json.RawMessage) (names []string, values []json.RawMessage, ok bool) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, false
	}
	for d.More() {
		t, err := d.Token()
		var v json.RawMessage
		if err != nil || d.Decode(&v) != nil || v[0] == '{' || v[0] == '[' {
			return nil, nil, false
		}
		names, values = append(names, t.(string)), append(values, v)
	}
	return names, values, len(names) > 0
}

// Get reads what a kernel has stored into the value that a pointer points to, as encoding/json does.
// A table is a list of objects.
func Get(n string, into any) error {
	from, err := path(n)
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no kernel has stored %s; there are: %s", n, strings.Join(Names(), ", "))
	}
	if err != nil {
		return err
	}
	var s stored
	if err := json.Unmarshal(raw, &s); err != nil {
		return err
	}
	if s.Columns == nil {
		return json.Unmarshal(s.Value, into)
	}
	objects := make([]map[string]json.RawMessage, len(s.Rows))
	for i, row := range s.Rows {
		objects[i] = make(map[string]json.RawMessage, len(row))
		for j, v := range row {
			objects[i][s.Columns[j]] = v
		}
	}
	if raw, err = json.Marshal(objects); err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// Names returns the names of the stored values.
func Names() []string {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".json")
	}
	return files
}
