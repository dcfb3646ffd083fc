package rich

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"reflect"
)

// Size of a plot's picture in points, which is that of display.Line in a page.
const plotWidth, plotHeight = 400, 300

// drawing adds the picture of a plot: gonum's have a method WriterTo(width, height, "png") that
// returns an io.WriterTo and an error. Its length types are floats.
func (b Bundle) drawing(v any) {
	m := reflect.ValueOf(v).MethodByName("WriterTo")
	if !m.IsValid() {
		return
	}
	t := m.Type()
	if t.NumIn() != 3 || t.NumOut() != 2 || t.IsVariadic() || t.In(0).Kind() != reflect.Float64 ||
		t.In(1).Kind() != reflect.Float64 || t.In(2).Kind() != reflect.String {
		return
	}
	out := m.Call([]reflect.Value{
		reflect.ValueOf(float64(plotWidth)).Convert(t.In(0)),
		reflect.ValueOf(float64(plotHeight)).Convert(t.In(1)),
		reflect.ValueOf("png").Convert(t.In(2)),
	})
	w, ok := out[0].Interface().(io.WriterTo)
	if !ok {
		return
	}
	if err, ok := out[1].Interface().(error); ok && err != nil {
		return
	}
	var data bytes.Buffer
	if _, err := w.WriteTo(&data); err != nil {
		return
	}
	b["image/png"] = base64.StdEncoding.EncodeToString(data.Bytes())
	b[plainType] = fmt.Sprintf("%T of %d × %d points", v, plotWidth, plotHeight)
	delete(b, syntaxType)
}
