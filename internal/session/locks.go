package session

// The order of the locks of this package. A goroutine that holds one takes only
// those below it.
//
// Locks that are held over long calls (package ctxlock). Each is waited for with
// a context, or only tried:
//
//	Manager.adopting, hibernating, autosaving, uploading, uploadingJournal
//	Session.opening
//	Session.lifecycle      pauses, hibernations, resumes and copies of a session
//	Terminal.resizing
//
// Mutexes, which are held over no call to the agent, the host, a queue, a link
// or a disk, but for the three that say so:
//
//	Session.durability.remote.writing held over writes to the blob store
//	Manager.mu             the lists of sessions
//	SnapshotStore.mu       the list of users' snapshots
//	admission.Controller.mu places that are reserved
//	Session.mu             state, viewers, channels; several only under Manager.mu
//	Channel.mu
//	Session.durability.mu      a durable session's journal; held over writes to its file
//	writer.mu              held over input on its way to the agent
//	totals.mu, presence.mu and other leaves
//	ownership.Departures.mu, a leaf that is taken with Manager.mu held
//
// Built with the tag lockorder, the mutexes with a rank below check the order:
// go test -tags lockorder ./internal/session.

type (
	managerRank   struct{}
	snapshotsRank struct{}
	sessionRank   struct{}
	channelRank   struct{}
	durableRank   struct{}
	totalsRank    struct{}
)

func (managerRank) Rank() int   { return 1 }
func (snapshotsRank) Rank() int { return 2 }
func (sessionRank) Rank() int   { return 3 }
func (channelRank) Rank() int   { return 4 }
func (durableRank) Rank() int   { return 5 }
func (totalsRank) Rank() int    { return 6 }

func (managerRank) String() string   { return "Manager.mu" }
func (snapshotsRank) String() string { return "SnapshotStore.mu" }
func (sessionRank) String() string   { return "Session.mu" }
func (channelRank) String() string   { return "Channel.mu" }
func (durableRank) String() string   { return "Session.durability.mu" }
func (totalsRank) String() string    { return "totals.mu" }
