package nodeapi

import "sync"

// Limits of a serialQueue: requests and input that were read from the link and not carried out yet.
const (
	maxTasks     = 256
	maxTaskBytes = 4 << 20
)

// task is a request or an input that waits for its turn.
type task struct {
	size int
	run  func()
}

// serialQueue runs tasks one after another, in a goroutine that exists only while there are tasks.
type serialQueue struct {
	work *sync.WaitGroup

	mu      sync.Mutex // guards all below
	tasks   []task
	bytes   int
	working bool
}

// add appends a task. It returns false when too many tasks wait.
func (q *serialQueue) add(t task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) >= maxTasks || q.bytes+t.size > maxTaskBytes && len(q.tasks) > 0 {
		return false
	}
	q.tasks = append(q.tasks, t)
	q.bytes += t.size
	if !q.working {
		q.working = true
		q.work.Go(q.run)
	}
	return true
}

// run runs tasks until there is none.
func (q *serialQueue) run() {
	for {
		q.mu.Lock()
		if len(q.tasks) == 0 {
			q.working, q.tasks = false, nil
			q.mu.Unlock()
			return
		}
		t := q.tasks[0]
		q.tasks[0] = task{}
		q.tasks = q.tasks[1:]
		q.mu.Unlock()
		t.run()
		q.mu.Lock()
		q.bytes -= t.size
		q.mu.Unlock()
	}
}
