package admission

// The ranks of this package's mutexes in the order of locks, which locks.go of package session lists.

type (
	controllerRank struct{}
	queueRank      struct{}
)

func (controllerRank) Rank() int { return 30 }
func (queueRank) Rank() int      { return 80 }

func (controllerRank) String() string { return "admission.Controller.mu" }
func (queueRank) String() string      { return "admission's queue" }
