package contents

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"

	"github.com/sandgate/sandgate/protocol/fault"
)

// A notebook in a file has texts as lists of lines. Clients get and send whole texts, as from Jupyter
// Server.

// decodeNotebook reads a notebook from a file.
func decodeNotebook(data []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var doc map[string]any
	err := d.Decode(&doc)
	if err == nil {
		if _, end := d.Token(); end != io.EOF {
			err = fault.New(fault.Malformed, "contents.notebook", "text follows the notebook")
		}
	}
	if err != nil || doc == nil {
		return nil, fault.Invalid("contents.notebook", "path",
			"the file is not a notebook, because it is not a JSON object")
	}
	if err := checkNotebook(doc); err != nil {
		return nil, err
	}
	eachText(doc, func(v any) any {
		lines, ok := v.([]any)
		if !ok {
			return v
		}
		var b strings.Builder
		for _, line := range lines {
			text, ok := line.(string)
			if !ok {
				return v
			}
			b.WriteString(text)
		}
		return b.String()
	})
	return doc, nil
}

// checkNotebook rejects what is no notebook of the format 4.
func checkNotebook(doc map[string]any) error {
	version, _ := doc["nbformat"].(json.Number)
	if n, err := version.Int64(); err != nil || n != 4 {
		return fault.Invalid("contents.notebook", "nbformat",
			"only notebooks of the format 4 are supported")
	}
	if _, ok := doc["cells"].([]any); !ok {
		return fault.Invalid("contents.notebook", "cells", "a notebook has a list of cells")
	}
	return nil
}

// encodeNotebook returns the file of a notebook: with sorted keys and lists of lines, so that versions
// of it can be compared. It leaves out what is true only on one server.
func encodeNotebook(content json.RawMessage) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	var doc map[string]any
	if d.Decode(&doc) != nil || doc == nil {
		return nil, fault.Invalid("contents.notebook", "content", "a notebook is a JSON object")
	}
	if err := checkNotebook(doc); err != nil {
		return nil, err
	}
	if meta, ok := doc["metadata"].(map[string]any); ok {
		for _, key := range []string{"orig_nbformat", "orig_nbformat_minor", "signature"} {
			delete(meta, key)
		}
	}
	for _, cell := range objects(doc["cells"]) {
		if meta, ok := cell["metadata"].(map[string]any); ok {
			delete(meta, "trusted")
		}
	}
	eachText(doc, func(v any) any {
		text, ok := v.(string)
		if !ok {
			return v
		}
		lines := strings.SplitAfter(text, "\n")
		if last := len(lines) - 1; lines[last] == "" {
			lines = lines[:last]
		}
		return lines
	})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(doc)
	return b.Bytes(), fault.Wrap(fault.Internal, "contents.notebook", err)
}

// objects returns the objects of a list.
func objects(list any) []map[string]any {
	var all []map[string]any
	values, _ := list.([]any)
	for _, v := range values {
		if o, ok := v.(map[string]any); ok {
			all = append(all, o)
		}
	}
	return all
}

// eachText replaces each text of a notebook that may have several lines.
func eachText(doc map[string]any, replace func(any) any) {
	at := func(o map[string]any, key string) {
		if v, ok := o[key]; ok {
			o[key] = replace(v)
		}
	}
	bundle := func(v any) {
		o, _ := v.(map[string]any)
		for kind := range o {
			if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
				at(o, kind)
			}
		}
	}
	for _, cell := range objects(doc["cells"]) {
		at(cell, "source")
		if files, ok := cell["attachments"].(map[string]any); ok {
			for _, file := range files {
				bundle(file)
			}
		}
		for _, output := range objects(cell["outputs"]) {
			at(output, "text")
			bundle(output["data"])
		}
	}
}
