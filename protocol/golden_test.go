package protocol

import (
	"testing"

	"github.com/sandgate/sandgate/fault"
	"github.com/sandgate/sandgate/internal/golden"
)

// TestGoldenMessages compares every message of sandgate.v1, by the operation or
// event that has it. Results that are {} are left out.
func TestGoldenMessages(t *testing.T) {
	types := map[string]any{
		"request": Request{}, "reply": Reply{},

		"hello params": Hello{}, "hello result": Welcome{},
		"status result": NodeStatus{}, "metrics result": Metrics{}, "audit params": AuditNotes{},
		"session.create params": SessionCreate{}, "session.create result": Session{},
		"session.get params": SessionRef{}, "session.list result": SessionList{},
		"session.update params": SessionUpdate{}, "session.keepalive params": SessionKeepalive{},
		"session.fork params": SessionFork{}, "session.fork result": Forks{},
		"session.snapshot params": SnapshotCreate{}, "session.snapshot result": Snapshot{},
		"snapshot.get params": SnapshotRef{}, "snapshot.list result": SnapshotList{},
		"session.watch params": SessionWatch{}, "node.drain result": Drained{},

		"channel.open params": ChannelOpen{}, "channel.open result": Channel{},
		"channel.close params": ChannelRef{}, "channel.list result": ChannelList{},
		"attach params": Attach{}, "attach result": Attached{}, "follow params": Follow{},
		"execute params": Execute{}, "execute result": Queued{},
		"complete params": Complete{}, "history result": History{}, "input params": InputReply{},
		"interrupt params": Interrupt{}, "signal params": Signal{}, "resize params": Resize{},

		"file.write params": FileWrite{}, "file.write result": File{},
		"file.read params": FileRead{}, "file.read result": FilePart{},
		"file.stat params": FileRef{},
		"file.list params": FileList{}, "file.list result": FileListing{},
		"file.move params": FileMove{}, "file.remove params": FileRemove{},
		"file.watch params": FileWatch{},
		"tree.read params":  TreeRead{}, "tree.write result": Tree{},

		"port.open params": PortRef{}, "port.list result": PortList{},
		"process.list result": ProcessList{}, "process.signal params": ProcessSignal{},

		"key.create params": KeyCreate{}, "key.create result": NewKey{},
		"key.list params": KeyQuery{}, "key.list result": KeyList{},
		"key.rotate params": KeyRotate{}, "key.revoke params": KeyRef{},
		"key.revoke result":  KeyState{},
		"tenant.list result": TenantList{}, "tenant.quota params": TenantQuota{},
		"link.create params": LinkCreate{}, "link.create result": NewLink{},
		"link.list result": LinkList{}, "link.end params": LinkRef{},

		"template.build params": TemplateRef{}, "template.build spec": TemplateSpec{},
		"template.build result": Template{},
		"template.list result":  TemplateList{},
		"volume.create params":  VolumeCreate{}, "volume.create result": Volume{},
		"volume.get params": VolumeRef{}, "volume.list result": VolumeList{},
		"volume.lease params": VolumeLease{}, "volume.lease result": Lease{},
		"volume.release params": VolumeRelease{},

		"exit record": Exit{}, "limit reached": Reached{},
		"lost event": Lost{}, "state event": StateChange{}, "presence event": Presence{},
		"error event": fault.Public{}, "file event": FileChanges{}, "port event": PortChange{},
	}
	golden.Records(t, "messages.json", types, Network{Allow: []string{"example.org"}})
	golden.Covers(t, types, "networkAllow")
}

// TestGoldenOperations compares the names of the operations and events.
func TestGoldenOperations(t *testing.T) {
	golden.Text(t, "operations.txt", Subprotocol+"\n\n"+golden.Constants(t, "Op", "Event"))
}
