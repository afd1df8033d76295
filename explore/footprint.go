package explore

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Parts of the world that are used as a whole.
const (
	partWorld = "world" // the objects of the API server, except events, and the devices
	partAll   = "all"   // every part: each step reads it, an injected event changes it
)

// A use is what a step does to one part of the state of the world.
type use struct {
	part uint32 // see parts
	kind sim.AccessKind
}

// A footprint is all that a step does to the state of the world: at most one use of each part, sorted
// by part.
type footprint []use

// dependent reports whether two steps of different tasks may lead to another state, or to another
// violation, in the other order.
func (f footprint) dependent(other footprint) bool {
	for i, j := 0, 0; i < len(f) && j < len(other); {
		switch {
		case f[i].part < other[j].part:
			i++
		case f[i].part > other[j].part:
			j++
		case f[i].kind != other[j].kind || f[i].kind == sim.AccessWrite:
			return true
		default:
			i, j = i+1, j+1
		}
	}
	return false
}

// add adds a use.
func (f footprint) add(u use) footprint {
	i, found := slices.BinarySearchFunc(f, u, func(a, b use) int { return cmp.Compare(a.part, b.part) })
	if !found {
		return slices.Insert(f, i, u)
	}
	if f[i].kind != u.kind {
		f[i].kind = sim.AccessWrite
	}
	return f
}

// parts numbers the parts of a world, the same in all runs of a search.
type parts struct{ numbers map[part]uint32 }

// A part is named by the process whose memory it is, "" for none, and a name.
type part struct{ process, name string }

func newParts() *parts { return &parts{numbers: map[part]uint32{}} }

func (p *parts) number(of part) uint32 {
	n, known := p.numbers[of]
	if !known {
		n = uint32(len(p.numbers))
		p.numbers[of] = n
	}
	return n
}

// An observer collects the footprints of the steps of a run. The uses of the memory of processes
// come from the host; what concerns the API server and the devices it takes from the trace.
type observer struct {
	parts   *parts
	current footprint // of the step that runs
	step    int       // its number; 0: none
	outside bool      // it uses more than what its process keeps in memory
	known   bool      // its footprint is known

	writes   []fake.Commit     // of the request that runs
	versions map[string]int    // by object: its writes in this run
	written  map[string]string // by resourceVersion: the object, and which of its writes it was
}

func newObserver(p *parts) *observer {
	return &observer{parts: p, versions: map[string]int{}, written: map[string]string{}}
}

// watch makes the observer see the trace of a world.
func (o *observer) watch(c *cluster.Cluster) {
	c.Server().OnCommit(o.commit)
	c.Trace().Watch(o.record)
}

// begin begins a step. It returns the footprint of the one before, and whether that was local.
func (o *observer) begin(step int) (uses footprint, local bool) {
	o.addWrites()
	local = !o.outside
	return o.end(step), local
}

// end returns the footprint of the last step, and the one of the next begins.
func (o *observer) end(next int) footprint {
	f := o.current
	o.current, o.step, o.writes, o.outside = nil, next, o.writes[:0], false
	o.current = o.current.add(use{o.parts.number(part{"", partAll}), sim.AccessRead})
	return f
}

// use adds a use of a part that other processes may use or change.
func (o *observer) use(process, name string, kind sim.AccessKind) {
	o.outside = o.outside || process == ""
	o.add(part{process, name}, kind)
}

func (o *observer) add(of part, kind sim.AccessKind) {
	if o.known {
		return
	}
	o.current = o.current.add(use{o.parts.number(of), kind})
}

// Access adds a use of the memory of a process.
func (o *observer) Access(a sim.Access) { o.use(a.Process, a.Part, a.Kind) }

// commit keeps a write to the API server until the record of its request says that it is part of a step.
func (o *observer) commit(e fake.Commit) { o.writes = append(o.writes, e) }

// addWrites adds the writes to the API server.
func (o *observer) addWrites() {
	for _, e := range o.writes {
		object := objectOf(e)
		o.versions[object]++
		version := object + "#" + strconv.Itoa(o.versions[object])
		o.written[strconv.FormatInt(e.Revision, 10)] = version
		o.use("", object, sim.AccessWrite)
		o.use("", e.Resource, sim.AccessAdd)
		o.use("", version, sim.AccessWrite)
		if e.Resource != resourceEvents {
			o.use("", partWorld, sim.AccessWrite)
		}
	}
	o.writes = o.writes[:0]
}

// objectOf returns the name of a written object, as in the trace.
func objectOf(e fake.Commit) string {
	if namespace := e.After.GetNamespace(); namespace != "" {
		return e.Resource + "/" + namespace + "/" + e.After.GetName()
	}
	return e.Resource + "/" + e.After.GetName()
}

// resourceEvents are objects that no rule combines with others, and no component reads.
const resourceEvents = "events"

// record adds a request, a driver call, a delivery, or an event of the world.
func (o *observer) record(r trace.Record) {
	if o.step == 0 || r.HostStep < o.step { // an event in a step has the next number
		o.writes = o.writes[:0]
		return // not of a step that was decided
	}
	o.addWrites()
	process, task, _ := strings.Cut(r.Task, "/")
	resource, name, _ := strings.Cut(r.Object, "/")
	switch r.Kind {
	case trace.KindAPI:
		o.request(r.Verb, resource, r.Object)
	case trace.KindDeliver:
		o.use(process, task, sim.AccessWrite)
		if r.Verb == "LIST" {
			o.use("", resource, sim.AccessRead)
			return
		}
		o.use(process, task+"/"+name, sim.AccessWrite)
		o.add(part{"", cmp.Or(o.written[versionOf(r)], versionOf(r))}, sim.AccessRead) // which never changes
	case trace.KindDriver:
		kind := sim.AccessWrite
		if r.Read {
			kind = sim.AccessRead
		}
		o.use("", partWorld, kind)
	case trace.KindWait:
		o.use("", partWorld, sim.AccessRead)
		o.use("", resourceEvents, sim.AccessRead)
	case trace.KindEvent:
		o.use("", partAll, sim.AccessWrite)
	}
}

// request adds what a request reads.
func (o *observer) request(verb, resource, object string) {
	switch verb {
	case "list", "watch", "deletecollection":
		o.use("", resource, sim.AccessRead)
	default:
		o.use("", object, sim.AccessRead)
	}
	if verb != "get" && verb != "list" && resource != resourceEvents {
		o.use("", partWorld, sim.AccessRead) // what its admission reads
	}
}
