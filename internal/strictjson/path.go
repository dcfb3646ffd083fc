package strictjson

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// unknownField returns the path of the first field in text that v does not have, such as
// limits.memory or volumes[0].size; empty if it finds none. text is valid JSON.
func unknownField(text []byte, v any) string {
	return search(text, reflect.TypeOf(v), "")
}

// search looks for an unknown field in the JSON value text of type t at path.
func search(text []byte, t reflect.Type, path string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(unmarshaler()) || reflect.PointerTo(t).Implements(unmarshaler()) {
		return ""
	}
	d := json.NewDecoder(bytes.NewReader(text))
	open, err := d.Token()
	if err != nil {
		return ""
	}
	switch {
	case open == json.Delim('{') && t.Kind() == reflect.Struct:
		return searchStruct(d, fieldsOf(t), path)
	case open == json.Delim('[') && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return searchArray(d, t.Elem(), path)
	}
	return ""
}

// searchStruct reads an object after its brace. fields are the types of the known fields.
func searchStruct(d *json.Decoder, fields map[string]reflect.Type, path string) string {
	for d.More() {
		token, err := d.Token()
		key, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return ""
		}
		t, known := match(fields, key)
		if !known {
			return join(path, key)
		}
		if found := search(value, t, join(path, key)); found != "" {
			return found
		}
	}
	return ""
}

// searchArray reads the elements of an array, of type t.
func searchArray(d *json.Decoder, t reflect.Type, path string) string {
	for i := 0; d.More(); i++ {
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return ""
		}
		if found := search(value, t, path+"["+strconv.Itoa(i)+"]"); found != "" {
			return found
		}
	}
	return ""
}

// match finds a field as encoding/json does: by its name, in any case.
func match(fields map[string]reflect.Type, key string) (reflect.Type, bool) {
	if t, ok := fields[key]; ok {
		return t, true
	}
	for name, t := range fields {
		if strings.EqualFold(name, key) {
			return t, true
		}
	}
	return nil, false
}

// fieldsOf returns the types of the fields of a struct by their JSON names, including those of
// embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || f.Anonymous && name == "" || !f.IsExported():
		case name == "":
			all[f.Name] = f.Type
		default:
			all[name] = f.Type
		}
	}
	return all
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func unmarshaler() reflect.Type { return reflect.TypeFor[json.Unmarshaler]() }
