package explore

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// states are those met so far.
type states struct{ seen map[uint64]struct{} }

func newStates() *states { return &states{map[uint64]struct{}{}} }

func (s *states) add(state uint64) { s.seen[state] = struct{}{} }
func (s *states) count() int       { return len(s.seen) }

// state is a number for where a world is. Components are deterministic, so what one of them is in is settled by what it was
// told, and in which order; what an object is in, by who wrote it, each time in which state. So both have a number that
// grows out of the numbers of what came in, and the world's number is that of all components and objects together, whatever
// the order among those that had nothing to do with one another. Two runs that come to one number have done the same but for
// such an order, and can only go on in the same ways. Versions are not in it: they count the writes of all.
type state struct {
	processes map[string]uint64 // by name
	objects   map[string]uint64 // by resource/namespace/name
	resources map[string]uint64 // all objects of a resource, together
	revisions map[string]uint64 // resourceVersion: the object's number with it
	volumes   map[string]uint64 // what a driver call was about: who called, and when
	running   string            // the component that is moved
	idle      uint64            // the background timers that have fired since something last changed
	at        uint64            // the clock
}

// newState begins with a world that has been set up.
func newState(c *cluster.Cluster) *state {
	s := &state{
		processes: map[string]uint64{}, objects: map[string]uint64{}, resources: map[string]uint64{},
		revisions: map[string]uint64{}, volumes: map[string]uint64{},
	}
	c.Server().OnCommit(s.commit)
	c.Trace().Watch(s.record)
	return s
}

// now is the world's number.
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

// taskRan notes whose turn it is: being moved is something that comes in, also when nothing is recorded of it.
func (s *state) taskRan(actor string) {
	s.running, _, _ = strings.Cut(actor, "/")
	s.processes[s.running] = mix(s.processes[s.running], actor)
}

// commit notes a write. It is called before the record of the request.
func (s *state) commit(e fake.Commit) {
	key := e.Resource + "/" + e.After.GetNamespace() + "/" + e.After.GetName()
	was := s.objects[key]
	is := mix(was^mix(s.processes[s.running], "writes"), key)
	s.objects[key] = is
	s.resources[e.Resource] ^= was ^ is
	s.revisions[strconv.FormatInt(e.Revision, 10)] = is
}

// record notes what came into a component.
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

// inputOf is the number of the object, or of all objects, that a request or a delivery was about.
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

// driverInput notes a driver call: what it finds depends on who called about the same volume before, and, to make and delete
// volumes, about any.
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

// mix makes a number of a number and a word.
func mix(n uint64, word string) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for i := range b {
		b[i] = byte(n >> (8 * i))
	}
	h.Write(b[:])
	h.Write([]byte(word))
	return finish(h.Sum64())
}

// finish spreads the bits, as numbers are combined by exclusive or.
func finish(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
