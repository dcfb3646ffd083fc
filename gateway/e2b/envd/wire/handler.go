package wire

import (
	"bytes"
	"context"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"connectrpc.com/connect"
)

// The limits of messages, in bytes.
const (
	// MaxMessage is the largest message of a client, after it was decompressed.
	MaxMessage = 4 << 20
	// minCompress is the smallest message that is compressed.
	minCompress = 1 << 10
)

// TimeoutHeader is the header with the time that a call may take, in milliseconds.
const TimeoutHeader = "Connect-Timeout-Ms"

// Service serves the methods of one service. Its methods are added before it serves.
type Service struct {
	schema  *Schema
	name    string
	methods map[string]http.Handler // by path
}

// NewService returns a service of the schema without methods.
func NewService(s *Schema, name string) *Service {
	return &Service{schema: s, name: name, methods: map[string]http.Handler{}}
}

// Missing lists the methods of the service that were not added.
func (s *Service) Missing() []string {
	var missing []string
	all := s.schema.services[s.name].Methods()
	for i := range all.Len() {
		path := "/" + s.name + "/" + string(all.Get(i).Name())
		if s.methods[path] == nil {
			missing = append(missing, path)
		}
	}
	return missing
}

// ServeHTTP serves one call of a method. It replies to calls of unknown methods with unimplemented.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h, ok := s.methods[r.URL.Path]
	if !ok {
		WriteError(w, http.StatusNotFound, connect.CodeUnimplemented, "there is no such method")
		return
	}
	h.ServeHTTP(w, r)
}

// Unary adds a method with one request and one response. Handlers get the header of the request.
func Unary[Req, Res any](s *Service, name string,
	h func(ctx context.Context, header http.Header, req *Req) (*Res, error),
) {
	path, options := prepare[Req, Res](s, name, false, false)
	s.methods[path] = checked{whole: true, next: connect.NewUnaryHandler(path,
		func(ctx context.Context, r *connect.Request[Req]) (*connect.Response[Res], error) {
			res, err := h(ctx, r.Header(), r.Msg)
			if err != nil {
				return nil, Error(err)
			}
			return connect.NewResponse(res), nil
		}, options...)}
}

// ServerStream adds a method with one request and a stream of responses. One goroutine at a time
// may call send. Each response reaches the client at once, except one that follows a call of Last.
func ServerStream[Req, Res any](s *Service, name string,
	h func(ctx context.Context, header http.Header, req *Req, send func(*Res) error) error,
) {
	path, options := prepare[Req, Res](s, name, false, true)
	s.methods[path] = checked{stream: true, whole: true, next: connect.NewServerStreamHandler(path,
		func(ctx context.Context, r *connect.Request[Req], out *connect.ServerStream[Res]) error {
			return Error(h(ctx, r.Header(), r.Msg, out.Send))
		}, options...)}
}

// ClientStream adds a method with a stream of requests and one response. At the end of the stream
// next returns io.EOF.
func ClientStream[Req, Res any](s *Service, name string,
	h func(ctx context.Context, header http.Header, next func() (*Req, error)) (*Res, error),
) {
	path, options := prepare[Req, Res](s, name, true, false)
	s.methods[path] = checked{stream: true, next: connect.NewClientStreamHandler(path,
		func(ctx context.Context, in *connect.ClientStream[Req]) (*connect.Response[Res], error) {
			res, err := h(ctx, in.RequestHeader(), func() (*Req, error) {
				if in.Receive() {
					return in.Msg(), nil
				}
				if err := in.Err(); err != nil {
					return nil, err
				}
				return nil, io.EOF
			})
			if err != nil {
				return nil, Error(err)
			}
			return connect.NewResponse(res), nil
		}, options...)}
}

// prepare returns the path and the options of a method. It panics if its kind or its messages are
// others in the schema.
func prepare[Req, Res any](s *Service, name string, client, server bool) (string,
	[]connect.HandlerOption,
) {
	d := s.schema.method(s.name, name)
	if d.IsStreamingClient() != client || d.IsStreamingServer() != server {
		panic("wire: " + name + " is another kind of method")
	}
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(MaxMessage), connect.WithCompressMinBytes(minCompress),
		connect.WithInterceptors(cutStreams{}),
	}
	in := newMapper(reflect.TypeFor[Req](), d.Input())
	out := newMapper(reflect.TypeFor[Res](), d.Output())
	for _, c := range codecs(in, out) {
		options = append(options, connect.WithCodec(c))
	}
	return "/" + s.name + "/" + name, options
}

// checked refuses requests that Connect would refuse without a JSON body.
type checked struct {
	// stream is true if requests or responses are in envelopes.
	stream bool
	// whole is true if the request is one message. It is read to its end first, because net/http
	// notices that a client has disconnected only after that.
	whole bool
	next  http.Handler
}

func (c checked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		WriteError(w, http.StatusMethodNotAllowed, connect.CodeUnimplemented,
			"methods are called with POST")
		return
	}
	if types := contentTypes(c.stream); !supported(types, r.Header.Get("Content-Type")) {
		w.Header().Set("Accept-Post", strings.Join(types, ", "))
		WriteError(w, http.StatusUnsupportedMediaType, connect.CodeUnimplemented,
			"the method takes these content types: "+strings.Join(types, ", "))
		return
	}
	if r.Header.Get(TimeoutHeader) == "0" {
		r.Header.Del(TimeoutHeader) // clients mean no limit, Connect means no time at all
	}
	if c.whole {
		const envelope = 5
		body, err := io.ReadAll(io.LimitReader(r.Body, MaxMessage+envelope+1))
		rest := io.Reader(r.Body) // Connect judges what is too long
		if err != nil {
			rest = failed{err}
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(body), rest), r.Body}
	}
	if c.stream {
		w, r = withLast(w, r)
	}
	c.next.ServeHTTP(w, r)
}

// failed is a reader of a body that ended with an error.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// contentTypes lists what a method takes.
func contentTypes(stream bool) []string {
	grpc := []string{
		"application/grpc", "application/grpc+json", "application/grpc+proto",
		"application/grpc-web", "application/grpc-web+json", "application/grpc-web+proto",
	}
	if stream {
		return append([]string{"application/connect+json", "application/connect+proto"}, grpc...)
	}
	return append([]string{"application/json", "application/proto"}, grpc...)
}

func supported(types []string, header string) bool {
	base, params, err := mime.ParseMediaType(header)
	charset := params["charset"]
	return err == nil && slices.Contains(types, base) &&
		(charset == "" || strings.EqualFold(charset, "utf-8"))
}
