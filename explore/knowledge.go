package explore

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A knowledge numbers the states of a world. The number of a state follows from what each part of the
// world knows, not from the order in which it got to know it:
//
//   - of each object, the contents that it had one after the other, since rules remember them;
//   - of each cache, the events that it has not taken in: what it contains follows from them;
//   - of each queue, its keys;
//   - of each task in flight, the call at which it is suspended, and what it has read since it began;
//   - of each process, what it keeps in memory. If it does not say (see sim.Process.Remembers), all that
//     its tasks have read counts, in order. If there are interceptors, so do its requests;
//   - of the devices, the calls that changed them, in order.
//
// A resourceVersion is numbered by what it means: the content of the object, and whether it has been
// written since. UIDs are numbered by object. So two states with one number differ in names that
// nothing depends on.
type knowledge struct {
	cluster *cluster.Cluster
	host    *sim.Stepped

	objects   map[string]*objectVersions
	logs      map[string][]version // by resource
	revisions map[string]version   // by resourceVersion
	uids      []uidName
	caches    map[string]*cacheKnowledge // by task
	tasks     map[string]*taskKnowledge
	opaque    map[string]uint64 // by process
	devices   uint64
	objectSum uint64

	contents *contents // nil: none are known

	between bool              // interceptors may remember the requests of processes
	asked   map[string]uint64 // by process: its requests, if between

	step    int    // that runs; 0: none. An event in it has the next number
	task    string // that runs
	process string
	enqueue bool // the step is a delivery whose handlers only enqueue
	events  bool // the last step had an event of the world, such as a crash
	renewed bool // there was one in the run, so a process may have begun again

	sums []processSum // of the last number
}

// A version is an object as it was after one of its writes.
type version struct {
	object   string
	ordinal  int // of the write
	content  uint64
	revision int64
}

// objectVersions are the versions of an object.
type objectVersions struct {
	latest version
	chain  uint64 // all contents
	seen   int    // number of times that an object of that name was created
}

type uidName struct{ uid, name string }

// A cacheKnowledge is what an informer has taken in.
type cacheKnowledge struct {
	process  string
	resource string
	position int // in the log of the resource
	objects  map[string]version
	contents uint64 // of the objects
	delay    string // how many events old its first list will be; "": none
}

// A taskKnowledge is what a task in flight has read.
type taskKnowledge struct {
	chain    uint64
	versions []version // that may be older than the stored ones
}

func newKnowledge(c *cluster.Cluster) *knowledge {
	k := &knowledge{
		cluster: c, host: c.Host().(*sim.Stepped),
		objects: map[string]*objectVersions{}, logs: map[string][]version{}, revisions: map[string]version{},
		caches: map[string]*cacheKnowledge{}, tasks: map[string]*taskKnowledge{}, opaque: map[string]uint64{}, asked: map[string]uint64{},
	}
	c.Server().OnCommit(k.commit)
	c.Trace().Watch(k.record)
	k.findCaches()
	return k
}

// findCaches finds the informers of the world.
func (k *knowledge) findCaches() {
	for _, task := range k.host.Tasks() {
		if process, name, _ := strings.Cut(task, "/"); strings.HasPrefix(name, "cache ") && k.caches[task] == nil {
			resource := strings.TrimPrefix(name, "cache ")
			k.caches[task] = &cacheKnowledge{process: process, resource: resource, objects: map[string]version{}}
		}
	}
}

// emptyCaches is a StateWriter that empties the caches that have not listed since their process began.
type emptyCaches struct{ k *knowledge }

// Part empties a cache: a part of that name says that it has not listed.
func (e emptyCaches) Part(process, name string) {
	if cache := e.k.caches[process+"/"+name]; cache != nil {
		cache.clear()
	}
}

// Text does nothing.
func (emptyCaches) Text(string) {}

// Version does nothing.
func (emptyCaches) Version(string, string) {}

// Unknown does nothing.
func (emptyCaches) Unknown() {}

// begin says that a task makes a step.
func (k *knowledge) begin(step int, t *sim.Task) {
	k.noticeEvents()
	k.step, k.task, k.process = step, t.Name(), t.Process()
	_, name, _ := strings.Cut(k.task, "/")
	k.enqueue = strings.HasPrefix(name, "cache ")
	if !t.InFlight() {
		delete(k.tasks, k.task)
	}
	if !k.enqueue {
		k.learn(mix(0, k.named(k.task)))
	}
}

// beginEvent says that an event happens.
func (k *knowledge) beginEvent(step int) { k.step, k.task, k.process, k.enqueue = step, "", "", false }

// noticeEvents finds the caches that events of the last step have begun.
func (k *knowledge) noticeEvents() {
	if k.events {
		k.events = false
		k.findCaches()
		k.host.WriteState(emptyCaches{k})
	}
}

// learn says that the running task has read something.
func (k *knowledge) learn(what uint64, versions ...version) {
	if k.enqueue {
		return
	}
	t := k.tasks[k.task]
	if t == nil {
		t = &taskKnowledge{}
		k.tasks[k.task] = t
	}
	t.chain = finish(t.chain*31 + what)
	t.versions = append(t.versions, versions...)
	k.opaque[k.process] = finish(k.opaque[k.process]*31 + what)
}

// Access says that the running step reads a cache.
func (k *knowledge) Access(a sim.Access) {
	if a.Part == sim.MemoryPart && k.enqueue { // a delivery that uses memory
		k.enqueue = false
		k.learn(mix(0, k.named(k.task)))
	}
	if a.Keeps {
		v := k.revisions[a.Version]
		k.learn(mix(v.content, k.named(a.Part)), v)
		return
	}
	if a.Kind != sim.AccessRead || !strings.HasPrefix(a.Part, "cache ") {
		return
	}
	name, key, one := strings.Cut(a.Part, "/")
	cache := k.caches[a.Process+"/"+name]
	if cache == nil {
		return
	}
	if one {
		key = k.named(key)
		v := cache.objects[key]
		k.learn(mix(v.content, key), v)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(cache.objects)) {
		v := cache.objects[key]
		k.learn(mix(v.content, key), v)
	}
}

// commit notes a write to the API server.
func (k *knowledge) commit(e fake.Commit) {
	if e.Resource == resourceEvents {
		return
	}
	name := k.named(objectOf(e))
	o := k.objects[name]
	if o == nil {
		o = &objectVersions{latest: version{object: name}}
		k.objects[name] = o
	} else {
		k.objectSum -= mix(o.chain, name)
	}
	if e.Type == watch.Added {
		o.seen++
		k.uids = append(k.uids, uidName{string(e.After.GetUID()), name + "~" + strconv.Itoa(o.seen)})
	}
	content := mix(0, "gone")
	if e.Type != watch.Deleted {
		content = k.contents.of(func() uint64 { return k.contentOf(e.After) })
	}
	o.latest = version{name, o.latest.ordinal + 1, content, e.Revision}
	o.chain = finish(o.chain*31 + content)
	k.objectSum += mix(o.chain, name)
	k.logs[e.Resource] = append(k.logs[e.Resource], o.latest)
	k.revisions[strconv.FormatInt(e.Revision, 10)] = o.latest
}

// versionField is a resourceVersion in an object, of its own or of one that it refers to.
var versionField = regexp.MustCompile(`"resourceVersion":"[0-9]*"`)

// contentOf returns the hash of what an object means.
func (k *knowledge) contentOf(obj fake.Object) uint64 {
	text, err := json.Marshal(obj)
	if err != nil {
		return 0
	}
	own := obj.GetResourceVersion()
	words := versionField.ReplaceAllStringFunc(string(text), func(field string) string {
		version := strings.Trim(strings.TrimPrefix(field, `"resourceVersion":`), `"`)
		if version == own {
			return ""
		}
		return strconv.FormatUint(k.revisions[version].content, 10) // of another object
	})
	return mix(0, k.named(words))
}

// named returns a text with the names of objects instead of their UIDs.
func (k *knowledge) named(text string) string {
	if len(text) < uidLen {
		return text
	}
	for _, u := range k.uids {
		text = strings.ReplaceAll(text, u.uid, u.name)
	}
	return text
}

// uidLen is the length of a UID.
const uidLen = 36

// record notes what the running task does.
func (k *knowledge) record(r trace.Record) {
	if k.step == 0 || r.HostStep < k.step {
		return
	}
	r.Object = k.named(r.Object)
	resource, name, _ := strings.Cut(r.Object, "/")
	if k.between && resource != resourceEvents && (r.Kind == trace.KindAPI || r.Kind == trace.KindDriver) {
		v := k.revisions[versionOf(r)]
		k.asked[k.process] = mix(mix(k.asked[k.process]*31+finish(v.content)+uint64(v.ordinal), r.Verb), r.Object)
	}
	switch r.Kind {
	case trace.KindDeliver:
		k.deliver(r, resource, name)
	case trace.KindAPI:
		what := mix(mix(0, r.Verb), r.Object)
		if r.Err != nil {
			k.learn(mix(what, r.Err.Error()))
			return
		}
		if r.Verb != "list" {
			v := k.revisions[versionOf(r)]
			k.learn(what^v.content, v)
			return
		}
		for _, object := range slices.Sorted(maps.Keys(k.objects)) {
			if strings.HasPrefix(object, resource+"/") {
				v := k.objects[object].latest
				k.learn(mix(what^v.content, object), v)
			}
		}
	case trace.KindDriver:
		what := mix(mix(0, r.Verb), r.Object)
		if !r.Read {
			k.devices = finish(k.devices*31 + what)
		}
		if r.Err != nil {
			what = mix(what, r.Err.Error())
		}
		k.learn(what ^ k.devices)
	case trace.KindEvent:
		k.event(r)
	case trace.KindWork, trace.KindTimer, trace.KindWait, trace.KindSleep:
		k.learn(mix(mix(0, r.Verb), r.Object+k.named(r.Detail)))
	}
}

// event notes an event of the world. What it does to processes is part of the state, except how old their
// first lists will be.
func (k *knowledge) event(r trace.Record) {
	k.events, k.renewed = true, true
	switch r.Verb {
	case "stop", "start", "replicate", "retire":
	case crashEvent:
		process, delay, _ := strings.Cut(r.Object, " with ")
		resource, delay, _ := strings.Cut(delay, " ")
		for _, cache := range k.caches {
			switch {
			case cache.process != process:
			case cache.resource == resource:
				cache.delay = delay
			default:
				cache.delay = ""
			}
		}
	default:
		k.devices = finish(k.devices*31 + mix(mix(0, r.Verb), r.Object))
	}
}

// deliver notes that a cache has taken in an event or a list.
func (k *knowledge) deliver(r trace.Record, resource, key string) {
	cache := k.caches[r.Task]
	if cache == nil {
		return
	}
	log := k.logs[resource]
	if r.Verb == "LIST" {
		cache.list(log, revisionOf(r))
		return
	}
	v := k.revisions[versionOf(r)]
	for cache.position < len(log) && log[cache.position] != v {
		cache.position++
	}
	cache.position = min(cache.position+1, len(log))
	cache.set(key, v)
	if !k.enqueue {
		k.learn(mix(v.content, r.Object), v)
	}
}

// list notes that a cache has listed, perhaps an older state.
func (c *cacheKnowledge) list(log []version, revision int64) {
	c.clear()
	c.delay = ""
	for c.position < len(log) && log[c.position].revision <= revision {
		v := log[c.position]
		c.set(v.object[len(c.resource)+1:], v)
		c.position++
	}
}

func (c *cacheKnowledge) clear() {
	c.position, c.contents = 0, 0
	clear(c.objects)
}

func (c *cacheKnowledge) set(key string, v version) {
	if old, known := c.objects[key]; known {
		c.contents -= mix(old.content, key)
	}
	c.objects[key] = v
	c.contents += mix(v.content, key)
}

// number returns the number of the state, and sets those of what each process knows.
func (k *knowledge) number() uint64 {
	k.noticeEvents()
	k.sums = k.sums[:0]
	w := stateSum{knowledge: k}
	k.host.WriteState(&w)
	w.end()
	now := finish(uint64(k.host.Now().UnixNano()))
	if k.between {
		for process, asked := range k.asked {
			k.addSum(process, mix(asked, process))
		}
	}
	for task, cache := range k.caches {
		log := k.logs[cache.resource]
		n := uint64(0)
		for _, v := range log[cache.position:] {
			held := cache.objects[v.object[len(cache.resource)+1:]] // what is behind may be any earlier version
			n = finish(n*31 + mix(v.content, v.object) + held.content)
		}
		p := k.addSum(cache.process, mix(mix(n, task), cache.delay))
		p.caches += mix(cache.contents, task)
	}
	sum := k.objectSum + finish(k.devices) + now
	for i := range k.sums {
		sum += k.sums[i].sum
		k.sums[i].sum += now
	}
	return sum
}

// meaning returns the number of a version: its content, and how many writes there were since.
func (k *knowledge) meaning(v version) uint64 {
	if v.object == "" {
		return 0
	}
	return finish(v.content + uint64(k.objects[v.object].latest.ordinal-v.ordinal))
}

// A stateSum is the sum of the hashes of the parts of a state.
type stateSum struct {
	*knowledge
	process string
	part    uint64
	open    bool
}

func (w *stateSum) end() {
	if w.open {
		w.addSum(w.process, finish(w.part))
	}
}

// Part begins a part. That of a task in flight includes what it has read.
func (w *stateSum) Part(process, name string) {
	w.end()
	w.process, w.part, w.open = process, mix(mix(0, process), w.named(name)), true
	if task, in := strings.CutPrefix(name, "task "); in {
		if task != "" {
			task = "/" + task
		}
		if t := w.tasks[process+task]; t != nil {
			w.part = finish(w.part + t.chain)
			for _, v := range t.versions {
				w.part = finish(w.part*31 + w.meaning(v))
			}
		}
	}
}

// Text adds a word.
func (w *stateSum) Text(word string) {
	w.part = mix(w.part, w.named(word))
}

// Unknown adds all that the process has read, in order.
func (w *stateSum) Unknown() { w.part = finish(w.part + w.opaque[w.process]) }

// Version adds an object.
func (w *stateSum) Version(object, resourceVersion string) {
	w.part = mix(w.part^w.meaning(w.revisions[resourceVersion]), w.named(object))
}

// A processSum numbers what a process knows.
type processSum struct {
	process string
	sum     uint64 // as part of the number of the state
	caches  uint64 // what its caches contain: in a state, that follows from the objects
}

// addSum adds to what a process knows.
func (k *knowledge) addSum(process string, n uint64) *processSum {
	i := indexOfProcess(k.sums, process)
	if i < 0 {
		i = len(k.sums)
		k.sums = append(k.sums, processSum{process: process})
	}
	k.sums[i].sum += n
	return &k.sums[i]
}

func indexOfProcess(sums []processSum, process string) int {
	return slices.IndexFunc(sums, func(s processSum) bool { return s.process == process })
}
