package interpreter

import (
	"encoding/json"
	"slices"

	"github.com/sandgate/sandgate/protocol/message"
)

// fields has the field of a result for each MIME type. All others are in the field extra.
var fields = map[string]string{
	"text/plain":             "text",
	"text/html":              "html",
	"text/markdown":          "markdown",
	"image/svg+xml":          "svg",
	"image/png":              "png",
	"image/jpeg":             "jpeg",
	"application/pdf":        "pdf",
	"text/latex":             "latex",
	"application/json":       "json",
	"application/javascript": "javascript",
	"e2b/data":               "data",
	"e2b/chart":              "chart",

	"application/vnd.sandgate.data+json":  "data",
	"application/vnd.sandgate.chart+json": "chart",
}

// shownTable is the form by which the web application asks for the rows of a table.
const shownTable = "application/vnd.sandgate.table+json"

// appendResult appends the line of a value.
func appendResult(b []byte, v message.Bundle, isMain bool) []byte {
	if isMain {
		b = append(b, mainPrefix...)
	} else {
		b = append(b, `{"type":"result","is_main_result":false`...)
	}
	var extra, types []string
	for kind := range v.Data {
		if kind != shownTable {
			types = append(types, kind)
		}
	}
	slices.Sort(types)
	seen := map[string]bool{}
	for _, kind := range types {
		field := fields[kind]
		if field == "" || seen[field] {
			extra = append(extra, kind)
			continue
		}
		seen[field] = true
		b = append(b, `,"`+field+`":`...)
		if field == "text" {
			b = appendPlain(b, v.Data[kind])
			continue
		}
		b = appendValue(b, v.Data[kind])
	}
	b = append(b, `,"extra":{`...)
	for i, kind := range extra {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendText(b, kind), ':')
		b = appendValue(b, v.Data[kind])
	}
	return append(b, "}}\n"...)
}

func appendValue(b []byte, raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	return appendJSON(b, raw)
}

// appendPlain appends a text without the quotes that enclose it: clients expect the content of a
// string, and not its representation.
func appendPlain(b []byte, raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return appendValue(b, raw)
	}
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '\'' || s[0] == '"') {
		s = s[1 : n-1]
	}
	return appendText(b, s)
}
