// Package serial runs tasks one after another.
package serial

import "sync"

// Limits of a Queue: requests and input that were read from the link and not carried out yet.
const (
	maxTasks     = 256
	maxTaskBytes = 4 << 20
)

// Task is a request or an input that waits for its turn.
type Task struct {
	Size int // in bytes
	Run  func()
}

// Queue runs tasks one after another, in a goroutine that exists only while there are tasks.
type Queue struct {
	work *sync.WaitGroup

	mu      sync.Mutex // guards all below
	tasks   []Task
	bytes   int
	working bool
}

// New returns a queue whose goroutine is counted in work.
func New(work *sync.WaitGroup) *Queue { return &Queue{work: work} }

// Enqueue appends a task. It returns false when too many tasks wait.
func (q *Queue) Enqueue(t Task) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) >= maxTasks || q.bytes+t.Size > maxTaskBytes && len(q.tasks) > 0 {
		return false
	}
	q.tasks = append(q.tasks, t)
	q.bytes += t.Size
	if !q.working {
		q.working = true
		q.work.Go(q.run)
	}
	return true
}

// run runs tasks until there is none.
func (q *Queue) run() {
	for {
		q.mu.Lock()
		if len(q.tasks) == 0 {
			q.working, q.tasks = false, nil
			q.mu.Unlock()
			return
		}
		t := q.tasks[0]
		q.tasks[0] = Task{}
		q.tasks = q.tasks[1:]
		q.mu.Unlock()
		t.Run()
		q.mu.Lock()
		q.bytes -= t.Size
		q.mu.Unlock()
	}
}
