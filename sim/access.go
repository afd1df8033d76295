package sim

import (
	"cmp"
	"context"
)

// AccessKind is what a step does to a part of the state.
type AccessKind uint8

// The kinds of access. Two accesses of one part commute if both are AccessRead, or both AccessAdd.
const (
	AccessRead  AccessKind = iota
	AccessAdd              // adds an element to a set: the order of additions makes no difference
	AccessWrite            // any other change
)

// An Access is the use of a part of the state of a world by a step. Two steps of different tasks
// commute if no part is used by both, or only in ways that commute: then either order leads to the
// same state.
type Access struct {
	Process string // whose memory it is; "": a part of the world outside all processes
	Part    string
	Kind    AccessKind
	// Keeps says that the step keeps the object that it read while it waits for a call. Version is its
	// resourceVersion, "" if there was none.
	Keeps   bool
	Version string
}

// An AccessObserver is a Strategy that is informed of each access of the step that it decided,
// before the next decision. Requests to the API server and driver calls are in the trace instead.
type AccessObserver interface {
	Strategy
	Access(a Access)
}

// The parts of a process's memory with a meaning of their own.
const (
	// MemoryPart is what the process keeps in memory, except caches, queues, and parts with a name of
	// their own. A step of a task is an AccessWrite of it, unless the task is one of WorkerOf.
	MemoryPart = "memory"
)

// HandlersEnqueue says that the event handlers of the process's caches, and the functions of its
// other deliveries, use no memory of the process but queues, and parts that they name by Touch. It
// also says that the tasks of the process use nothing outside its memory, except by Call, Wait and what
// they name by TouchWorld. Without it, a delivery counts as a use of all of the memory, so that no two
// deliveries to the process commute, and each step counts as a use of something outside.
func (p *Process) HandlersEnqueue() { p.handlersEnqueue = true }

// IsObserved reports whether an AccessObserver decides: callers of Touch need not name parts otherwise.
func (p *Process) IsObserved() bool { return p.host.observed() }

// Touch informs an AccessObserver that the running step uses a part of the process's memory. Code
// calls it where HandlersEnqueue or WorkerOf says that the use is not implied.
func (p *Process) Touch(kind AccessKind, part string) {
	if p.host.observed() {
		p.host.access(Access{Process: p.name, Part: part, Kind: kind})
	}
}

// TouchVersion is Touch with AccessRead, for an object that the step keeps while it waits for a call. By then
// the memory may have another version. resourceVersion is that of the object, "" if there is none.
func (p *Process) TouchVersion(part, resourceVersion string) {
	if p.host.observed() {
		p.host.access(Access{Process: p.name, Part: part, Kind: AccessRead, Keeps: true, Version: resourceVersion})
	}
}

// TouchWorld informs an AccessObserver that the running step uses a part of the world outside all
// processes.
func (p *Process) TouchWorld(kind AccessKind, part string) {
	if p.host.observed() {
		p.host.access(Access{Part: part, Kind: kind})
	}
}

// WorkerOf is Worker for a task whose steps use only the named part of the process's memory, and what
// they name by Touch.
func (p *Process) WorkerOf(part, name string, ready func() bool, step func(ctx context.Context)) {
	t := p.newWorker(name, ready, step)
	t.memory = part
	p.add(t)
}

// observeMemory informs the observer of the memory that a step of a task uses.
func (s *Stepped) observeMemory(t *Task) {
	switch {
	case !t.process.handlersEnqueue:
		s.observer.Access(Access{Part: "outside " + t.process.name, Kind: AccessWrite})
	case t.class == classDelivery || t.class == classLagging:
		return
	}
	s.observer.Access(Access{Process: t.process.name, Part: cmp.Or(t.memory, MemoryPart), Kind: AccessWrite})
}

func (s *Stepped) observed() bool { return s.observer != nil }

func (s *Stepped) access(a Access) {
	if s.observer != nil {
		s.observer.Access(a)
	}
}

// observed implements engine: only a stepped world has an order to explore.
func (*Live) observed() bool { return false }

func (*Live) access(Access) {}
