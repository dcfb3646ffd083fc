package session

import "sync"

// Limits of what waits in a lane: what has been read from the link and not
// been carried out.
const (
	maxTasks     = 256
	maxTaskBytes = 4 << 20
)

// task is a request or an input that waits for its turn.
type task struct {
	size int
	run  func()
}

// lane carries tasks out one after another, in a goroutine that lives only
// while there is something to do.
type serialQueue struct {
	work *sync.WaitGroup

	mu      sync.Mutex // guards all below
	tasks   []task
	bytes   int
	working bool
}

// add has a task carried out after those before it. It is false when too much
// waits.
func (l *serialQueue) add(t task) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.tasks) >= maxTasks || l.bytes+t.size > maxTaskBytes && len(l.tasks) > 0 {
		return false
	}
	l.tasks = append(l.tasks, t)
	l.bytes += t.size
	if !l.working {
		l.working = true
		l.work.Go(l.run)
	}
	return true
}

// run carries tasks out until there is none.
func (l *serialQueue) run() {
	for {
		l.mu.Lock()
		if len(l.tasks) == 0 {
			l.working, l.tasks = false, nil
			l.mu.Unlock()
			return
		}
		t := l.tasks[0]
		l.tasks[0] = task{}
		l.tasks = l.tasks[1:]
		l.mu.Unlock()
		t.run()
		l.mu.Lock()
		l.bytes -= t.size
		l.mu.Unlock()
	}
}
