package wire

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// A mapper converts one type of Go struct to one type of message and back. A field of the struct
// has the name of the message's field without underscores, in any case.
//
// A pointer or a slice that is nil is an absent field. Strings of Go that are not UTF-8 are
// repaired, because a message cannot have them. Enums are strings with the name of the value.
type mapper struct {
	message protoreflect.MessageDescriptor
	fields  []field
}

type field struct {
	index int // in the struct
	desc  protoreflect.FieldDescriptor
	sub   *mapper // for a message
}

const timestamp = "google.protobuf.Timestamp"

// newMapper panics if the struct and the message do not have the same fields.
func newMapper(t reflect.Type, message protoreflect.MessageDescriptor) *mapper {
	m := &mapper{message: message}
	if t.NumField() != message.Fields().Len() {
		panic(fmt.Sprintf("wire: %s and %s have different fields", t, message.FullName()))
	}
	for i := range message.Fields().Len() {
		desc := message.Fields().Get(i)
		name := strings.ReplaceAll(string(desc.Name()), "_", "")
		sf, ok := t.FieldByNameFunc(func(s string) bool { return strings.EqualFold(s, name) })
		if !ok {
			panic(fmt.Sprintf("wire: %s has no field for %s", t, desc.FullName()))
		}
		f := field{index: sf.Index[0], desc: desc}
		if msg := desc.Message(); msg != nil && !desc.IsMap() && msg.FullName() != timestamp {
			elem := sf.Type.Elem()
			if desc.IsList() {
				elem = elem.Elem()
			}
			f.sub = newMapper(elem, msg)
		}
		m.fields = append(m.fields, f)
	}
	return m
}

// encode converts a struct.
func (m *mapper) encode(v reflect.Value) *dynamicpb.Message {
	msg := dynamicpb.NewMessage(m.message)
	for _, f := range m.fields {
		from := v.Field(f.index)
		switch {
		case f.desc.IsMap():
			if from.Len() == 0 {
				continue
			}
			to := msg.Mutable(f.desc).Map()
			for it := from.MapRange(); it.Next(); {
				key := protoreflect.ValueOfString(valid(it.Key().String()))
				to.Set(key.MapKey(), protoreflect.ValueOfString(valid(it.Value().String())))
			}
		case f.desc.IsList():
			if from.Len() == 0 {
				continue
			}
			to := msg.Mutable(f.desc).List()
			for i := range from.Len() {
				to.Append(f.value(from.Index(i)))
			}
		case from.Kind() == reflect.Pointer || from.Kind() == reflect.Slice:
			if !from.IsNil() {
				msg.Set(f.desc, f.value(from))
			}
		case !from.IsZero():
			msg.Set(f.desc, f.value(from))
		}
	}
	return msg
}

// value converts one value of a field.
func (f field) value(v reflect.Value) protoreflect.Value {
	if f.sub != nil {
		return protoreflect.ValueOfMessage(f.sub.encode(v.Elem()))
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch f.desc.Kind() {
	case protoreflect.MessageKind:
		return protoreflect.ValueOfMessage(fromTime(v.Interface().(time.Time), f.desc.Message()))
	case protoreflect.EnumKind:
		name := protoreflect.Name(v.String())
		if value := f.desc.Enum().Values().ByName(name); value != nil {
			return protoreflect.ValueOfEnum(value.Number())
		}
		return protoreflect.ValueOfEnum(0)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(valid(v.String()))
	default:
		return protoreflect.ValueOf(v.Interface())
	}
}

// decode sets the fields of a struct.
func (m *mapper) decode(msg protoreflect.Message, v reflect.Value) {
	for _, f := range m.fields {
		if !msg.Has(f.desc) {
			continue
		}
		from, to := msg.Get(f.desc), v.Field(f.index)
		switch {
		case f.desc.IsMap():
			to.Set(reflect.MakeMap(to.Type()))
			from.Map().Range(func(k protoreflect.MapKey, e protoreflect.Value) bool {
				to.SetMapIndex(reflect.ValueOf(k.String()), reflect.ValueOf(e.String()))
				return true
			})
		case f.desc.IsList():
			to.Set(reflect.MakeSlice(to.Type(), from.List().Len(), from.List().Len()))
			for i := range from.List().Len() {
				f.set(from.List().Get(i), to.Index(i))
			}
		default:
			f.set(from, to)
		}
	}
}

// set converts one value of a field.
func (f field) set(from protoreflect.Value, to reflect.Value) {
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch {
	case f.sub != nil:
		f.sub.decode(from.Message(), to)
	case f.desc.Kind() == protoreflect.MessageKind:
		to.Set(reflect.ValueOf(toTime(from.Message())))
	case f.desc.Kind() == protoreflect.EnumKind:
		if value := f.desc.Enum().Values().ByNumber(from.Enum()); value != nil {
			to.SetString(string(value.Name()))
		}
	case f.desc.Kind() == protoreflect.BytesKind:
		// A value that is present is not nil, also when it is empty.
		to.SetBytes(append([]byte{}, from.Bytes()...))
	default:
		to.Set(reflect.ValueOf(from.Interface()))
	}
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func fromTime(t time.Time, desc protoreflect.MessageDescriptor) protoreflect.Message {
	msg := dynamicpb.NewMessage(desc)
	msg.Set(desc.Fields().ByNumber(1), protoreflect.ValueOfInt64(t.Unix()))
	msg.Set(desc.Fields().ByNumber(2), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
	return msg
}

func toTime(msg protoreflect.Message) time.Time {
	fields := msg.Descriptor().Fields()
	return time.Unix(msg.Get(fields.ByNumber(1)).Int(), msg.Get(fields.ByNumber(2)).Int())
}
