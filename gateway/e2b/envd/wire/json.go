package wire

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// appendJSON appends a struct as the JSON form of its message. Fields that are zero are there too,
// unless they can be absent. This is several times as fast as protojson, which matters for output.
func (m *mapper) appendJSON(dst []byte, v reflect.Value) []byte {
	dst = append(dst, '{')
	first := true
	for _, f := range m.fields {
		from := v.Field(f.index)
		plain := f.desc.Cardinality() != protoreflect.Repeated && f.desc.HasPresence()
		if plain && from.IsNil() {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, '"')
		dst = append(dst, f.desc.JSONName()...)
		dst = append(dst, `":`...)
		switch {
		case f.desc.IsMap():
			dst = appendMap(dst, from)
		case f.desc.IsList():
			dst = append(dst, '[')
			for i := range from.Len() {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = f.appendValue(dst, from.Index(i))
			}
			dst = append(dst, ']')
		default:
			dst = f.appendValue(dst, from)
		}
	}
	return append(dst, '}')
}

// appendValue appends one value of a field.
func (f field) appendValue(dst []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if f.sub != nil {
		return f.sub.appendJSON(dst, v)
	}
	switch f.desc.Kind() {
	case protoreflect.MessageKind:
		at := v.Interface().(time.Time).UTC()
		return strconv.AppendQuote(dst, at.Format("2006-01-02T15:04:05.999999999Z"))
	case protoreflect.BytesKind:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, '"')
	case protoreflect.EnumKind:
		name := v.String()
		if f.desc.Enum().Values().ByName(protoreflect.Name(name)) == nil {
			name = string(f.desc.Enum().Values().ByNumber(0).Name())
		}
		return strconv.AppendQuote(dst, name)
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool())
	case protoreflect.StringKind:
		return appendText(dst, v.String())
	case protoreflect.Int64Kind:
		return append(strconv.AppendInt(append(dst, '"'), v.Int(), 10), '"')
	case protoreflect.Uint32Kind:
		return strconv.AppendUint(dst, v.Uint(), 10)
	default: // a signed number of 32 bits
		return strconv.AppendInt(dst, v.Int(), 10)
	}
}

func appendText(dst []byte, s string) []byte {
	text, _ := json.Marshal(valid(s)) // a string has no errors
	return append(dst, text...)
}

func appendMap(dst []byte, m reflect.Value) []byte {
	if m.Len() == 0 {
		return append(dst, "{}"...)
	}
	text, _ := json.Marshal(m.Interface()) // strings have no errors; it repairs them
	return append(dst, text...)
}
