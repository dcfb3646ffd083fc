package wire

import (
	"reflect"
	"testing"
)

// BenchmarkSchema compiles the definitions.
func BenchmarkSchema(b *testing.B) {
	for b.Loop() {
		NewSchema()
	}
}

// BenchmarkOutput encodes 64 KiB of output as JSON.
func BenchmarkOutput(b *testing.B) {
	m := newMapper(reflect.TypeFor[StartResponse](),
		NewSchema().method(ProcessService, "Start").Output())
	c := codecs(m, m)[0]
	v := &StartResponse{Event: &ProcessEvent{Data: &ProcessData{Stdout: make([]byte, 64<<10)}}}
	b.SetBytes(64 << 10)
	for b.Loop() {
		if _, err := c.Marshal(v); err != nil {
			b.Fatal(err)
		}
	}
}
