package wire

import (
	"reflect"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/dynamicpb"
)

// codec is a codec of Connect for the messages of one method, which are Go structs.
type codec struct {
	name      string
	in, out   *mapper
	marshal   func(reflect.Value) ([]byte, error)
	unmarshal func([]byte, proto.Message) error
}

// codecs returns the codecs of a method: JSON, under both of its names, and protobuf. JSON has the
// fields that are zero, because some clients do not use a schema. Unknown fields are ignored.
func codecs(in, out *mapper) []codec {
	var list []codec
	for _, name := range []string{"json", "json; charset=utf-8"} {
		list = append(list, codec{
			name: name, in: in, out: out,
			marshal:   func(v reflect.Value) ([]byte, error) { return out.appendJSON(nil, v), nil },
			unmarshal: protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal,
		})
	}
	return append(list, codec{
		name: "proto", in: in, out: out,
		marshal:   func(v reflect.Value) ([]byte, error) { return proto.Marshal(out.encode(v)) },
		unmarshal: proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal,
	})
}

func (c codec) Name() string { return c.name }

// Marshal encodes a response.
func (c codec) Marshal(v any) ([]byte, error) {
	return c.marshal(reflect.ValueOf(v).Elem())
}

// Unmarshal decodes a request.
func (c codec) Unmarshal(data []byte, v any) error {
	msg := dynamicpb.NewMessage(c.in.message)
	if err := c.unmarshal(data, msg); err != nil {
		return err
	}
	c.in.decode(msg, reflect.ValueOf(v).Elem())
	return nil
}
