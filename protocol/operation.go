package protocol

import (
	"slices"
	"time"
)

// Operation is one row of the operation table. The table is the only definition of an operation:
// dispatch on the node, authorization, the rights of viewers and share links, audit, routing in a
// cluster, the REST interface and the OpenAPI document are derived from it or checked against it.
type Operation struct {
	// Name is the value of Request.Op.
	Name string
	// ID names the operation in the OpenAPI document. It is empty where a node performs the
	// operation and all routes are Custom, or there are none.
	ID string
	// Summary says in one sentence what the operation does.
	Summary string
	// Params and Result are zero values of the Go types of Request.Params and Reply.Result. If
	// Params is nil, the operation has no parameters. If Result is nil, the result is {}. AnyJSON
	// marks a value that the node forwards unchanged.
	Params, Result any
	// Scope is the scope that the caller's credentials must have.
	Scope Scope
	// Transport says on which interfaces a client may use the operation.
	Transport Transport
	// Channel says how the operation uses Request.Ch.
	Channel ChannelUse
	// Order says which other requests of the same link the operation waits for.
	Order Order
	// Target says which node of a cluster performs the operation.
	Target Target
	// Effects is the largest effect of the operation. A read-only viewer of a channel may only send
	// it operations that read.
	Effects Effects
	// Creates is true when the operation accepts an idempotency key: a repeat of a request with its
	// key has no second effect and gets the reply to the first one.
	Creates bool
	// OneSession is true when credentials for a single session, such as a share link, may use it.
	OneSession bool
	// Unaudited is true when the audit log gets no entry for the operation.
	Unaudited bool
	// Outlasts is true when the operation is carried out although its link ended after the request.
	Outlasts bool
	// Limit bounds how long the node works on the operation. 0 means DefaultLimit.
	Limit time.Duration
	// REST lists the routes of the operation over HTTP.
	REST []Route
}

// Bounds of the time that a node works on an operation.
const (
	DefaultLimit  = time.Minute
	SlowLimit     = 5 * time.Minute  // starts, copies or removes a sandbox or many files
	MoveLimit     = 10 * time.Minute // moves sessions between nodes
	TransferLimit = 24 * time.Hour   // sends content for as long as the link lasts
)

// Timeout returns Limit or its default.
func (o Operation) Timeout() time.Duration {
	if o.Limit == 0 {
		return DefaultLimit
	}
	return o.Limit
}

// AnyJSON stands for parameters or a result with any JSON value.
type AnyJSON struct{}

// Scope is a right that credentials carry. No scope includes another.
type Scope string

// The scopes that can be granted.
const (
	ScopeRead  Scope = "sessions:read"  // list and watch the tenant's sessions and their output
	ScopeWrite Scope = "sessions:write" // run, feed and interrupt programs in them; write files
	// create, copy, change and delete sessions, snapshots and templates
	ScopeManage  Scope = "sessions:manage"
	ScopeRun     Scope = "run"     // use POST /v1/run without a session
	ScopeKeys    Scope = "keys"    // create, list and revoke the tenant's keys
	ScopeMetrics Scope = "metrics" // read the server's metrics
	ScopeAdmin   Scope = "admin"   // read the server's state; manage all tenants
)

// ScopeAny stands for valid credentials with any scopes, ScopeOpen for no credentials. ScopeNode
// is for operations between gateways and nodes. None of the three can be granted.
const (
	ScopeAny  Scope = "any"
	ScopeOpen Scope = "open"
	ScopeNode Scope = "node"
)

// Scopes returns the scopes that can be granted.
func Scopes() []Scope {
	return []Scope{
		ScopeRead, ScopeWrite, ScopeManage, ScopeRun, ScopeKeys, ScopeMetrics,
		ScopeAdmin,
	}
}

// Grantable reports whether s is a scope that can be granted.
func (s Scope) Grantable() bool { return slices.Contains(Scopes(), s) }

// Transport says on which interfaces a client may use an operation.
type Transport int

// The transports.
const (
	WebSocket Transport = iota // requests on the WebSocket; also HTTP where REST lists routes
	HTTPOnly                   // only HTTP
	Internal                   // not for clients: only gateways and nodes
)

// ChannelUse says how an operation uses Request.Ch.
type ChannelUse int

// The uses of Request.Ch.
const (
	NoChannel      ChannelUse = iota // ignored
	NamesChannel                     // a number that an earlier request chose
	ChoosesChannel                   // a new number, valid until it is detached
)

// Order says which other requests of the same link an operation waits for.
type Order int

// The orders.
const (
	Concurrent Order = iota // none
	PerChannel              // earlier requests on the same channel
	Inline                  // none, but later frames of the link wait for it: it must be quick
)

// Target says which node of a cluster performs an operation.
type Target int

// The targets. TargetNone is the zero value and not valid, so that each row has to choose a target.
const (
	TargetNone   Target = iota
	AnyNode             // any node gives the same answer
	AllNodes            // every node; the answers are merged
	SessionNode         // the node that owns Params.session, or the attached channel's session
	ResourceNode        // the node that has the snapshot, template or volume that Params names
	// the node that has the session or resource that Params refers to, or else one with capacity
	PlacedNode
	NamedNode  // the node that owns the session with Params.name, or else one with capacity
	ChosenNode // the node whose name is Params.node
	DirectNode // the node that the caller has chosen; never routed
	// the gateway, by means of other operations; no node has a handler. The operation is HTTPOnly
	// and all of its routes are Custom
	AtGateway
)

// Effects is the largest effect of an operation.
type Effects int

// The effects, in ascending order.
const (
	Reads       Effects = iota // changes nothing that another client can see
	Writes                     // changes sessions, files or resources of the tenant, or runs code
	Administers                // changes keys, quotas or the server itself
)

// Body says whether a route takes a JSON body.
type Body int

// The bodies of routes.
const (
	NoBody       Body = iota
	OptionalBody      // an empty body means the zero value
	RequiredBody
)

// Route offers an operation over HTTP. Variables of the path, such as {session},
// are fields of the operation's Params by their JSON names; the other fields come
// from the JSON body or, in a GET request, from the query.
type Route struct {
	Method, Path string
	// Status answers a success. 0 means 200.
	Status int
	Body   Body
	// MaxBody bounds the body in bytes. 0 means MaxRouteBody.
	MaxBody int64
	// Custom marks a route whose handler is written by hand, because it carries
	// content other than the operation's JSON, or because the target is AtGateway.
	Custom bool
	// Events is the zero value of the type of the events that a Custom route sends as they happen
	// if Accept prefers that; nil means that it sends none.
	Events any
	// Form is true when a Custom route also takes multipart/form-data.
	Form bool
}

// MaxRouteBody is the usual bound of a JSON body in bytes.
const MaxRouteBody = 256 << 10

// smallBody bounds bodies with few fields, in bytes.
const smallBody = 4 << 10

// Operations returns the operation table, a new copy with each call.
func Operations() []Operation {
	var all []Operation
	for _, group := range [][]Operation{
		connectionOperations(), documentOperations(), namedOperations(), sessionOperations(),
		stateOperations(), moveOperations(), channelOperations(),
		kernelOperations(), runOperations(), execOperations(),
		fileOperations(), treeOperations(), processOperations(), serviceOperations(),
		snapshotOperations(),
		templateOperations(), volumeOperations(), keyOperations(), linkOperations(),
		portLinkOperations(), eventOperations(), reportOperations(), serverOperations(),
		repeatOperations(), notebookOperations(),
	} {
		all = append(all, group...)
	}
	return all
}
