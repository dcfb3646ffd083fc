package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// tool is an operation of the document for tool servers. Clients make a tool of each operation.
type tool struct {
	// name is the name of the tool, and id that of the operation in the whole document.
	name, id    string
	summary     string
	description string
	// fields are the fields of the body, in the words for models. Those without words keep their
	// own. A field is required if its words begin with "Required.".
	fields map[string]string
}

// sessionField describes a session in the words for models.
const sessionField = "The id of a sandbox: session of an earlier answer of run_code."

func tools() []tool {
	const required = "Required. "
	return []tool{
		{
			"run_code", "run", "Run code",
			"Run code in a private Linux sandbox and return its output, its last value and the " +
				"files that it has written. Set keep_seconds to keep the sandbox: the answer has " +
				"its id in session. Give this id to later calls, and variables and files are " +
				"still there.",
			map[string]string{
				"code":         required + "The code.",
				"language":     "python, javascript, typescript, go, java, php, bash or sql. Default python.",
				"session":      sessionField + " Without it, a new sandbox is used.",
				"timeout_ms":   "Time in milliseconds after which the code is interrupted. Default 30000.",
				"keep_seconds": "How many seconds a new sandbox stays, at most 3600. Default 0: it is deleted.",
				"files":        "Files that are written before the code runs.",
			},
		},
		{
			"run_command", "exec", "Run a command",
			"Run a line of the shell in a sandbox that run_code has kept. Return its output, its " +
				"exit code and the files that it has written.",
			map[string]string{
				"session":    required + sessionField,
				"cmd":        required + "The line of the shell.",
				"cwd":        "The folder to run it in. Default: the home folder.",
				"timeout_ms": "Time in milliseconds after which the command is ended.",
			},
		},
		{
			"read_file", "readFile", "Read a file",
			"Read a file of a sandbox that run_code has kept.", nil,
		},
		{
			"share_file", "linkFile", "Make a link to a file",
			"Make a link with which the user can download a file of a sandbox, for an hour. Give " +
				"the user the url of the answer.",
			map[string]string{
				"session": required + sessionField, "path": required + "The path of the file.",
			},
		},
		{
			"close_sandbox", "deleteSession", "Delete a sandbox",
			"Delete a sandbox with all variables and files.", nil,
		},
	}
}

// Tools returns the OpenAPI document for tool servers, of some operations of the whole document. It
// is short and has no references. A variable of a path has the name of the field of the body, because
// clients send both.
func Tools(document []byte) ([]byte, error) {
	var d plainDocument
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	paths := map[string]map[string]any{}
	for _, t := range tools() {
		path, method, op := d.find(t.id)
		if op == nil {
			return nil, fmt.Errorf("there is no operation %s", t.id)
		}
		path = strings.ReplaceAll(path, "{id}", "{session}")
		if paths[path] == nil {
			paths[path] = map[string]any{}
		}
		out := map[string]any{
			"operationId": t.name, "summary": t.summary, "description": t.description,
			"responses": map[string]any{"200": map[string]any{"description": "The result."}},
		}
		if all := variables(path); len(all) > 0 {
			out["parameters"] = all
		}
		if len(t.fields) > 0 {
			out["requestBody"] = d.bodyOf(op, t.fields)
		}
		paths[path][method] = out
	}
	return json.Marshal(map[string]any{
		"openapi": d.OpenAPI, "info": map[string]any{
			"title": "Sandgate tools", "version": "1",
			"description": "Run code and commands in private sandboxes.",
		},
		"paths": paths, "security": []any{map[string]any{"key": []any{}}},
		"components": map[string]any{"securitySchemes": map[string]any{
			"key": map[string]any{"type": "http", "scheme": "bearer"},
		}},
	})
}

// plainDocument is the whole document as plain values.
type plainDocument struct {
	OpenAPI    string
	Paths      map[string]map[string]any
	Components struct{ Schemas map[string]map[string]any }
}

// find returns the operation with an id; nil without one.
func (d *plainDocument) find(id string) (path, method string, op map[string]any) {
	for path, item := range d.Paths {
		for method, v := range item {
			if op, ok := v.(map[string]any); ok && op["operationId"] == id {
				return path, method, op
			}
		}
	}
	return "", "", nil
}

// variables describes the variables of a path.
func variables(path string) []any {
	var all []any
	for _, name := range pathVariables(path) {
		text := "The path of the file, relative to the home folder."
		if name == "session" {
			text = sessionField
		}
		all = append(all, map[string]any{
			"name": name, "in": "path", "required": true, "description": text,
			"schema": map[string]any{"type": "string"},
		})
	}
	return all
}

// bodyOf describes the body of an operation with some of its fields.
func (d *plainDocument) bodyOf(op map[string]any, fields map[string]string) map[string]any {
	body, _ := op["requestBody"].(map[string]any)
	forms, _ := body["content"].(map[string]any)
	one, _ := forms["application/json"].(map[string]any)
	whole, _ := d.withoutRefs(one["schema"], 0).(map[string]any)
	known, _ := whole["properties"].(map[string]any)
	properties := map[string]any{}
	required := []string{}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		field, _ := known[name].(map[string]any)
		field = maps.Clone(field)
		if field == nil {
			continue // a test finds it
		}
		text, must := strings.CutPrefix(fields[name], "Required. ")
		if must {
			required = append(required, name)
		}
		field["description"] = text
		properties[name] = field
	}
	return map[string]any{"required": true, "content": content(map[string]any{
		"type": "object", "properties": properties, "required": required,
	})}
}

// withoutRefs replaces references by the types to which they refer. Types that contain themselves
// end at a depth.
func (d *plainDocument) withoutRefs(v any, depth int) any {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok && depth < 4 {
			return d.withoutRefs(any(d.Components.Schemas[ref[strings.LastIndexByte(ref, '/')+1:]]),
				depth+1)
		}
		out := map[string]any{}
		for key, x := range v {
			out[key] = d.withoutRefs(x, depth)
		}
		return out
	case []any:
		for i := range v {
			v[i] = d.withoutRefs(v[i], depth)
		}
	}
	return v
}
