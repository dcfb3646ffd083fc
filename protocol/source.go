package protocol

import (
	"embed"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strings"
)

// source is this package's own code. Its doc comments are the descriptions in the OpenAPI document,
// so that each is written once.
//
//go:embed *.go notebook/*.go
var source embed.FS

// Comments returns the doc comments of the types of this package, by ".Type", and of package
// notebook, by "/notebook.Type". Those of fields have ".Field" in addition.
func Comments() (map[string]string, error) {
	all := map[string]string{}
	files, err := fs.Glob(source, "*.go")
	if err != nil {
		return nil, err
	}
	for _, name := range append(files, "notebook/notebook.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := source.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			if types, ok := decl.(*ast.GenDecl); ok && types.Tok == token.TYPE {
				folder := strings.TrimSuffix("/"+path.Dir(name), "/.")
				addComments(all, folder+".", types)
			}
		}
	}
	return all, nil
}

// addComments adds the comments of one declaration of types.
func addComments(all map[string]string, prefix string, types *ast.GenDecl) {
	for _, spec := range types.Specs {
		t := spec.(*ast.TypeSpec) // a declaration of types has only such specs
		all[prefix+t.Name.Name] = text(types.Doc)
		if fields, ok := t.Type.(*ast.StructType); ok {
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					all[prefix+t.Name.Name+"."+name.Name] = text(f.Doc)
				}
			}
		}
	}
}

// text joins the lines of a comment.
func text(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
