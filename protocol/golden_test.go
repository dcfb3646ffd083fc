package protocol

import (
	"testing"

	"github.com/sandgate/sandgate/protocol/document"
	"github.com/sandgate/sandgate/protocol/fault"
	"github.com/sandgate/sandgate/protocol/golden"
	"github.com/sandgate/sandgate/protocol/nodes"
	"github.com/sandgate/sandgate/protocol/notebook"
)

// TestGoldenMessages compares every message of sandgate.v1, by the operation or
// event that has it. Results that are {} are left out.
func TestGoldenMessages(t *testing.T) {
	types := map[string]any{
		"request": Request{}, "reply": Reply{},

		"hello params": Hello{}, "hello result": Welcome{},
		"node.list result": nodes.NodeList{}, "node.update params": nodes.NodeUpdate{},
		"status result": NodeStatus{}, "metrics result": Metrics{}, "audit params": AuditNotes{},
		"session.create params": SessionCreate{}, "session.create result": Session{},
		"session.get params":  SessionRef{},
		"session.list params": SessionQuery{}, "session.list result": SessionList{},
		"session.ensure result": Ensured{}, "session.find params": SessionName{},
		"session.update params": SessionUpdate{}, "session.keepalive params": SessionKeepalive{},
		"session.hibernate params": SessionHibernate{},
		"session.fork params":      SessionFork{}, "session.fork result": Forks{},
		"session.snapshot params": SnapshotCreate{}, "session.snapshot result": Snapshot{},
		"snapshot.get params": SnapshotRef{}, "snapshot.list result": SnapshotList{},
		"session.watch params": SessionWatch{}, "node.drain result": nodes.Moved{},
		"session.owner result": nodes.SessionOwner{},

		"channel.open params": ChannelOpen{}, "channel.open result": Channel{},
		"channel.close params": ChannelRef{}, "channel.list params": ChannelsWanted{},
		"channel.list result": ChannelList{},
		"attach params":       Attach{}, "attach result": Attached{}, "follow params": Follow{},
		"execute params": Execute{}, "execute result": Queued{},
		"complete params": Complete{}, "history result": History{}, "input params": InputReply{},
		"interrupt params": Interrupt{}, "signal params": Signal{}, "resize params": Resize{},

		"run.once params": RunRequest{}, "run.once result": RunResult{},
		"run.once event": RunEvent{}, "run.input params": RunInput{},
		"run.interrupt params": RunInterrupt{},
		"session.run params":   SessionRun{},
		"session.exec params":  ExecRequest{}, "session.exec result": ExecResult{},
		"session.exec event": ExecEvent{},

		"file.write params": FileWrite{}, "file.write result": File{},
		"file.read params": FileRead{}, "file.read result": FilePart{},
		"file.stat params": FileStat{}, "file.mkdir params": FileRef{},
		"file.list params": FileList{}, "file.list result": FileListing{},
		"file.move params": FileMove{}, "file.remove params": FileRemove{},
		"file.watch params": FileWatch{}, "file.changes params": FileChangesQuery{},
		"document.join params": document.Join{}, "document.join result": document.Joined{},
		"document.update params": document.Update{}, "document.update result": document.Updated{},
		"event document":       document.News{},
		"notebook.list params": notebook.Query{}, "notebook.list result": notebook.List{},
		"notebook.versions params": notebook.Ref{}, "notebook.versions result": notebook.Versions{},
		"notebook.read params": notebook.Read{}, "notebook.read result": notebook.Part{},
		"notebook.name params": notebook.Naming{}, "notebook.name result": notebook.Version{},
		"file.changes result": CreatedFiles{}, "file.link params": FileLinkCreate{},
		"file.link result": FileLink{},
		"tree.read params": TreeRead{}, "tree.write result": Tree{},

		"port.open params": PortRef{}, "port.list result": PortList{},
		"process.list result": ProcessList{}, "process.signal params": ProcessSignal{},

		"service.list result": ServiceList{}, "service.set params": ServiceSet{},
		"service.start params": ServiceStart{}, "service.stop params": ServiceRef{},

		"key.create params": KeyCreate{}, "key.create result": NewKey{},
		"key.list params": KeyQuery{}, "key.list result": KeyList{},
		"key.rotate params": KeyRotate{}, "key.revoke params": KeyRef{},
		"key.revoke result":  KeyState{},
		"tenant.list result": TenantList{}, "tenant.quota params": TenantQuota{},
		"link.create params": LinkCreate{}, "link.create result": NewLink{},
		"link.list result": LinkList{}, "link.end params": LinkRef{},
		"port.link params": PortLinkCreate{}, "port.link result": NewPortLink{},
		"port.links result": PortLinkList{}, "port.wait params": PortWait{},

		"template.build params": TemplateRef{}, "template.build spec": TemplateSpec{},
		"template.build result": Template{},
		"template.list result":  TemplateList{},
		"volume.create params":  VolumeCreate{}, "volume.create result": Volume{},
		"volume.get params": VolumeRef{}, "volume.list result": VolumeList{},
		"volume.lease params": VolumeLease{}, "volume.lease result": Lease{},
		"volume.release params": VolumeRelease{},

		"event.list params": EventQuery{}, "event.list result": EventPage{},
		"webhook.create params": WebhookCreate{}, "webhook.create result": NewWebhook{},
		"webhook.list result": WebhookList{}, "webhook.get params": WebhookRef{},
		"webhook.update params": WebhookUpdate{}, "webhook.rotate params": WebhookRotate{},
		"webhook.deliveries params": DeliveryQuery{},
		"webhook.deliveries result": DeliveryList{},
		"webhook.resend params":     WebhookResend{}, "webhook.resend result": Resent{},
		"webhook.take params": WebhookTake{}, "webhook.take result": WebhookJobs{},
		"webhook.done params":   WebhookOutcomes{},
		"session.series params": SeriesQuery{}, "session.series result": Series{},
		"usage.report params": UsageQuery{}, "usage.report result": UsageReport{},
		"audit.list params": AuditQuery{}, "audit.list result": AuditPage{},
		"usage.stored params": StoredRecords{},

		"repeat.begin params": RepeatBegin{}, "repeat.begin result": RepeatBegun{},
		"repeat.end params": RepeatEnd{},

		"exit record": Exit{}, "limit reached": Reached{},
		"detached event": Detached{}, "lost event": Lost{}, "state event": StateChange{},
		"presence event": Presence{},
		"error event":    fault.Public{}, "file event": FileChanges{}, "port event": PortChange{},
	}
	golden.Records(t, "messages.json", types, Network{Allow: []string{"example.org"}})
	golden.Covers(t, types, "networkAllow")
}

// TestGoldenOperations compares the names of the operations and events.
func TestGoldenOperations(t *testing.T) {
	golden.Text(t, "operations.txt", Subprotocol+"\n\n"+golden.Constants(t, "Op", "Event"))
}
