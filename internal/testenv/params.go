package testenv

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// ParamsFor returns those of the values that an operation has as parameters, by their names in JSON.
// The server refuses others. zero is a value of the type of the parameters; nil means none.
func ParamsFor(zero any, values map[string]any) map[string]any {
	kept := map[string]any{}
	if zero == nil {
		return kept
	}
	for name, v := range values {
		text, _ := json.Marshal(map[string]any{name: v}) // texts and numbers
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err := d.Decode(reflect.New(reflect.TypeOf(zero)).Interface())
		if err == nil || !strings.Contains(err.Error(), "unknown field") {
			kept[name] = v
		}
	}
	return kept
}
