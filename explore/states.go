package explore

import (
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// states is the set of visited states.
type states struct{ seen map[uint64]struct{} }

func newStates() *states { return &states{map[uint64]struct{}{}} }

func (s *states) add(state uint64) { s.seen[state] = struct{}{} }
func (s *states) count() int       { return len(s.seen) }

// A state is a hash of the state of a world. Processes are deterministic, so the state of a process
// follows from its inputs and their order. The state of an object follows from the processes that
// wrote it, and their states. Each process and object has a hash of the hashes of its inputs, and
// the hash of the world combines all of them, independent of the order of unrelated actions. Two
// runs with equal hashes differ at most in such an order and have the same continuations. Versions
// are not part of the hash, as they count the writes of all processes.
type state struct {
	processes map[string]uint64 // by name
	objects   map[string]uint64 // by resource/namespace/name
	resources map[string]uint64 // all objects of a resource
	revisions map[string]uint64 // resourceVersion: hash of the object at that version
	volumes   map[string]uint64 // by object of driver calls: the callers and their order
	running   string            // the process that runs
	idle      uint64            // the background timers that have fired since the last change
	at        uint64            // the clock
}

// newState returns the state of a world after its set-up.
func newState(c *cluster.Cluster) *state {
	s := &state{
		processes: map[string]uint64{}, objects: map[string]uint64{}, resources: map[string]uint64{},
		revisions: map[string]uint64{}, volumes: map[string]uint64{},
	}
	c.Server().OnCommit(s.commit)
	c.Trace().Watch(s.record)
	return s
}

// now returns the hash of the world.
func (s *state) now() uint64 {
	sum := s.idle ^ mix(s.at, "clock")
	for name, n := range s.processes {
		sum ^= mix(n, name)
	}
	for resource, n := range s.resources {
		sum ^= mix(n, resource)
	}
	for volume, n := range s.volumes {
		sum ^= mix(n, volume)
	}
	return sum
}

// taskRan records which task runs: being scheduled is an input, even if the task records nothing.
func (s *state) taskRan(task string) {
	s.running, _, _ = strings.Cut(task, "/")
	s.processes[s.running] = mix(s.processes[s.running], task)
}

// commit records a write. It is called before the record of the request is.
func (s *state) commit(e fake.Commit) {
	key := e.Resource + "/" + e.After.GetNamespace() + "/" + e.After.GetName()
	was := s.objects[key]
	is := mix(was^mix(s.processes[s.running], "writes"), key)
	s.objects[key] = is
	s.resources[e.Resource] ^= was ^ is
	s.revisions[strconv.FormatInt(e.Revision, 10)] = is
}

// record records an input of a process.
func (s *state) record(r trace.Record) {
	component, _, _ := strings.Cut(r.Task, "/")
	s.at = uint64(r.At)
	in := uint64(0)
	switch r.Kind {
	case trace.KindAPI, trace.KindDeliver:
		in = s.inputOf(r)
	case trace.KindDriver:
		in = s.driverInput(component, r)
	case trace.KindTimer:
		s.idle = mix(s.idle, r.Task)
	}
	if r.After != nil || r.Kind == trace.KindDriver || r.Kind == trace.KindEvent {
		s.idle = 0
	}
	if r.Err != nil {
		in = mix(in, r.Err.Error())
	}
	if r.Kind == trace.KindEvent {
		s.resources["event"] = mix(s.resources["event"], r.Action.String())
		component = "world"
	}
	s.processes[component] = mix(s.processes[component]^in, r.Verb)
}

// inputOf returns the hash of the object, or of all objects, that a request or a delivery concerns.
func (s *state) inputOf(r trace.Record) uint64 {
	resource, _, _ := strings.Cut(r.Object, "/")
	if r.Verb == "list" || r.Verb == "LIST" {
		return s.resources[resource]
	}
	if i := strings.Index(r.Detail, "rv="); i >= 0 {
		version, _, _ := strings.Cut(r.Detail[i+3:], " ")
		return s.revisions[version]
	}
	return 0
}

// driverInput records a driver call. Its result depends on earlier calls for the same volume and,
// if it creates or deletes a volume, on those for any volume.
func (s *state) driverInput(component string, r trace.Record) uint64 {
	keys := []string{r.Object}
	if slices.Contains([]string{"CreateVolume", "DeleteVolume"}, r.Verb) {
		keys = append(keys, "pool")
	}
	in := uint64(0)
	for _, key := range keys {
		in ^= s.volumes[key]
		s.volumes[key] = mix(s.volumes[key]^mix(s.processes[component], r.Verb), key)
	}
	return in
}
