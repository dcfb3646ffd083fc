package protocol

import (
	"net/http"

	"github.com/sandgate/sandgate/protocol/message"
	"github.com/sandgate/sandgate/protocol/nodes"
)

func get(path string) []Route { return []Route{{Method: http.MethodGet, Path: path}} }

func del(path string) []Route { return []Route{{Method: http.MethodDelete, Path: path}} }

// post returns a route that reads its body into the operation's parameters.
func post(path string, body Body) []Route {
	return []Route{{Method: http.MethodPost, Path: path, Body: body}}
}

// create is like post, but the route answers 201.
func create(path string, body Body) []Route {
	return []Route{{Method: http.MethodPost, Path: path, Body: body, Status: http.StatusCreated}}
}

// custom returns a route with a handwritten handler.
func custom(method, path string) Route { return Route{Method: method, Path: path, Custom: true} }

func connectionOperations() []Operation {
	return []Operation{
		{
			Name: OpHello, Summary: "Open the connection", Params: Hello{}, Result: Welcome{},
			Scope: ScopeAny, Order: Inline, Target: AnyNode, OneSession: true, Unaudited: true,
		},
		{
			Name:    OpSessionWatch,
			Summary: "Report who is connected to a session, now and with every change",
			Params:  SessionWatch{}, Result: Presence{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
		{
			Name: OpAttach, Summary: "Attach a channel: replay its output and follow it",
			Params: Attach{}, Result: Attached{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Order: Inline, Target: SessionNode, OneSession: true,
		},
		{
			Name: OpDetach, Summary: "Detach a channel number and end its events",
			Scope: ScopeAny, Channel: NamesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
		{
			Name:    OpFollow,
			Summary: "Change from where and how far ahead the output of an attached channel is sent",
			Params:  Follow{}, Scope: ScopeRead, Channel: NamesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
	}
}

// namedOperations are on the session with a name. They come before those of sessionOperations: the
// routes of a session with the id by-name match the same paths.
func namedOperations() []Operation {
	const named = "/v1/sessions/by-name/{name}"
	return []Operation{
		{
			Name: OpSessionEnsure, ID: "ensureSession",
			Summary: "Get the session with a name, or create it; callers at the same time get one session",
			Params:  SessionCreate{}, Result: Ensured{}, Scope: ScopeManage,
			Target: NamedNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{{Method: http.MethodPut, Path: named, Body: OptionalBody}},
		},
		{
			Name: OpSessionFind, ID: "findSession", Summary: "Get one session, by its name",
			Params: SessionName{}, Result: Session{}, Scope: ScopeRead,
			Target: NamedNode, Unaudited: true, REST: get(named),
		},
	}
}

func sessionOperations() []Operation {
	const sessions, one = "/v1/sessions", "/v1/sessions/{session}"
	return []Operation{
		{
			Name: OpSessionCreate, ID: "createSession", Summary: "Create a session",
			Params: SessionCreate{}, Result: Session{}, Scope: ScopeManage,
			Target: PlacedNode, Effects: Writes, Creates: true, Limit: SlowLimit,
			REST: create(sessions, OptionalBody),
		},
		{
			Name: OpSessionGet, ID: "getSession", Summary: "Get one session",
			Params: SessionRef{}, Result: Session{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true, REST: get(one),
		},
		{
			Name: OpSessionList, ID: "listSessions",
			Summary: "List the caller's sessions, newest first: by name, labels or state, in pages",
			Params:  SessionQuery{}, Result: SessionList{}, Scope: ScopeRead,
			Target: AllNodes, OneSession: true, Unaudited: true, REST: get(sessions),
		},
		{
			Name: OpSessionDelete, ID: "deleteSession",
			Summary: "Delete a session and everything in it", Params: SessionRef{},
			Scope: ScopeManage, Target: SessionNode, Effects: Writes, REST: del(one),
		},
		{
			Name: OpSessionUpdate, ID: "updateSession",
			Summary: "Change a session's name, labels, policy or lifetime",
			Params:  SessionUpdate{}, Result: Session{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes,
			REST: []Route{{Method: http.MethodPatch, Path: one, Body: RequiredBody}},
		},
	}
}

// stateOperations change whether a session runs, and copy it.
func stateOperations() []Operation {
	const one = "/v1/sessions/{session}"
	return []Operation{
		// The reply comes when the sandbox is frozen.
		{
			Name: OpSessionPause, ID: "pauseSession",
			Summary: "Freeze a session in memory; the next work in it resumes it",
			Params:  SessionRef{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: post(one+"/pause", NoBody),
		},
		{
			Name: OpSessionKeepalive, ID: "keepSession",
			Summary: "Count a session as busy for some time",
			Params:  SessionKeepalive{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Unaudited: true,
			REST: []Route{{
				Method: http.MethodPost, Path: one + "/keepalive", Body: OptionalBody,
				MaxBody: smallBody,
			}},
		},
		{
			Name: OpHibernate, ID: "hibernateSession",
			Summary: "Write a session to disk; the next work in it, or with suspend only a resume, resumes it",
			Params:  SessionHibernate{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{{
				Method: http.MethodPost, Path: one + "/hibernate", Body: OptionalBody,
				MaxBody: smallBody,
			}},
		},
		// The reply comes when the sandbox runs.
		{
			Name: OpResume, ID: "resumeSession", Summary: "Resume a paused, hibernated or suspended session",
			Params: SessionRef{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: post(one+"/resume", NoBody),
		},
		{
			Name: OpFork, ID: "forkSession",
			Summary: "Copy a live session with all that runs in it, up to 32 times; all copies are made, or none",
			Params:  SessionFork{}, Result: Forks{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes, Creates: true, Limit: SlowLimit,
			REST: create(one+"/fork", OptionalBody),
		},
		{
			Name: OpSnapshot, ID: "takeSnapshot",
			Summary: "Save the present state of a live session, so that new sessions can start from it",
			Params:  SnapshotCreate{}, Result: Snapshot{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes, Creates: true, Limit: SlowLimit,
			REST: create(one+"/snapshots", OptionalBody),
		},
	}
}

func channelOperations() []Operation {
	const channels = "/v1/sessions/{session}/channels"
	return []Operation{
		{
			Name: OpChannelOpen, ID: "openChannel",
			Summary: "Open a kernel or a terminal, or start a process", Params: ChannelOpen{},
			Result: Channel{}, Scope: ScopeWrite, Target: SessionNode, Effects: Writes,
			Creates: true, REST: create(channels, RequiredBody),
		},
		{
			Name: OpChannelList, ID: "listChannels",
			Summary: "List a session's channels, oldest first",
			Params:  ChannelsWanted{}, Result: ChannelList{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true, REST: get(channels),
		},
		{
			Name: OpChannelClose, Summary: "Close a channel and end what runs in it",
			Params: ChannelRef{}, Scope: ScopeWrite, Target: SessionNode, Effects: Writes,
		},
		{
			Name: OpSignal, Summary: "Send a signal to the process of a channel",
			Params: Signal{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Outlasts: true,
		},
		{
			Name: OpResize, Summary: "Change the size of a terminal",
			Params: Resize{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
	}
}

// kernelOperations work on an attached kernel. Questions about code count as writing, because a
// language may run some of the code to answer them.
func kernelOperations() []Operation {
	return []Operation{
		{
			Name: OpExecute, Summary: "Run code in a kernel, exactly once per key",
			Params: Execute{}, Result: Queued{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes,
		},
		{
			Name: OpInput, Summary: "Answer an input request of a cell",
			Params: InputReply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpInterrupt, Summary: "Interrupt the running cell, or send SIGINT to a process",
			Params: Interrupt{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Outlasts: true,
		},
		// The message's content is a message.Comm.
		{
			Name: OpComm, Summary: "Send a message to a widget of a kernel",
			Params: message.Message{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		// The reply comes when the new kernel is ready.
		{
			Name: OpRestart, Summary: "Restart a kernel", Scope: ScopeWrite,
			Channel: NamesChannel, Target: SessionNode, Effects: Writes, Limit: SlowLimit,
		},
		{
			Name: OpComplete, Summary: "Complete code at the cursor",
			Params: Complete{}, Result: message.Reply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpInspect, Summary: "Describe the name at the cursor",
			Params: Complete{}, Result: message.Reply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpIsComplete, Summary: "Check whether code is complete",
			Params: Complete{}, Result: message.Reply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpVariables, Summary: "List a kernel's variables",
			Result: message.Reply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpHistory, Summary: "List the code that a kernel has run",
			Result: History{}, Scope: ScopeRead, Channel: NamesChannel,
			Target: SessionNode, OneSession: true, Unaudited: true,
		},
	}
}

// runOperations are performed by the gateway.
func runOperations() []Operation {
	const run = "/v1/run"
	at := func(path string, events any) []Route {
		return []Route{{
			Method: http.MethodPost, Path: path, Body: RequiredBody, Custom: true, Events: events,
		}}
	}
	return []Operation{
		{
			Name: OpRunOnce, ID: "run", Summary: "Run code and return its output",
			Params: RunRequest{}, Result: RunResult{}, Scope: ScopeRun, Transport: HTTPOnly,
			Target: AtGateway, Effects: Writes, Creates: true, Limit: SlowLimit + MoveLimit,
			REST: []Route{{
				Method: http.MethodPost, Path: run, Body: RequiredBody, Custom: true,
				Events: RunEvent{}, Form: true,
			}},
		},
		{
			Name: OpSessionRun, ID: "runInSession",
			Summary: "Run code in the default kernel of a session and return its output",
			Params:  SessionRun{}, Result: RunResult{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: AtGateway, Effects: Writes, Creates: true, Limit: SlowLimit + MoveLimit,
			REST: at("/v1/sessions/{session}/run", RunEvent{}),
		},
		{
			Name: OpRunInput, ID: "feedRun",
			Summary: "Answer an input_request of an interactive run",
			Params:  RunInput{}, Scope: ScopeRun, Transport: HTTPOnly,
			Target: AtGateway, Effects: Writes, REST: at(run+"/{session}/input", nil),
		},
		{
			Name: OpRunInterrupt, ID: "interruptRun",
			Summary: "Stop a run; its last output and its done event follow",
			Params:  RunInterrupt{}, Scope: ScopeRun, Transport: HTTPOnly,
			Target: AtGateway, Effects: Writes, REST: at(run+"/{session}/interrupt", nil),
		},
	}
}

func processOperations() []Operation {
	const one = "/v1/sessions/{session}"
	return []Operation{
		{
			Name: OpProcessList, ID: "listProcesses",
			Summary: "List everything that runs in the session's sandbox",
			Params:  SessionRef{}, Result: ProcessList{}, Scope: ScopeRead,
			Target: SessionNode, REST: get(one + "/processes"),
		},
		{
			Name: OpProcessSignal, ID: "signalProcess",
			Summary: "Send a signal to one of the user's processes",
			Params:  ProcessSignal{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: post(one+"/processes/{pid}/signal",
				RequiredBody),
		},
		{
			Name: OpPortList, ID: "listPorts",
			Summary: "List the TCP ports that programs in the session listen on",
			Params:  SessionRef{}, Result: PortList{}, Scope: ScopeRead,
			Target: SessionNode, Unaudited: true, REST: get(one + "/ports"),
		},
		// Data frames follow in both directions on its own link. FlagEnd ends one direction.
		{
			Name: OpPortOpen, Summary: "Connect to a TCP port in the session",
			Params: PortRef{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes,
			REST: []Route{custom(http.MethodGet, one+"/ports/{port}")},
		},
	}
}

// portLinkOperations manage preview links. Each has a host name of its own at the gateway.
func portLinkOperations() []Operation {
	const ports = "/v1/sessions/{session}/ports"
	return []Operation{
		{
			Name: OpPortLink, ID: "createPortLink",
			Summary: "Create a preview link, an address at which others reach a port of the session",
			Params:  PortLinkCreate{}, Result: NewPortLink{}, Scope: ScopeWrite,
			Transport: HTTPOnly,
			Target:    SessionNode, Effects: Writes, Creates: true,
			REST: []Route{{
				Method: http.MethodPost, Path: ports + "/{port}/links", Body: OptionalBody,
				MaxBody: smallBody, Status: http.StatusCreated,
			}},
		},
		{
			Name: OpPortLinks, ID: "listPortLinks",
			Summary: "List the session's valid preview links, oldest first",
			Params:  SessionRef{}, Result: PortLinkList{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Unaudited: true, REST: get(ports + "/links"),
		},
		// Any node performs it, so that it works after the session has ended.
		{
			Name: OpPortUnlink, ID: "deletePortLink",
			Summary: "Revoke a preview link and cut the connections through it",
			Params:  LinkRef{}, Result: KeyState{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: AnyNode, Effects: Writes, REST: del(ports + "/links/{link}"),
		},
		{
			Name: OpPortWait, ID: "waitPort",
			Summary: "Wait until a program in the session listens on a TCP port",
			Params:  PortWait{}, Result: Port{}, Scope: ScopeRead, Target: SessionNode,
			Unaudited: true, Limit: SlowLimit + DefaultLimit, REST: get(ports + "/{port}/wait"),
		},
	}
}

func snapshotOperations() []Operation {
	const one = "/v1/snapshots/{snapshot}"
	return []Operation{
		{
			Name: OpSnapshotList, ID: "listSnapshots",
			Summary: "List the caller's snapshots, newest first", Result: SnapshotList{},
			Scope: ScopeRead, Target: AllNodes, Unaudited: true, REST: get("/v1/snapshots"),
		},
		{
			Name: OpSnapshotGet, ID: "getSnapshot", Summary: "Get one snapshot, by its id or name",
			Params: SnapshotRef{}, Result: Snapshot{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpSnapshotDel, ID: "deleteSnapshot",
			Summary: "Delete a snapshot; sessions that started from it continue",
			Params:  SnapshotRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, REST: del(one),
		},
	}
}

func templateOperations() []Operation {
	const one = "/v1/templates/{name}"
	return []Operation{
		// Data frames with a tar follow on this request's own link.
		{
			Name:    OpTemplateBuild,
			Summary: "Create or replace a template from a tar; the reply comes when the tar is stored, before the build ends",
			Params:  TemplateRef{}, Result: Template{}, Scope: ScopeManage, Transport: HTTPOnly,
			Order: Inline, Target: PlacedNode, Effects: Writes, Creates: true,
			REST: []Route{custom(http.MethodPut, one)},
		},
		{
			Name: OpTemplateList, ID: "listTemplates",
			Summary: "List the caller's templates, by name", Result: TemplateList{},
			Scope: ScopeRead, Target: AllNodes, Unaudited: true, REST: get("/v1/templates"),
		},
		{
			Name: OpTemplateGet, ID: "getTemplate",
			Summary: "Get one template, with the output of its build",
			Params:  TemplateRef{}, Result: Template{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpTemplateDelete, ID: "deleteTemplate",
			Summary: "Delete a template; its sessions continue",
			Params:  TemplateRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, Limit: SlowLimit, REST: del(one),
		},
	}
}

func volumeOperations() []Operation {
	const volumes, one = "/v1/volumes", "/v1/volumes/{name}"
	return []Operation{
		{
			Name: OpVolumeCreate, ID: "createVolume",
			Summary: "Create a volume, a folder that outlives sessions",
			Params:  VolumeCreate{}, Result: Volume{}, Scope: ScopeManage,
			Target: PlacedNode, Effects: Writes, Creates: true, REST: create(volumes, RequiredBody),
		},
		{
			Name: OpVolumeList, ID: "listVolumes", Summary: "List the caller's volumes, by name",
			Result: VolumeList{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get(volumes),
		},
		{
			Name: OpVolumeGet, ID: "getVolume", Summary: "Get one volume by its name, measured now",
			Params: VolumeRef{}, Result: Volume{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpVolumeDelete, ID: "deleteVolume",
			Summary: "Delete a volume that no session uses",
			Params:  VolumeRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, Limit: SlowLimit, REST: del(one),
		},
		{
			Name: OpVolumeLease, ID: "leaseVolume",
			Summary: "Take the lease of a volume, or renew it",
			Params:  VolumeLease{}, Result: Lease{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes, REST: post(one+"/lease", OptionalBody),
		},
		{
			Name: OpVolumeRelease, ID: "releaseVolume", Summary: "Release the lease of a volume",
			Params: VolumeRelease{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes, REST: post(one+"/release", RequiredBody),
		},
	}
}

// keyOperations change the table of keys, which all nodes share.
func keyOperations() []Operation {
	const keys, one, tenants = "/v1/keys", "/v1/keys/{id}", "/v1/tenants"
	return []Operation{
		{
			Name: OpKeyCreate, ID: "createKey",
			Summary: "Create a key; only this reply has its secret",
			Params:  KeyCreate{}, Result: NewKey{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers, Creates: true,
			REST: []Route{{
				Method: http.MethodPost, Path: keys, Status: http.StatusCreated,
				Body: RequiredBody, MaxBody: smallBody,
			}},
		},
		{
			Name: OpKeyList, ID: "listKeys", Summary: "List the keys of the caller's tenant",
			Params: KeyQuery{}, Result: KeyList{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Unaudited: true, REST: get(keys),
		},
		{
			Name: OpKeyRotate, ID: "rotateKey",
			Summary: "Give a key a new secret; the old one can stay valid for a while",
			Params:  KeyRotate{}, Result: NewKey{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers, Creates: true,
			REST: []Route{{
				Method: http.MethodPost, Path: one + "/rotate", Body: OptionalBody,
				MaxBody: smallBody,
			}},
		},
		{
			Name: OpKeyRevoke, ID: "revokeKey",
			Summary: "Revoke a key and close the WebSockets that were opened with it",
			Params:  KeyRef{}, Result: KeyState{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers, REST: del(one),
		},
		// The result is a tenant.Table. An EventKeys follows each change.
		{
			Name: OpKeyWatch, Summary: "Send the table of keys, now and with every change",
			Result: AnyJSON{}, Scope: ScopeNode, Transport: Internal,
			Order: Inline, Target: AnyNode, Unaudited: true,
		},
		{
			Name: OpTenantList, ID: "listTenants",
			Summary: "List what the caller's tenant holds and may hold; for an admin, all tenants",
			Result:  TenantList{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AllNodes, Unaudited: true, REST: get(tenants),
		},
		{
			Name: OpTenantQuota, Summary: "Set or remove the quota of a tenant",
			Params: TenantQuota{}, Result: KeyState{}, Scope: ScopeAdmin, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers,
			REST: []Route{
				{
					Method: http.MethodPut, Path: tenants + "/{tenant}", Body: RequiredBody,
					MaxBody: smallBody, Custom: true,
				},
				custom(http.MethodDelete, tenants+"/{tenant}"),
			},
		},
	}
}

// linkOperations manage share links. The gateway creates the secret.
func linkOperations() []Operation {
	const links = "/v1/sessions/{session}/links"
	return []Operation{
		{
			Name:    OpLinkCreate,
			Summary: "Create a share link, with which others can watch the session and do nothing else",
			Params:  LinkCreate{}, Result: NewLink{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Effects: Writes, Creates: true,
			REST: []Route{custom(http.MethodPost, links)},
		},
		{
			Name:    OpLinkList,
			Summary: "List the session's valid share links, oldest first, without their secrets",
			Params:  SessionRef{}, Result: LinkList{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Unaudited: true, REST: []Route{custom(http.MethodGet, links)},
		},
		{
			Name: OpLinkEnd, Summary: "Revoke a share link and close what was opened with it",
			Params: LinkRef{}, Result: KeyState{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Effects: Writes,
			REST: []Route{custom(http.MethodDelete, links+"/{link}")},
		},
	}
}

func serverOperations() []Operation {
	return []Operation{
		{
			Name: OpStatus, Summary: "Report the state of the gateway and the nodes",
			Result: NodeStatus{}, Scope: ScopeAdmin,
			Target: AllNodes, Unaudited: true, REST: []Route{custom(http.MethodGet, "/v1/status")},
		},
		{
			Name: OpNodeList, ID: "listNodes", Summary: "List the nodes of the server, by name",
			Result: nodes.NodeList{}, Scope: ScopeAdmin, Transport: HTTPOnly,
			Target: AllNodes, Unaudited: true, REST: get("/v1/nodes"),
		},
		{
			Name: OpNodeUpdate, ID: "updateNode",
			Summary: "Drain a node in the background, or let it take sessions again",
			Params:  nodes.NodeUpdate{}, Result: nodes.NodeInfo{}, Scope: ScopeAdmin,
			Transport: HTTPOnly, Target: ChosenNode, Effects: Administers,
			REST: []Route{{Method: http.MethodPatch, Path: "/v1/nodes/{node}", Body: RequiredBody}},
		},
		{
			Name: OpMetrics, Summary: "Report the metrics of the gateway and the nodes for Prometheus",
			Result: Metrics{}, Scope: ScopeMetrics,
			Target: AllNodes, Unaudited: true, REST: []Route{custom(http.MethodGet, "/metrics")},
		},
		{
			Name: OpAudit, Summary: "Add entries of a gateway to the node's audit log",
			Params: AuditNotes{}, Scope: ScopeNode, Transport: Internal,
			Target: AnyNode, Effects: Administers, Unaudited: true,
		},
	}
}
