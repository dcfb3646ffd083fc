package relay

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sandgate/sandgate/protocol/fault"
)

// envelope is the part of a request that the gateway reads.
type envelope struct {
	id uint64
	op string
	ch uint32
	// trace is the client's traceparent, unchecked.
	trace string
	// key is the idempotency key; keyed is true if there is one.
	key   string
	keyed bool
}

// parseEnvelope reads the envelope of a control message. It is stricter than encoding/json: two
// parsers could read a duplicate name, or a name in upper case, differently. Then the gateway would
// check another request than the node performs.
//
// On an error, id is set if it was parsed.
func parseEnvelope(b []byte) (envelope, error) {
	const op = "relay.envelope"
	var e envelope
	if !utf8.Valid(b) {
		return e, fault.New(fault.Malformed, op, "a control message is UTF-8")
	}
	// b is well-formed JSON: the scan below cannot run past its end.
	i := 0
	if !json.Valid(b) || b[space(b, 0)] != '{' {
		return e, fault.New(fault.Malformed, op, "a control message is a JSON object")
	}
	var seen [6]bool
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	for i = space(b, space(b, 0)+1); b[i] != '}'; {
		end := stringEnd(b, i)
		name := unquote(b[i:end])
		i = space(b, end) // at the colon
		i = space(b, i+1)
		end = valueEnd(b, i)
		value := b[i:end]
		switch k := known(name); {
		case k < 0:
			note(fault.Invalid(op, clipped(name), "a request has no such field"))
		case seen[k]:
			return envelope{}, fault.New(fault.Malformed, op, "the name %s is repeated",
				fields()[k])
		case name != fields()[k]:
			return envelope{}, fault.New(fault.Malformed, op, "the name %s must be in lower case",
				fields()[k])
		default:
			seen[k] = true
			switch k {
			case 0:
				id, err := strconv.ParseUint(string(value), 10, 64)
				if err != nil || id == 0 {
					note(fault.Invalid(op, "id", "an id is a whole number above 0"))
				} else {
					e.id = id
				}
			case 1:
				if value[0] != '"' {
					note(fault.Invalid(op, "op", "an op is a string"))
				} else {
					e.op = unquote(value)
				}
			case 2:
				ch, err := strconv.ParseUint(string(value), 10, 32)
				if err != nil {
					note(fault.Invalid(op, "ch", "a ch is a whole number below 2^32"))
				}
				e.ch = uint32(ch)
			case 4:
				if value[0] != '"' {
					note(fault.Invalid(op, "traceparent", "a traceparent is a string"))
				} else {
					e.trace = unquote(value)
				}
			case 5:
				if value[0] != '"' {
					note(fault.Invalid(op, fieldKey, "a key is a string"))
				} else {
					e.key, e.keyed = unquote(value), true
				}
			}
		}
		if i = space(b, end); b[i] == ',' {
			i = space(b, i+1)
		}
	}
	if first == nil && e.op == "" {
		first = fault.Invalid(op, "op", "a request has an op")
	}
	return e, first
}

// fieldKey is the field of an idempotency key.
const fieldKey = "idempotency_key"

func fields() [6]string {
	return [6]string{"id", "op", "ch", "params", "traceparent", fieldKey}
}

func known(name string) int {
	for i, f := range fields() {
		if strings.EqualFold(name, f) {
			return i
		}
	}
	return -1
}

// clipped bounds the name of a field in an error.
func clipped(name string) string {
	const most = 128
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the index after the string that begins at i.
func stringEnd(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// valueEnd returns the index after the value that begins at i.
func valueEnd(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = stringEnd(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 { // the end of the object around a number
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

func unquote(b []byte) string {
	for _, c := range b {
		if c == '\\' {
			var s string
			if json.Unmarshal(b, &s) != nil {
				return ""
			}
			return s
		}
	}
	return string(b[1 : len(b)-1])
}
