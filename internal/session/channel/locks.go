package channel

// The ranks of this package's mutexes. The order of all locks is in locks.go of package session.

type (
	setRank     struct{}
	channelRank struct{}
)

func (setRank) Rank() int     { return 45 }
func (channelRank) Rank() int { return 50 }

func (setRank) String() string     { return "channel.Set.mu" }
func (channelRank) String() string { return "channel.Channel.mu" }
