package protocol

import "net/http"

func get(path string) []Route { return []Route{{Method: http.MethodGet, Path: path}} }

func del(path string) []Route { return []Route{{Method: http.MethodDelete, Path: path}} }

// post is a route whose body is read into the operation's parameters.
func post(path string, body Body) []Route {
	return []Route{{Method: http.MethodPost, Path: path, Body: body}}
}

// create is post for what answers 201.
func create(path string, body Body) []Route {
	return []Route{{Method: http.MethodPost, Path: path, Body: body, Status: http.StatusCreated}}
}

// custom is a route with a handler of its own.
func custom(method, path string) Route { return Route{Method: method, Path: path, Custom: true} }

func connectionOperations() []Operation {
	return []Operation{
		{
			Name: OpHello, Params: Hello{}, Result: Welcome{}, Scope: ScopeAny,
			Order: Inline, Target: AnyNode, OneSession: true, Unaudited: true,
		},
		{
			Name: OpSessionWatch, Params: SessionWatch{}, Result: Presence{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
		{
			Name: OpAttach, Params: Attach{}, Result: Attached{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Order: Inline, Target: SessionNode, OneSession: true,
		},
		{
			Name: OpDetach, Scope: ScopeAny, Channel: NamesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
		{
			Name: OpFollow, Params: Follow{}, Scope: ScopeRead, Channel: NamesChannel,
			Order: Inline, Target: SessionNode, OneSession: true, Unaudited: true,
		},
	}
}

func sessionOperations() []Operation {
	const sessions, one = "/v1/sessions", "/v1/sessions/{session}"
	return []Operation{
		{
			Name: OpSessionCreate, Params: SessionCreate{}, Result: Session{}, Scope: ScopeManage,
			Target: PlacedNode, Effects: Writes, Limit: SlowLimit, REST: create(sessions, OptionalBody),
		},
		{
			Name: OpSessionGet, Params: SessionRef{}, Result: Session{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true, REST: get(one),
		},
		{
			Name: OpSessionList, Result: SessionList{}, Scope: ScopeRead,
			Target: AllNodes, OneSession: true, Unaudited: true, REST: get(sessions),
		},
		{
			Name: OpSessionDelete, Params: SessionRef{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes, REST: del(one),
		},
		{
			Name: OpSessionUpdate, Params: SessionUpdate{}, Result: Session{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes,
			REST: []Route{{Method: http.MethodPatch, Path: one, Body: RequiredBody}},
		},
		// The reply comes when the sandbox is frozen.
		{
			Name: OpSessionPause, Params: SessionRef{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: post(one+"/pause", NoBody),
		},
		{
			Name: OpSessionKeepalive, Params: SessionKeepalive{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Unaudited: true,
			REST: []Route{{Method: http.MethodPost, Path: one + "/keepalive", Body: OptionalBody, MaxBody: smallBody}},
		},
		{
			Name: OpHibernate, Params: SessionRef{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit, REST: post(one+"/hibernate", NoBody),
		},
		// The reply comes when the sandbox runs.
		{
			Name: OpResume, Params: SessionRef{}, Result: Session{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit, REST: post(one+"/resume", NoBody),
		},
		{
			Name: OpFork, Params: SessionFork{}, Result: Forks{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit, REST: create(one+"/fork", OptionalBody),
		},
		{
			Name: OpSnapshot, Params: SnapshotCreate{}, Result: Snapshot{}, Scope: ScopeManage,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit, REST: create(one+"/snapshots", OptionalBody),
		},
	}
}

// moveOperations are between gateways and nodes alone.
func moveOperations() []Operation {
	return []Operation{
		{
			Name: OpAdopt, Params: SessionRef{}, Result: Session{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, Effects: Writes, OneSession: true, Limit: MoveLimit,
		},
		// The result lists the parked sessions, which no node has at present.
		{
			Name: OpParked, Result: SessionList{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, OneSession: true,
		},
		// The reply comes when no session is left on the node that can move.
		{
			Name: OpDrain, Result: Drained{}, Scope: ScopeNode, Transport: Internal,
			Target: DirectNode, Effects: Administers, Limit: MoveLimit,
		},
	}
}

func channelOperations() []Operation {
	const channels = "/v1/sessions/{session}/channels"
	return []Operation{
		{
			Name: OpChannelOpen, Params: ChannelOpen{}, Result: Channel{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: create(channels, RequiredBody),
		},
		{
			Name: OpChannelList, Params: SessionRef{}, Result: ChannelList{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true, REST: get(channels),
		},
		{
			Name: OpChannelClose, Params: ChannelRef{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes,
		},
		{
			Name: OpSignal, Params: Signal{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes,
		},
		{
			Name: OpResize, Params: Resize{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
	}
}

// kernelOperations are on an attached kernel. Questions about code write,
// because a language may run some of the code to answer them.
func kernelOperations() []Operation {
	return []Operation{
		{
			Name: OpExecute, Params: Execute{}, Result: Queued{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes,
		},
		{
			Name: OpInput, Params: InputReply{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpInterrupt, Params: Interrupt{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes,
		},
		// Params is a kernel.Message that carries a kernel.Comm.
		{
			Name: OpComm, Params: AnyJSON{}, Scope: ScopeWrite, Channel: NamesChannel,
			Order: PerChannel, Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		// The reply comes when the new kernel is ready.
		{
			Name: OpRestart, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
		},
		// The results of the next four are fields of kernel.Reply.
		{
			Name: OpComplete, Params: Complete{}, Result: AnyJSON{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpInspect, Params: Complete{}, Result: AnyJSON{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpIsComplete, Params: Complete{}, Result: AnyJSON{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpVariables, Result: AnyJSON{}, Scope: ScopeWrite, Channel: NamesChannel,
			Target: SessionNode, Effects: Writes, Unaudited: true,
		},
		{
			Name: OpHistory, Result: History{}, Scope: ScopeRead, Channel: NamesChannel,
			Target: SessionNode, OneSession: true, Unaudited: true,
		},
	}
}

func fileOperations() []Operation {
	const files = "/v1/sessions/{session}/files/{path}"
	return []Operation{
		// Data frames with the content follow on a link of its own.
		{
			Name: OpFileWrite, Params: FileWrite{}, Result: File{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodPut, files)},
		},
		// The reply is followed by Data frames with the content.
		{
			Name: OpFileRead, Params: FileRead{}, Result: FilePart{}, Scope: ScopeRead, Transport: HTTPOnly,
			Target: SessionNode, OneSession: true, Limit: TransferLimit,
			REST: []Route{custom(http.MethodGet, files)},
		},
		{
			Name: OpFileStat, Params: FileRef{}, Result: File{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true,
			REST: []Route{custom(http.MethodHead, files)},
		},
		{
			Name: OpFileList, Params: FileList{}, Result: FileListing{}, Scope: ScopeRead,
			Target: SessionNode, OneSession: true, Unaudited: true,
			REST: []Route{custom(http.MethodGet, files)},
		},
		{
			Name: OpFileMkdir, Params: FileRef{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileMove, Params: FileMove{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileCopy, Params: FileMove{}, Result: File{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodPost, files)},
		},
		{
			Name: OpFileRemove, Params: FileRemove{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, Limit: SlowLimit,
			REST: []Route{custom(http.MethodDelete, files)},
		},
		// Events follow until the channel number is detached.
		{
			Name: OpFileWatch, Params: FileWatch{}, Result: File{}, Scope: ScopeRead, Channel: ChoosesChannel,
			Target: SessionNode, OneSession: true,
		},
		// The reply is followed by Data frames with an archive.
		{
			Name: OpTreeRead, Params: TreeRead{}, Result: File{}, Scope: ScopeRead, Transport: HTTPOnly,
			Target: SessionNode, OneSession: true, Limit: TransferLimit,
			REST: []Route{custom(http.MethodGet, files)},
		},
		// Data frames with an archive follow on a link of its own.
		{
			Name: OpTreeWrite, Params: FileRef{}, Result: Tree{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodPut, files)},
		},
	}
}

func processOperations() []Operation {
	const one = "/v1/sessions/{session}"
	return []Operation{
		{
			Name: OpProcessList, Params: SessionRef{}, Result: ProcessList{}, Scope: ScopeRead,
			Target: SessionNode, REST: get(one + "/processes"),
		},
		{
			Name: OpProcessSignal, Params: ProcessSignal{}, Scope: ScopeWrite,
			Target: SessionNode, Effects: Writes, REST: post(one+"/processes/{pid}/signal", RequiredBody),
		},
		{
			Name: OpPortList, Params: SessionRef{}, Result: PortList{}, Scope: ScopeRead,
			Target: SessionNode, Unaudited: true, REST: get(one + "/ports"),
		},
		// Data frames follow in both directions on a link of its own. FlagEnd ends one direction.
		{
			Name: OpPortOpen, Params: PortRef{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Order: Inline, Target: SessionNode, Effects: Writes,
			REST: []Route{custom(http.MethodGet, one+"/ports/{port}")},
		},
	}
}

func snapshotOperations() []Operation {
	const one = "/v1/snapshots/{snapshot}"
	return []Operation{
		{
			Name: OpSnapshotList, Result: SnapshotList{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get("/v1/snapshots"),
		},
		{
			Name: OpSnapshotGet, Params: SnapshotRef{}, Result: Snapshot{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpSnapshotDel, Params: SnapshotRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, REST: del(one),
		},
	}
}

func templateOperations() []Operation {
	const one = "/v1/templates/{name}"
	return []Operation{
		// Data frames with a tar follow on a link of its own.
		{
			Name: OpTemplateBuild, Params: TemplateRef{}, Result: Template{}, Scope: ScopeManage, Transport: HTTPOnly,
			Order: Inline, Target: PlacedNode, Effects: Writes, REST: []Route{custom(http.MethodPut, one)},
		},
		{
			Name: OpTemplateList, Result: TemplateList{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get("/v1/templates"),
		},
		{
			Name: OpTemplateGet, Params: TemplateRef{}, Result: Template{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpTemplateDelete, Params: TemplateRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, Limit: SlowLimit, REST: del(one),
		},
	}
}

func volumeOperations() []Operation {
	const volumes, one = "/v1/volumes", "/v1/volumes/{name}"
	return []Operation{
		{
			Name: OpVolumeCreate, Params: VolumeCreate{}, Result: Volume{}, Scope: ScopeManage,
			Target: PlacedNode, Effects: Writes, REST: create(volumes, RequiredBody),
		},
		{
			Name: OpVolumeList, Result: VolumeList{}, Scope: ScopeRead,
			Target: AllNodes, Unaudited: true, REST: get(volumes),
		},
		{
			Name: OpVolumeGet, Params: VolumeRef{}, Result: Volume{}, Scope: ScopeRead,
			Target: ResourceNode, Unaudited: true, REST: get(one),
		},
		{
			Name: OpVolumeDelete, Params: VolumeRef{}, Scope: ScopeManage,
			Target: ResourceNode, Effects: Writes, Limit: SlowLimit, REST: del(one),
		},
		{
			Name: OpVolumeLease, Params: VolumeLease{}, Result: Lease{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes, REST: post(one+"/lease", OptionalBody),
		},
		{
			Name: OpVolumeRelease, Params: VolumeRelease{}, Scope: ScopeWrite,
			Target: ResourceNode, Effects: Writes, REST: post(one+"/release", RequiredBody),
		},
	}
}

// keyOperations change the table of keys, which all nodes share.
func keyOperations() []Operation {
	const keys, one, tenants = "/v1/keys", "/v1/keys/{id}", "/v1/tenants"
	return []Operation{
		{
			Name: OpKeyCreate, Params: KeyCreate{}, Result: NewKey{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers,
			REST: []Route{{Method: http.MethodPost, Path: keys, Status: http.StatusCreated, Body: RequiredBody, MaxBody: smallBody}},
		},
		{
			Name: OpKeyList, Params: KeyQuery{}, Result: KeyList{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Unaudited: true, REST: get(keys),
		},
		{
			Name: OpKeyRotate, Params: KeyRotate{}, Result: NewKey{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers,
			REST: []Route{{Method: http.MethodPost, Path: one + "/rotate", Body: OptionalBody, MaxBody: smallBody}},
		},
		{
			Name: OpKeyRevoke, Params: KeyRef{}, Result: KeyState{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers, REST: del(one),
		},
		// The result is a tenant.Table. An EventKeys follows each change.
		{
			Name: OpKeyWatch, Result: AnyJSON{}, Scope: ScopeNode, Transport: Internal,
			Order: Inline, Target: AnyNode, Unaudited: true,
		},
		{
			Name: OpTenantList, Result: TenantList{}, Scope: ScopeKeys, Transport: HTTPOnly,
			Target: AllNodes, Unaudited: true, REST: get(tenants),
		},
		{
			Name: OpTenantQuota, Params: TenantQuota{}, Result: KeyState{}, Scope: ScopeAdmin, Transport: HTTPOnly,
			Target: AnyNode, Effects: Administers,
			REST: []Route{
				{Method: http.MethodPut, Path: tenants + "/{tenant}", Body: RequiredBody, MaxBody: smallBody, Custom: true},
				custom(http.MethodDelete, tenants+"/{tenant}"),
			},
		},
	}
}

// linkOperations note share links. The secret is the gateway's.
func linkOperations() []Operation {
	const links = "/v1/sessions/{session}/links"
	return []Operation{
		{
			Name: OpLinkCreate, Params: LinkCreate{}, Result: NewLink{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodPost, links)},
		},
		{
			Name: OpLinkList, Params: SessionRef{}, Result: LinkList{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Unaudited: true, REST: []Route{custom(http.MethodGet, links)},
		},
		{
			Name: OpLinkEnd, Params: LinkRef{}, Result: KeyState{}, Scope: ScopeWrite, Transport: HTTPOnly,
			Target: SessionNode, Effects: Writes, REST: []Route{custom(http.MethodDelete, links+"/{link}")},
		},
	}
}

func serverOperations() []Operation {
	return []Operation{
		{
			Name: OpStatus, Result: NodeStatus{}, Scope: ScopeAdmin,
			Target: AllNodes, Unaudited: true, REST: []Route{custom(http.MethodGet, "/v1/status")},
		},
		{
			Name: OpMetrics, Result: Metrics{}, Scope: ScopeMetrics,
			Target: AllNodes, Unaudited: true, REST: []Route{custom(http.MethodGet, "/metrics")},
		},
		{
			Name: OpAudit, Params: AuditNotes{}, Scope: ScopeNode, Transport: Internal,
			Target: AnyNode, Effects: Administers, Unaudited: true,
		},
	}
}
