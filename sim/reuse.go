package sim

import (
	"cmp"
	"context"

	"github.com/volsim/volsim/internal/reuse"
)

// Reuse returns the memory of the world, for values of which there is no use when it has ended; nil:
// none. See Pool.Memory.
func (s *Stepped) Reuse() *reuse.Memory { return s.reused }

// ReuseMemory says that nothing uses the tasks, queues and timers of the process after its world has
// ended. If the pool of the world keeps memory, the process has its memory. It is called before the
// process is set up.
func (p *Process) ReuseMemory() {
	if s, ok := p.host.(*Stepped); ok {
		p.reused = s.reused
	}
}

// Reuse returns the memory of a process; nil: it has none of its own, or there is no process. See
// ReuseMemory.
func (p *Process) Reuse() *reuse.Memory {
	if p == nil {
		return nil
	}
	return p.reused
}

// takeMemory takes the memory that the pool keeps.
func (s *Stepped) takeMemory() {
	if s.pool.Memory {
		s.reused, s.pool.memory = cmp.Or(s.pool.memory, &reuse.Memory{}), nil
	}
}

// returnMemory returns the memory of a closed host to its pool.
func (s *Stepped) returnMemory() {
	if s.reused == nil {
		return
	}
	for _, p := range s.processes {
		p.reused = nil
	}
	s.reused.Rewind()
	s.pool.memory, s.reused = s.reused, nil
}

// newTask returns an empty task, except that it keeps begin, which is the same for all uses.
func (p *Process) newTask() *Task {
	t, used := reuse.Get[Task](p.reused)
	if used {
		*t = Task{begin: t.begin}
	}
	return t
}

// newTimer returns an empty timer.
func (p *Process) newTimer() *Timer { return reuse.New[Timer](p.reused) }

// A queueMemory is a queue with its timer. Its maps, its slices and the functions that call it stay when
// another world uses it.
type queueMemory[K comparable] struct {
	Queue[K]

	retry   Timer
	name    string // of retry, for queues of the name of this one
	release func()
	waits   func() bool
}

// newQueue returns an empty queue with its timer.
func newQueue[K comparable](p *Process, cfg QueueConfig) *queueMemory[K] {
	m, used := reuse.Get[queueMemory[K]](p.reused)
	if !used {
		m.release, m.waits = m.Queue.release, m.Queue.hasWaiting
	}
	if !used || m.cfg.Name != cfg.Name {
		m.name = cfg.Name + " retry"
	}
	old := &m.Queue
	clear(old.order)
	clear(old.later)
	clear(old.dirty)
	clear(old.working)
	clear(old.failures)
	m.Queue = Queue[K]{
		process: p, cfg: cfg, order: old.order[:0], later: old.later[:0],
		dirty: old.dirty, working: old.working, failures: old.failures,
		timer: &m.retry, hasWork: m.waits,
	}
	m.retry = Timer{fire: m.release}
	return m
}

// A queueWorker is a worker of a queue.
type queueWorker[K comparable] struct {
	queue *Queue[K]
	sync  func(ctx context.Context, key K) error
	step  func(ctx context.Context)
}

// newQueueWorker returns a worker of a queue.
func newQueueWorker[K comparable](q *Queue[K], sync func(ctx context.Context, key K) error) *queueWorker[K] {
	w, used := reuse.Get[queueWorker[K]](q.process.reused)
	if !used {
		w.step = w.work
	}
	w.queue, w.sync = q, sync
	return w
}
