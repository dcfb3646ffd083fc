package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Field is one setting of a Config.
type Field struct {
	// Path is its name in the file, with dots: limits.memory.
	Path string
	// Env and Flag are its names in the environment and on the command line.
	Env  string
	Flag string
	// Type is text, list, number, fraction, switch, size or duration.
	Type    string
	Default string
	Doc     string

	value reflect.Value
}

// Fields returns all settings of c in the order of their declaration. Set on
// one of them changes c.
func Fields(c *Config) []Field {
	return fieldsOf(reflect.ValueOf(c).Elem(), "")
}

func fieldsOf(v reflect.Value, prefix string) []Field {
	var fields []Field
	for i := range v.NumField() {
		t := v.Type().Field(i)
		path := prefix + t.Tag.Get("yaml")
		if t.Type.Kind() == reflect.Struct {
			fields = append(fields, fieldsOf(v.Field(i), path+".")...)
			continue
		}
		fields = append(fields, Field{
			Path:    path,
			Env:     "SANDGATE_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_")),
			Flag:    strings.NewReplacer(".", "-", "_", "-").Replace(path),
			Type:    typeName(v.Field(i).Interface()),
			Default: t.Tag.Get("default"),
			Doc:     t.Tag.Get("doc"),
			value:   v.Field(i),
		})
	}
	return fields
}

func typeName(v any) string {
	switch v.(type) {
	case []string:
		return "list"
	case int:
		return "number"
	case float64:
		return "fraction"
	case bool:
		return "switch"
	case Size:
		return "size"
	case Duration:
		return "duration"
	}
	return "text"
}

// String gives the value as Set takes it.
func (f Field) String() string {
	if l, ok := f.value.Interface().([]string); ok {
		return strings.Join(l, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// Set parses text as the field's type. A list's items are parted by commas.
// The error says what would do, without the field's name.
func (f Field) Set(text string) error {
	var parsed any
	var err error
	switch f.value.Interface().(type) {
	case []string:
		items := []string{}
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				items = append(items, s)
			}
		}
		parsed = items
	case int:
		if parsed, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%q is not a whole number", text)
		}
	case float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("%q is not a number", text)
		}
		parsed = n
	case bool:
		if parsed, err = strconv.ParseBool(text); err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
	case Size:
		if parsed, err = ParseSize(text); err != nil {
			return err
		}
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 90s or 24h", text)
		}
		parsed = Duration(d)
	default:
		parsed = text
	}
	f.value.Set(reflect.ValueOf(parsed))
	return nil
}

// ParseSize reads a number of bytes with an optional unit: B, KiB, MiB, GiB or
// TiB. Units of a thousand are refused rather than guessed at.
func ParseSize(text string) (Size, error) {
	for _, u := range sizeUnits() {
		number, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/u.bytes {
			break
		}
		return Size(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 512MiB or 1GiB", text)
}
