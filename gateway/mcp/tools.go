package mcp

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sandgate/sandgate/gateway/conversation"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
)

// toolsJSON describes the tools as clients get them. Hosts of models support a small part of JSON
// Schema, so the schemas are written by hand.
//
//go:embed tools.json
var toolsJSON []byte

// instructions describe the whole server for models.
const instructions = `Run code and commands in a private Linux sandbox. Variables, files and
processes stay between calls. The working folder is the home folder. Use run_code for Python,
JavaScript and other languages, run_command for the shell, start_process for servers and other work
that takes minutes. Without the argument session, all calls use the same sandbox.`

// tool performs one call. An error becomes a result that the model can read.
type tool func(ctx context.Context, c *call) (*sdk.CallToolResult, error)

// tools has the tools by name.
func tools() map[string]tool {
	return map[string]tool{
		"run_code": runCode, "run_command": runCommand,
		"start_process": startProcess, "read_output": readOutput, "stop_process": stopProcess,
		"read_file": readFile, "write_file": writeFile, "edit_file": editFile,
		"list_files": listFiles, "search_files": searchFiles,
		"preview_port": previewPort, "fork_session": forkSession,
		"snapshot_session": snapshotSession, "close_session": closeSession,
	}
}

// descriptions returns the tools as clients get them.
func descriptions() ([]*sdk.Tool, error) {
	var all []*sdk.Tool
	err := json.Unmarshal(toolsJSON, &all)
	return all, err
}

func (s *Surface) addTools() {
	all, err := descriptions()
	if err != nil {
		panic(err) // a test reads the same file
	}
	do := tools()
	for _, t := range all {
		s.server.AddTool(t, s.handler(do[t.Name]))
	}
}

// call is one call of a tool.
type call struct {
	*Surface
	caller
	progress *progress
	args     json.RawMessage
}

// handler performs calls of a tool. Only faults of the protocol are errors of the library.
func (s *Surface) handler(do tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (out *sdk.CallToolResult, _ error) {
		defer func() {
			if p := recover(); p != nil {
				s.cfg.Log.Error("a tool panicked", "panic", p, "stack", string(debug.Stack()))
				out = failed(fault.New(fault.Internal, "mcp.call", "the tool failed"))
			}
		}()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.cfg.Base, cancel)()
		who, err := s.callerOf(req)
		if err != nil {
			return failed(err), nil
		}
		c := &call{
			Surface: s, caller: who, progress: newProgress(req), args: req.Params.Arguments,
		}
		defer c.progress.tick.Stop()
		result, err := do(ctx, c)
		if err != nil {
			return failed(err), nil
		}
		return result, nil
	}
}

// arguments reads the arguments. It tolerates unknown ones. Errors: InvalidArgument with the field.
func (c *call) arguments(v any) error {
	if len(c.args) == 0 {
		return nil
	}
	err := json.Unmarshal(c.args, v)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fault.Invalid("mcp.arguments", wrong.Field, "the argument %s must not be a %s",
			wrong.Field, wrong.Value)
	case err != nil:
		return fault.Invalid("mcp.arguments", "arguments", "the arguments are not an object")
	}
	return nil
}

// required rejects a missing argument.
func required(field, value string) error {
	if value == "" {
		return fault.Invalid("mcp.arguments", field, "the argument %s is missing", field)
	}
	return nil
}

// within returns a number of an optional argument, or its default if it is 0.
func within(field string, value, normal, highest int) (int, error) {
	if value == 0 {
		return normal, nil
	}
	if value < 0 || value > highest {
		return 0, fault.Invalid("mcp.arguments", field, "%s is from 1 to %d", field, highest)
	}
	return value, nil
}

// most returns the time of a run in seconds, within the operator's limit.
func (c *call) most(seconds int) int {
	if limit := int(c.cfg.Settings.Timeout / time.Second); limit > 0 {
		return min(seconds, limit)
	}
	return seconds
}

// opened is the session of a call.
type opened struct {
	id      string
	created bool
}

func (c *call) at(session string) conversation.Place {
	p := c.place
	p.Session = session
	return p
}

// ensure returns the session with a name, and creates it if there is none. language is warm in a
// new session.
func (c *call) ensure(ctx context.Context, session, language string) (opened, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	policy := c.policy
	policy.Language = language
	s, err := c.sessions.Ensure(ctx, c.who, c.at(session), policy)
	return opened{s.ID, s.Created}, err
}

// find returns a session that a tool only reads. The default session is created with its first use.
func (c *call) find(ctx context.Context, session string) (opened, error) {
	if session == "" {
		return c.ensure(ctx, "", "")
	}
	return c.existing(ctx, session)
}

// existing returns a session that exists. Errors: NotFound.
func (c *call) existing(ctx context.Context, session string) (opened, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	s, err := c.sessions.Find(ctx, c.who, c.at(session))
	if fault.Is(err, fault.NotFound) {
		message := "the conversation has no default session yet"
		if session != "" {
			message = fmt.Sprintf("the conversation has no session %q; run_code, run_command, "+
				"start_process and write_file create it", session)
		}
		err = &fault.Error{
			Kind: fault.NotFound, Op: "mcp.session", Field: "session", Message: message,
		}
	}
	return opened{id: s.ID}, err
}

// node makes one request of the node.
func (c *call) node(ctx context.Context, op string, params, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Call)
	defer cancel()
	return c.cfg.Node.Call(ctx, c.who, op, params, result)
}

// file returns a file of a session.
func file(session, path string) protocol.FileRef {
	return protocol.FileRef{Session: session, Path: path}
}
