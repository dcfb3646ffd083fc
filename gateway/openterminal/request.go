package openterminal

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sandgate/sandgate/protocol/fault"
)

// Clients repeat parameters of the query in the body, and send null for those that they do not set.

// query returns a parameter of the query; empty without one.
func query(r *http.Request, name string) string {
	if v := r.URL.Query().Get(name); !strings.EqualFold(v, "null") {
		return v
	}
	return ""
}

// number returns a whole number of the query, from 1, or normal without one. A number over most
// counts as most.
func number(r *http.Request, name string, normal, most int) (int, error) {
	text := query(r, name)
	if text == "" {
		return normal, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fault.Invalid("openterminal.query", name, "%s is a whole number from 1", name)
	}
	return min(n, most), nil
}

// flag returns a switch of the query, or normal without one.
func flag(r *http.Request, name string, normal bool) (bool, error) {
	text := query(r, name)
	if text == "" {
		return normal, nil
	}
	on, err := strconv.ParseBool(strings.ToLower(text))
	if err != nil {
		return false, fault.Invalid("openterminal.query", name, "%s is true or false", name)
	}
	return on, nil
}

// wait returns how long a request waits for the end of a process.
func wait(r *http.Request) (time.Duration, error) {
	text := query(r, "wait")
	if text == "" {
		return normalWait, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds >= 0) {
		return 0, fault.Invalid("openterminal.query", "wait", "wait is a number of seconds")
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second)), nil
}

// body decodes a JSON body. It tolerates unknown fields. Errors: InvalidArgument with the field,
// Malformed.
func body(r *http.Request, v any) error {
	const op = "openterminal.body"
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	err = json.Unmarshal(text, v)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fault.Invalid(op, wrong.Field, "%s must not be a %s", wrong.Field, wrong.Value)
	}
	if err != nil {
		return fault.New(fault.Malformed, op, "the body is not a JSON object")
	}
	return nil
}
