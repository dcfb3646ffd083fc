package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/sandgate/sandgate/internal/session"
	"github.com/sandgate/sandgate/internal/strictjson"
	"github.com/sandgate/sandgate/protocol"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/nodes"
)

// none is the type of parameters or a result without fields. As a result it is sent as {}.
type none struct{}

// operation is a row of the operation table with its handler.
type operation struct {
	protocol.Operation
	run func(ctx context.Context, c *call) (any, error)
}

// handler carries out the operation of one name.
type handler struct {
	name           string
	params, result reflect.Type
	run            func(ctx context.Context, c *call) (any, error)
}

// handle returns the handler of an operation, whose result is the reply.
func handle[P, R any](name string, do func(ctx context.Context, c *call, p P) (R, error)) handler {
	return handler{
		name: name, params: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *call) (any, error) {
			p, err := decode[P](c)
			if err != nil {
				return nil, err
			}
			return do(ctx, c, p)
		},
	}
}

// handleMore is handle for a result that has the fields of an R, as in the table, and others for
// gateways.
func handleMore[R, P, M any](
	name string, do func(ctx context.Context, c *call, p P) (M, error),
) handler {
	h := handle(name, do)
	h.result = reflect.TypeFor[R]()
	return h
}

// answered is the result of an operation that sends its reply itself.
type answered struct{}

// handleLater returns the handler of an operation that sends its reply itself, with the given
// function. The operation calls the function at most once with a result, unless it returns an
// error.
func handleLater[P, R any](
	name string, do func(ctx context.Context, c *call, p P, reply func(R, error)) error,
) handler {
	return handler{
		name: name, params: reflect.TypeFor[P](), result: reflect.TypeFor[R](),
		run: func(ctx context.Context, c *call) (any, error) {
			p, err := decode[P](c)
			if err != nil {
				return nil, err
			}
			return answered{}, do(ctx, c, p,
				func(result R, err error) { c.reply(c.request.ID, result, err) })
		},
	}
}

// decode decodes a request's parameters. Missing ones are the zero value. A field that the operation
// does not have is an error. Only operations between gateways and nodes ignore it: their other end
// can be of another release.
func decode[P any](c *call) (p P, err error) {
	text := c.request.Params
	if len(text) == 0 {
		return p, nil
	}
	if c.operation.Transport == protocol.Internal {
		err = json.Unmarshal(text, &p)
	} else {
		err = strictjson.Unmarshal(c.op(), text, &p)
	}
	if err == nil {
		return p, nil
	}
	if known, ok := errors.AsType[*fault.Error](err); ok && known.Field != "" {
		return p, known
	}
	return p, &fault.Error{
		Kind: fault.InvalidArgument, Op: c.op(), Field: "params",
		Message: "the parameters do not fit " + c.op(), Err: err,
	}
}

// newOperations joins the rows of the table with their handlers. It leaves out the rows that the
// gateway performs. It fails when a row has no handler, a handler has no row, or their types
// differ.
func newOperations(table []protocol.Operation, handlers []handler) (map[string]*operation, error) {
	byName := make(map[string]handler, len(handlers))
	var errs []error
	for _, h := range handlers {
		if _, twice := byName[h.name]; twice {
			errs = append(errs, fmt.Errorf("%s has two handlers", h.name))
		}
		byName[h.name] = h
	}
	all := make(map[string]*operation, len(table))
	for _, row := range table {
		if row.Target == protocol.AtGateway {
			continue
		}
		h, ok := byName[row.Name]
		if !ok {
			errs = append(errs, fmt.Errorf("%s has no handler", row.Name))
			continue
		}
		delete(byName, row.Name)
		errs = append(errs,
			sameType(row.Name+"'s parameters", row.Params, h.params),
			sameType(row.Name+"'s result", row.Result, h.result))
		all[row.Name] = &operation{Operation: row, run: h.run}
	}
	for name := range byName {
		errs = append(errs, fmt.Errorf(
			"%s has a handler and is not in the operation table of the node", name))
	}
	return all, errors.Join(errs...)
}

// sameType checks a handler's type against a value of the table.
func sameType(what string, row any, handler reflect.Type) error {
	want := reflect.TypeFor[none]()
	if row != nil {
		want = reflect.TypeOf(row)
	}
	if want == reflect.TypeFor[protocol.AnyJSON]() || want == handler {
		return nil
	}
	return fmt.Errorf("%s: %v in the operation table, %v in the handler", what, want, handler)
}

// withSession finds the session that a request names, and keeps it awake while do works with it.
func withSession[R any](ctx context.Context, c *call, id string,
	do func(s *session.Session) (R, error),
) (R, error) {
	var zero R
	s, err := c.session(id)
	if err != nil {
		return zero, err
	}
	release, err := s.Acquire(ctx)
	if err != nil {
		return zero, err
	}
	defer release()
	return do(s)
}

// handlers returns the handlers of all operations.
func handlers() []handler {
	var all []handler
	for _, group := range [][]handler{
		connectionHandlers(), sessionHandlers(), channelHandlers(), kernelHandlers(),
		fileHandlers(), processHandlers(), serviceHandlers(), resourceHandlers(), keyHandlers(),
		linkHandlers(), serverHandlers(), webhookHandlers(), notebookHandlers(),
	} {
		all = append(all, group...)
	}
	return all
}

func connectionHandlers() []handler {
	return []handler{
		handle(protocol.OpHello, hello),
		handle(protocol.OpSessionWatch, sessionWatch),
		handle(protocol.OpAttach, attach),
		handle(protocol.OpDetach, detach),
		handle(protocol.OpFollow, follow),
		handle(protocol.OpDocumentJoin, documentJoin),
		handle(protocol.OpDocumentUpdate, documentUpdate),
	}
}

func sessionHandlers() []handler {
	return []handler{
		handle(protocol.OpSessionCreate, sessionCreate),
		handle(protocol.OpSessionEnsure, sessionEnsure),
		handle(protocol.OpSessionFind, sessionFind),
		handle(protocol.OpSessionGet, sessionGet),
		handle(protocol.OpSessionSeries, sessionSeries),
		handleMore[protocol.SessionList](protocol.OpSessionList, sessionList),
		handle(protocol.OpSessionDelete, sessionDelete),
		handle(protocol.OpSessionUpdate, sessionUpdate),
		handle(protocol.OpSessionPause, sessionPause),
		handle(protocol.OpSessionKeepalive, sessionKeepalive),
		handle(protocol.OpHibernate, sessionHibernate),
		handle(protocol.OpResume, sessionResume),
		handle(protocol.OpFork, sessionFork),
		handle(protocol.OpSnapshot, sessionSnapshot),
		handle(protocol.OpAdopt, sessionAdopt),
		handle(protocol.OpParked, sessionParked),
		handle(protocol.OpSessionOwner, sessionOwner),
		handle(protocol.OpDrain, nodeDrain),
	}
}

func channelHandlers() []handler {
	return []handler{
		handle(protocol.OpChannelOpen, channelOpen),
		handle(protocol.OpChannelList, channelList),
		handle(protocol.OpChannelClose, channelClose),
		handle(protocol.OpSignal, signal),
		handle(protocol.OpResize, resize),
	}
}

func kernelHandlers() []handler {
	return []handler{
		handle(protocol.OpExecute, execute),
		handle(protocol.OpInput, input),
		handle(protocol.OpInterrupt, interrupt),
		handle(protocol.OpComm, comm),
		handle(protocol.OpRestart, restart),
		handle(protocol.OpComplete, complete),
		handle(protocol.OpInspect, complete),
		handle(protocol.OpIsComplete, complete),
		handle(protocol.OpVariables, variables),
		handle(protocol.OpHistory, history),
	}
}

func fileHandlers() []handler {
	return []handler{
		handleLater(protocol.OpFileWrite, fileWrite),
		handleLater(protocol.OpFileRead, fileRead),
		handle(protocol.OpFileStat, fileStat),
		handle(protocol.OpFileList, fileList),
		handle(protocol.OpFileMkdir, fileMkdir),
		handle(protocol.OpFileMove, fileMove),
		handle(protocol.OpFileCopy, fileCopy),
		handle(protocol.OpFileRemove, fileRemove),
		handleLater(protocol.OpFileWatch, fileWatch),
		handle(protocol.OpFileChanges, fileChanges),
		handleLater(protocol.OpTreeRead, treeRead),
		handleLater(protocol.OpTreeWrite, treeWrite),
	}
}

func processHandlers() []handler {
	return []handler{
		handle(protocol.OpProcessList, processList),
		handle(protocol.OpProcessSignal, processSignal),
		handle(protocol.OpPortList, portList),
		handleLater(protocol.OpPortOpen, portOpen),
		handle(protocol.OpPortWait, portWait),
	}
}

func resourceHandlers() []handler {
	return []handler{
		handle(protocol.OpSnapshotList, snapshotList),
		handle(protocol.OpSnapshotGet, snapshotGet),
		handle(protocol.OpSnapshotDel, snapshotDelete),
		handle(protocol.OpSnapshotStored, snapshotStored),
		handle(protocol.OpSnapshotDiscard, snapshotDiscard),
		handleLater(protocol.OpTemplateBuild, templateBuild),
		handle(protocol.OpTemplateList, templateList),
		handle(protocol.OpTemplateGet, templateGet),
		handle(protocol.OpTemplateDelete, templateDelete),
		handle(protocol.OpTemplateStored, templateStored),
		handle(protocol.OpVolumeCreate, volumeCreate),
		handle(protocol.OpVolumeList, volumeList),
		handle(protocol.OpVolumeGet, volumeGet),
		handle(protocol.OpVolumeDelete, volumeDelete),
		handle(protocol.OpVolumeLease, volumeLease),
		handle(protocol.OpVolumeRelease, volumeRelease),
	}
}

func keyHandlers() []handler {
	return []handler{
		handle(protocol.OpKeyCreate, keyCreate),
		handle(protocol.OpKeyList, keyList),
		handle(protocol.OpKeyRotate, keyRotate),
		handle(protocol.OpKeyRevoke, keyRevoke),
		handleLater(protocol.OpKeyWatch, keyWatch),
		handle(protocol.OpTenantList, tenantList),
		handle(protocol.OpTenantQuota, tenantQuota),
	}
}

func linkHandlers() []handler {
	return []handler{
		handle(protocol.OpLinkCreate, linkCreate),
		handle(protocol.OpLinkList, linkList),
		handle(protocol.OpLinkEnd, linkEnd),
		handle(protocol.OpPortLink, portLink),
		handle(protocol.OpPortLinks, portLinks),
		handle(protocol.OpPortUnlink, portUnlink),
	}
}

func serverHandlers() []handler {
	return []handler{
		handle(protocol.OpStatus, nodeStatus),
		handle(protocol.OpMetrics, nodeMetrics),
		handle(protocol.OpNodeList,
			func(_ context.Context, c *call, _ none) (nodes.NodeList, error) {
				return c.server.cfg.Self.List(), nil
			}),
		handle(protocol.OpNodeUpdate,
			func(_ context.Context, c *call, u nodes.NodeUpdate) (nodes.NodeInfo, error) {
				return c.server.cfg.Self.Change(u)
			}),
		handle(protocol.OpAudit, auditNotes),
		handleLater(protocol.OpRepeatBegin, repeatBegin),
		handle(protocol.OpRepeatEnd, repeatEnd),
	}
}
