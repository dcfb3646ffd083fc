package native

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// document is the part of an OpenAPI document that this package changes.
type document struct {
	OpenAPI    string         `json:"openapi"`
	Info       any            `json:"info"`
	Servers    any            `json:"servers,omitempty"`
	Security   any            `json:"security,omitempty"`
	Paths      map[string]any `json:"paths"`
	Components struct {
		SecuritySchemes any            `json:"securitySchemes,omitempty"`
		Parameters      map[string]any `json:"parameters"`
		Responses       map[string]any `json:"responses"`
		Schemas         map[string]any `json:"schemas"`
	} `json:"components"`
}

// base describes the routes that are not derived from the operation table, and the types that only
// these routes use. It refers to generated schemas by name.
//
//go:embed gateway.json
var base []byte

// Document returns the OpenAPI document of the gateway: base, the derived routes, a schema for each
// type in the operation table, and the kinds of faults.
func Document() ([]byte, error) {
	var d document
	if err := json.Unmarshal(base, &d); err != nil {
		return nil, err
	}
	s, err := newSchemas()
	if err != nil {
		return nil, err
	}
	for _, h := range described() {
		path := Pattern(h.Route.Path, func(name string) string {
			return "{" + PublicName(h.Route.Path, name) +
				"}"
		})
		item, _ := d.Paths[path].(map[string]any)
		if item == nil {
			item = map[string]any{}
			d.Paths[path] = item
		}
		item[strings.ToLower(h.Route.Method)] = s.operation(h)
	}
	addKeys(d.Paths)
	for _, o := range protocol.Operations() {
		s.ref(o.Params)
		s.ref(o.Result)
		for _, r := range o.REST {
			s.ref(r.Events)
		}
	}
	var kinds []any
	for _, row := range fault.Table() {
		kinds = append(kinds, string(row.Kind))
	}
	s.all["Fault"].Properties.Set("kind", &jsonschema.Schema{Type: "string", Enum: kinds})
	for name, schema := range s.all {
		if _, ok := d.Components.Schemas[name]; ok {
			return nil, fmt.Errorf("base describes the generated type %s", name)
		}
		d.Components.Schemas[name] = schema
	}
	return json.Marshal(d)
}

// schemas collects the schemas of Go types.
type schemas struct {
	reflector jsonschema.Reflector
	all       map[string]*jsonschema.Schema
}

func newSchemas() (*schemas, error) {
	comments, err := protocol.Comments()
	if err != nil {
		return nil, err
	}
	const protocolPath = "github.com/sandgate/sandgate/protocol"
	s := &schemas{all: map[string]*jsonschema.Schema{}}
	s.reflector = jsonschema.Reflector{
		AllowAdditionalProperties: true, // responses may gain fields
		Mapper:                    special,
		Namer:                     schemaName,
		CommentMap:                map[string]string{},
	}
	for name, text := range comments {
		s.reflector.CommentMap[protocolPath+name] = text
	}
	s.ref(fault.Public{})
	return s, nil
}

// schemaName returns the Go name of a type. fault.Public is called Fault.
func schemaName(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[fault.Public]():
		return "Fault"
	case strings.HasSuffix(t.PkgPath(), "/message"):
		return "Kernel" + t.Name()
	case strings.HasSuffix(t.PkgPath(), "/notebook") && t.Name() != "Notebook":
		return "Notebook" + t.Name()
	}
	return t.Name()
}

// special returns the schema of a type whose JSON does not follow from its Go fields.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[json.RawMessage](), reflect.TypeFor[protocol.AnyJSON]():
		return &jsonschema.Schema{Description: "Any JSON value."}
	case reflect.TypeFor[protocol.Network]():
		hosts := uint64(256)
		one := uint64(1)
		properties := jsonschema.NewProperties()
		properties.Set("allow", &jsonschema.Schema{
			Type: "array", MinItems: &one, MaxItems: &hosts,
			Items: &jsonschema.Schema{
				Type:        "string",
				Description: "A host, such as example.org, *.example.org or git.example.org:22. Without a port, 80 and 443 are allowed.",
			},
		})
		properties.Set("deny", &jsonschema.Schema{
			Type: "array", MaxItems: &hosts,
			Items: &jsonschema.Schema{
				Type:        "string",
				Description: "An address or a network that is not reached, such as 192.0.2.1 or 198.51.100.0/24.",
			},
		})
		return &jsonschema.Schema{
			Description: "What a session may reach: true for everything that the server allows, false for nothing, or some hosts.",
			OneOf: []*jsonschema.Schema{
				{Type: "boolean"},
				{Type: "object", Properties: properties},
			},
		}
	}
	return nil
}

// ref returns a reference to the schema of a value's type. It adds that schema and the schemas that
// it refers to. Nil and types without fields have no schema.
func (s *schemas) ref(v any) map[string]any {
	if v == nil || reflect.TypeOf(v).NumField() == 0 {
		return map[string]any{}
	}
	for name, schema := range s.reflector.Reflect(v).Definitions {
		if s.all[name] != nil {
			continue
		}
		text, err := json.Marshal(schema)
		if err != nil {
			panic(err) // the library's own types always marshal
		}
		var moved jsonschema.Schema
		text = []byte(strings.ReplaceAll(string(text), `"#/$defs/`, `"#/components/schemas/`))
		if err := json.Unmarshal(text, &moved); err != nil {
			panic(err)
		}
		s.all[name] = &moved
	}
	return map[string]any{"$ref": "#/components/schemas/" + schemaName(reflect.TypeOf(v))}
}

// operation describes one derived route.
func (s *schemas) operation(h Handler) map[string]any {
	o := h.Operation
	result, status := "Empty", h.Route.Status
	if status == 0 {
		status = http.StatusOK
	}
	if o.Result != nil {
		result = schemaName(reflect.TypeOf(o.Result))
	}
	op := map[string]any{
		"operationId": o.ID, "summary": o.Summary,
		"description": fmt.Sprintf("Needs the scope `%s`.", o.Scope),
		"responses": map[string]any{
			strconv.Itoa(status): map[string]any{
				"description": result,
				"content":     content(s.ref(o.Result)),
			},
			"default": map[string]any{"$ref": "#/components/responses/Error"},
		},
	}
	if h.Route.Events != nil {
		answers := content(s.ref(o.Result))
		for _, mime := range []string{"application/x-ndjson", "text/event-stream"} {
			answers[mime] = map[string]any{"schema": s.ref(h.Route.Events)}
		}
		op["responses"].(map[string]any)[strconv.Itoa(status)] = map[string]any{
			"description": "One object, or events as they happen, whichever Accept prefers",
			"content":     answers,
		}
	}
	if _, both := o.Result.(protocol.Ensured); both {
		responses := op["responses"].(map[string]any)
		responses["201"] = responses["200"]
	}
	if parameters := s.parameters(h); len(parameters) > 0 {
		op["parameters"] = parameters
	}
	if h.Route.Body != protocol.NoBody {
		bodies := content(s.body(h))
		if h.Route.Form {
			bodies["multipart/form-data"] = map[string]any{"schema": form(bodies)}
		}
		op["requestBody"] = map[string]any{
			"required": h.Route.Body == protocol.RequiredBody,
			"content":  bodies,
		}
	}
	return op
}

// form returns the schema of a form whose part request has the JSON body of the route, and whose
// parts file are files.
func form(bodies map[string]any) any {
	file := map[string]any{"type": "string", "format": "binary"}
	return map[string]any{
		"type": "object", "required": []string{"request"},
		"properties": map[string]any{
			"request": bodies["application/json"].(map[string]any)["schema"],
			"file": map[string]any{
				"type": "array", "items": file,
				"description": "Files that are written before; the name of the file is its path.",
			},
		},
	}
}

func content(schema any) map[string]any {
	return map[string]any{"application/json": map[string]any{"schema": schema}}
}

// parameters describes the variables of a route's path and, for a GET route, of its query.
func (s *schemas) parameters(h Handler) []any {
	var all []any
	variables := pathVariables(h.Route.Path)
	for _, name := range variables {
		schema := map[string]any{"type": "string", "minLength": 1, "maxLength": maxName}
		if name == "pid" {
			schema = map[string]any{"type": "integer", "minimum": 1}
		}
		all = append(all, map[string]any{
			"name": PublicName(h.Route.Path, name), "in": "path", "required": true,
			"schema": schema,
		})
	}
	if h.Route.Method != http.MethodGet || h.Operation.Params == nil {
		return all
	}
	fields := queryFields(reflect.New(reflect.TypeOf(h.Operation.Params)).Elem())
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(variables, name) {
			continue
		}
		kind := map[reflect.Kind]string{
			reflect.Bool:   "boolean",
			reflect.String: "string",
		}[fields[name].Kind()]
		if kind == "" {
			kind = "integer"
		}
		schema := map[string]any{"type": kind}
		if fields[name].Kind() == reflect.Slice {
			schema = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
		}
		all = append(all, map[string]any{
			"name": name, "in": "query", "schema": schema,
		})
	}
	return all
}

// body returns the schema of a route's body: the parameters without those in the path.
func (s *schemas) body(h Handler) any {
	ref := s.ref(h.Operation.Params)
	name := schemaName(reflect.TypeOf(h.Operation.Params))
	if schema := s.all[name]; schema != nil {
		inPath := pathVariables(h.Route.Path)
		schema.Required = slices.DeleteFunc(schema.Required,
			func(f string) bool { return slices.Contains(inPath, f) })
	}
	return ref
}

// variable matches a variable of a path.
var variable = regexp.MustCompile(`{(\w+)}`)

// PublicName returns the name of a path variable in the OpenAPI document and in the labels of
// metrics, which clients read. The resource that a path is about is always called id. A name below a
// session is a part of it.
func PublicName(path, name string) string {
	switch name {
	case "name":
		if strings.Contains(path, "{session}") {
			return name
		}
		return "id"
	case "session", "snapshot", "tenant":
		return "id"
	}
	return name
}

// Pattern returns a route's path with each variable replaced by the result of form for its name.
func Pattern(path string, form func(name string) string) string {
	return variable.ReplaceAllStringFunc(path,
		func(v string) string { return form(strings.Trim(v, "{}")) })
}
