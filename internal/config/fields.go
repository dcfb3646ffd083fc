package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Field is one setting of a Config.
type Field struct {
	// Path is its name in the file, with dots: limits.memory.
	Path string
	// Env and Flag are its names in the environment and on the command line.
	Env  string
	Flag string
	// Type is text, list, number, fraction, switch, size, duration or table.
	Type    string
	Default string
	Doc     string
	// Min and Max bound the value, in the format of Set; empty means no bound. Off is a value
	// outside the bounds that turns the setting off.
	Min, Max, Off string
	// OneOf lists the allowed values; nil allows all.
	OneOf []string

	value reflect.Value
}

// Fields returns all settings of c in the order of their declaration. Calling Set on a field
// changes c.
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
			Min:     t.Tag.Get("min"),
			Max:     t.Tag.Get("max"),
			Off:     t.Tag.Get("off"),
			OneOf:   strings.Fields(t.Tag.Get("oneof")),
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
	case Surfaces:
		return "table"
	}
	return "text"
}

// String formats the value as Set accepts it.
func (f Field) String() string {
	if l, ok := f.value.Interface().([]string); ok {
		return strings.Join(l, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// Set parses text as the field's type. Commas separate the items of a list. The error describes
// valid values, without the field's name.
func (f Field) Set(text string) error {
	parsed, err := f.parse(text)
	if err != nil {
		return err
	}
	f.value.Set(reflect.ValueOf(parsed))
	return nil
}

// check compares the value with the field's bounds.
func (f Field) check(op string) error {
	if len(f.OneOf) > 0 && !slices.Contains(f.OneOf, f.String()) {
		return fault.Invalid(op, f.Path, "%q is not one of %s", f.String(),
			strings.Join(f.OneOf, ", "))
	}
	if f.Off != "" && f.number(f.Off) == toNumber(f.value) {
		return nil
	}
	if f.Min != "" && toNumber(f.value) < f.number(f.Min) {
		if f.Off != "" {
			return fault.Invalid(op, f.Path, "must be at least %s, or %s", f.Min, f.Off)
		}
		return fault.Invalid(op, f.Path, "must be at least %s", f.Min)
	}
	if f.Max != "" && toNumber(f.value) > f.number(f.Max) {
		return fault.Invalid(op, f.Path, "must be at most %s", f.Max)
	}
	return nil
}

// number parses a bound. A bound that does not parse is a mistake in a tag, which the first load
// detects.
func (f Field) number(text string) float64 {
	parsed, err := f.parse(text)
	if err != nil {
		panic("config: the bound of " + f.Path + ": " + err.Error())
	}
	return toNumber(reflect.ValueOf(parsed))
}

func toNumber(v reflect.Value) float64 {
	if v.CanFloat() {
		return v.Float()
	}
	return float64(v.Int())
}

// parse reads text as the field's type.
func (f Field) parse(text string) (any, error) {
	switch f.value.Interface().(type) {
	case []string:
		items := []string{}
		for s := range strings.SplitSeq(text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				items = append(items, s)
			}
		}
		return items, nil
	case int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a whole number", text)
		}
		return n, nil
	case float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return nil, fmt.Errorf("%q is not a number", text)
		}
		return n, nil
	case bool:
		on, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return on, nil
	case Size:
		return ParseSize(text)
	case Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("%q is not a duration such as 90s or 24h", text)
		}
		return Duration(d), nil
	case Surfaces:
		return parseSurfaces(text)
	}
	return text, nil
}

// ParseSize reads a number of bytes with an optional unit: B, KiB, MiB, GiB or TiB. It rejects
// units of a thousand, because their meaning is ambiguous.
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
