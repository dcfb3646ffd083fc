package fault

import (
	"encoding/json"
	"errors"
	"testing"
)

// Embedded is a type that another one embeds.
type Embedded struct {
	Session string `json:"session"`
}

// TestJSONField: the field of an error has no name of a Go type.
func TestJSONField(t *testing.T) {
	var to struct {
		Embedded
		Limits struct {
			CPUs float64 `json:"cpus"`
		} `json:"limits"`
	}
	for body, want := range map[string]string{
		`{"session":true}`:       "session",
		`{"limits":{"cpus":""}}`: "limits.cpus",
	} {
		wrong, ok := errors.AsType[*json.UnmarshalTypeError](json.Unmarshal([]byte(body), &to))
		if !ok {
			t.Fatalf("%s is accepted", body)
		}
		if got := JSONField(wrong.Field); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
