package protocol

import "encoding/json"

// Complete asks about code at a cursor position, in Unicode code points.
type Complete struct {
	Code   string `json:"code"`
	Cursor int    `json:"cursor"`
	Detail int    `json:"detail,omitempty"`
	// About is an object whose kind names a table or a question about the code, for inspect.
	About json.RawMessage `json:"about,omitempty"`
}
