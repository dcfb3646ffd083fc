package gateway

import "github.com/sandgate/sandgate/protocol"

// opScope returns the scope that an operation takes over a WebSocket, and
// false for what is not offered there. Questions about code take the right to
// write, because a language may run some of it to answer them.
func opScope(op string) (Scope, bool) {
	switch op {
	case protocol.OpHello, protocol.OpDetach:
		return Anyone, true
	case protocol.OpSessionGet, protocol.OpSessionList, protocol.OpSessionWatch, protocol.OpChannelList, protocol.OpAttach,
		protocol.OpHistory, protocol.OpFollow, protocol.OpFileStat, protocol.OpFileList, protocol.OpPortList, protocol.OpProcessList,
		protocol.OpTemplateList, protocol.OpTemplateGet, protocol.OpSnapshotList, protocol.OpSnapshotGet,
		protocol.OpFileWatch, protocol.OpVolumeList, protocol.OpVolumeGet:
		return ScopeRead, true
	case protocol.OpSessionCreate, protocol.OpSessionDelete, protocol.OpSessionUpdate, protocol.OpTemplateDelete,
		protocol.OpFork, protocol.OpSnapshot, protocol.OpSnapshotDel,
		protocol.OpVolumeCreate, protocol.OpVolumeDelete:
		return ScopeManage, true
	case protocol.OpSessionPause, protocol.OpSessionKeepalive, protocol.OpHibernate, protocol.OpResume,
		protocol.OpChannelOpen, protocol.OpChannelClose,
		protocol.OpExecute, protocol.OpComplete, protocol.OpInspect, protocol.OpIsComplete,
		protocol.OpVariables, protocol.OpComm, protocol.OpInput, protocol.OpResize,
		protocol.OpInterrupt, protocol.OpRestart, protocol.OpSignal,
		protocol.OpProcessSignal, protocol.OpFileMkdir, protocol.OpFileMove, protocol.OpFileCopy, protocol.OpFileRemove,
		protocol.OpVolumeLease, protocol.OpVolumeRelease:
		return ScopeWrite, true
	case protocol.OpMetrics:
		return ScopeMetrics, true
	case protocol.OpStatus:
		return ScopeAdmin, true
	}
	return "", false
}
