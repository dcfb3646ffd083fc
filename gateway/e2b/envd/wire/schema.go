// Package wire has the messages of envd's two services and serves their methods by Connect.
//
// Messages are Go structs. Schema compiles the .proto files of this folder when the server starts,
// and each method converts between its structs and the messages of the files, as JSON or protobuf.
// There is no generated code. A struct that does not match its message makes the server fail at
// start.
package wire

import (
	"context"
	"embed"
	"io"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoreflect"
)

//go:embed proto/*.proto
var files embed.FS

// The services. The path of a method is "/" + service + "/" + method.
const (
	ProcessService    = "process.Process"
	FilesystemService = "filesystem.Filesystem"
)

// Schema has the definitions of the services.
type Schema struct {
	services map[string]protoreflect.ServiceDescriptor
}

// NewSchema compiles the definitions. It panics if they are wrong.
func NewSchema() *Schema {
	source := &protocompile.SourceResolver{
		Accessor: func(path string) (io.ReadCloser, error) { return files.Open("proto/" + path) },
	}
	c := protocompile.Compiler{Resolver: protocompile.WithStandardImports(source)}
	compiled, err := c.Compile(context.Background(), "process.proto", "filesystem.proto")
	if err != nil {
		panic("wire: " + err.Error())
	}
	s := &Schema{services: map[string]protoreflect.ServiceDescriptor{}}
	for _, file := range compiled {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			s.services[string(service.FullName())] = service
		}
	}
	return s
}

// method returns the definition of a method.
func (s *Schema) method(service, name string) protoreflect.MethodDescriptor {
	d := s.services[service].Methods().ByName(protoreflect.Name(name))
	if d == nil {
		panic("wire: there is no method " + service + "/" + name)
	}
	return d
}
