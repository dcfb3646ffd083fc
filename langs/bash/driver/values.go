package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// sharedFolder has the values that the kernels of a session share, as NAME.json.
	sharedFolder = "/tmp/.sandgate-values"
	maxValue     = 64 << 20 // bytes of a value as JSON
)

var valueName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// stored is the content of the file of a value: a value, or a table if it has columns.
type stored struct {
	Value   json.RawMessage     `json:"value,omitempty"`
	Columns []string            `json:"columns,omitempty"`
	Rows    [][]json.RawMessage `json:"rows,omitzero"`
}

// share performs a call of the function sandgate. put reads a value from file, as CSV, JSON or
// text; get and names write to it. It returns ok, or the reason of the failure.
func share(do, name, file, kind string) string {
	if do != "names" && !valueName.MatchString(name) {
		return fmt.Sprintf("%q is not a name of letters, digits and _, at most 64 characters", name)
	}
	path := filepath.Join(sharedFolder, name+".json")
	var err error
	switch do {
	case "put":
		err = putValue(path, file, kind)
	case "get":
		if err = getValue(path, file); errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("no kernel has stored %s", name)
		}
	default:
		var names bytes.Buffer
		found, _ := filepath.Glob(filepath.Join(sharedFolder, "*.json"))
		for _, f := range found {
			fmt.Fprintln(&names, strings.TrimSuffix(filepath.Base(f), ".json"))
		}
		err = os.WriteFile(file, names.Bytes(), 0o600)
	}
	if err != nil {
		return err.Error()
	}
	return "ok"
}

func putValue(path, file, kind string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var s stored
	switch kind {
	case "csv":
		s, err = tableOfCSV(text)
	case "json":
		s.Value = text
		if !json.Valid(text) {
			err = errors.New("it is not valid JSON")
		}
	default:
		line := strings.TrimSuffix(string(text), "\n")
		s.Value, err = json.Marshal(line)
	}
	if err != nil {
		return err
	}
	text, err = json.Marshal(s)
	if err == nil && len(text) > maxValue {
		err = fmt.Errorf("it has %d bytes as JSON; the limit is %d", len(text), maxValue)
	}
	if err == nil {
		err = os.MkdirAll(sharedFolder, 0o700)
	}
	if err != nil {
		return err
	}
	part, err := os.CreateTemp(sharedFolder, ".")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), path)
	}
	return err
}

// tableOfCSV returns a table. Its first line has the names. A column of numbers has numbers, and an
// empty field is null.
func tableOfCSV(text []byte) (stored, error) {
	records, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil || len(records) == 0 {
		return stored{}, errors.Join(errors.New("it is not a table as CSV with a line of names"), err)
	}
	s := stored{Columns: records[0], Rows: [][]json.RawMessage{}}
	numbers := make([]bool, len(s.Columns))
	for i := range s.Columns {
		numbers[i] = !slices.ContainsFunc(records[1:], func(r []string) bool {
			return r[i] != "" && !isNumber(r[i])
		})
	}
	for _, r := range records[1:] {
		row := make([]json.RawMessage, len(r))
		for i, field := range r {
			switch {
			case field == "":
				row[i] = json.RawMessage("null")
			case numbers[i]:
				row[i] = json.RawMessage(field)
			default:
				row[i], _ = json.Marshal(field)
			}
		}
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}

// isNumber reports whether the text is a number of JSON. A text such as 007 stays a text.
func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil && json.Valid([]byte(text))
}

// getValue writes a value to file: a table as CSV, a text as it is, anything else as JSON.
func getValue(path, file string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var s stored
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	var out bytes.Buffer
	if s.Columns == nil {
		out.WriteString(fieldOf(s.Value))
		out.WriteByte('\n')
		return os.WriteFile(file, out.Bytes(), 0o600)
	}
	w := csv.NewWriter(&out)
	_ = w.Write(s.Columns)
	for _, row := range s.Rows {
		fields := make([]string, len(row))
		for i, v := range row {
			fields[i] = fieldOf(v)
		}
		_ = w.Write(fields)
	}
	w.Flush()
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// fieldOf returns a value of JSON as text. null is empty.
func fieldOf(value json.RawMessage) string {
	if string(value) == "null" {
		return ""
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
