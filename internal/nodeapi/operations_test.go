package nodeapi

import (
	"context"
	"strings"
	"testing"

	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// TestHandlersMatchTheTable compares the handlers with the operation table.
func TestHandlersMatchTheTable(t *testing.T) {
	all, err := newOperations(protocol.Operations(), handlers())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range protocol.Operations() {
		if atGateway := row.Target == protocol.AtGateway; (all[row.Name] != nil) == atGateway {
			t.Errorf("%s: it has a handler: %t", row.Name, !atGateway)
		}
	}
}

// TestHandlersThatDoNotMatch: each difference between the table and the handlers
// is an error that names the operation.
func TestHandlersThatDoNotMatch(t *testing.T) {
	row := protocol.Operation{Name: "a", Params: protocol.SessionRef{}, Result: protocol.Session{}}
	good := handle("a", func(context.Context, *call,
		protocol.SessionRef,
	) (p protocol.Session, err error) {
		return
	})
	tests := map[string]struct {
		table    []protocol.Operation
		handlers []handler
		want     string // text in the error; "" means no error
	}{
		"match":      {[]protocol.Operation{row}, []handler{good}, ""},
		"no handler": {[]protocol.Operation{row}, nil, "a has no handler"},
		"no row": {
			nil,
			[]handler{good},
			"a has a handler and is not in the operation table of the node",
		},
		"two handlers": {[]protocol.Operation{row}, []handler{good, good}, "a has two handlers"},
		"parameters": {[]protocol.Operation{{
			Name: "a", Params: protocol.Hello{},
			Result: row.Result,
		}}, []handler{good}, "a's parameters: protocol.Hello"},
		"result": {[]protocol.Operation{{
			Name: "a", Params: row.Params,
			Result: protocol.Channel{},
		}}, []handler{good}, "a's result: protocol.Channel"},
		"no result": {
			[]protocol.Operation{{Name: "a", Params: row.Params}},
			[]handler{good},
			"a's result: nodeapi.none",
		},
		"no parameters": {
			[]protocol.Operation{{Name: "a", Result: row.Result}},
			[]handler{good},
			"a's parameters: nodeapi.none",
		},
		"at the gateway": {
			[]protocol.Operation{{Name: "a", Target: protocol.AtGateway}},
			[]handler{good},
			"a has a handler and is not in the operation table of the node",
		},
		"any JSON": {[]protocol.Operation{{
			Name: "a", Params: protocol.AnyJSON{},
			Result: protocol.AnyJSON{},
		}}, []handler{good}, ""},
	}
	for name, x := range tests {
		_, err := newOperations(x.table, x.handlers)
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q", name, err, x.want)
		}
	}
}

// TestDecode: the parameters of a client have no unknown fields, and errors name the field. Those of
// a gateway may have some.
func TestDecode(t *testing.T) {
	request := func(transport protocol.Transport, params string) *call {
		return &call{
			operation: &operation{Operation: protocol.Operation{Name: "a", Transport: transport}},
			request:   protocol.Request{Params: []byte(params)},
		}
	}
	for _, params := range []string{"", "null", "{}"} {
		if _, err := decode[none](request(protocol.WebSocket, params)); err != nil {
			t.Errorf("parameters %s of an operation that has none: %v", params, err)
		}
	}
	for params, field := range map[string]string{
		`"x"`: "params", `[]`: "params", `[{"session":"s_1"}]`: "params", `{"session":1}`: "session",
		`{"sesion":"s_1"}`: "sesion",
	} {
		_, err := decode[protocol.SessionRef](request(protocol.WebSocket, params))
		if p := fault.PublicOf(err); p.Kind != fault.InvalidArgument || p.Field != field {
			t.Errorf("%s: %v, field %q", params, err, p.Field)
		}
		if _, err := decode[none](request(protocol.HTTPOnly, params)); err == nil {
			t.Errorf("an operation without parameters takes %s", params)
		}
	}
	p, err := decode[protocol.SessionRef](request(protocol.Internal, `{"session":"s_1","new":1}`))
	if err != nil || p.Session != "s_1" {
		t.Errorf("a field of a newer gateway: %v, %v", p, err)
	}
}
