package explore

import (
	"strconv"
	"strings"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// recentSchedules is the number of schedules for which Report.NewHistories counts.
const recentSchedules = 100

// histories is the set of histories of a search.
type histories struct {
	seen   map[uint64]struct{}
	recent [recentSchedules]bool // which of the last schedules had a new history
	next   int                   // index in recent
	fresh  int                   // number of them in recent
	dry    int                   // schedules since the last new history
}

func newHistories() *histories { return &histories{seen: map[uint64]struct{}{}} }

// add adds the history of a schedule, and reports whether it is new.
func (h *histories) add(sum uint64) bool {
	_, known := h.seen[sum]
	h.seen[sum] = struct{}{}
	if h.recent[h.next] {
		h.fresh--
	}
	h.recent[h.next] = !known
	h.next = (h.next + 1) % recentSchedules
	h.dry++
	if !known {
		h.fresh++
		h.dry = 0
	}
	return !known
}

func (h *histories) count() int { return len(h.seen) }

// A history is what a run looks like to the rules: the order of all writes to the API server and of all
// driver calls that change something, and the requests of each task with the versions of the objects
// that they found. Two schedules with one history differ only in when caches and queues took in
// events, without an effect. API events do not count: nothing reads them.
type history struct {
	changes   uint64
	tasks     map[string]uint64
	versions  map[objectKey]uint64 // number of writes
	resources map[string]uint64    // number of writes
	written   map[int64]uint64     // by revision: which write of its object it was

	// take is called with each record that counts: what it found, and whether it counts for the order of
	// all changes. nil: not called.
	take func(r trace.Record, found uint64, changes bool)
}

// An objectKey names an object of the API server.
type objectKey struct{ resource, namespace, name string }

func newHistory() *history {
	return &history{
		tasks: map[string]uint64{}, versions: map[objectKey]uint64{}, resources: map[string]uint64{},
		written: map[int64]uint64{},
	}
}

// watch adds what happens in a world from now on.
func (h *history) watch(c *cluster.Cluster) {
	c.Server().OnCommit(h.commit)
	c.Trace().Watch(h.record)
}

// sum returns the hash of the history.
func (h *history) sum() uint64 {
	sum := h.changes
	for task, n := range h.tasks {
		sum ^= mix(n, task)
	}
	return sum
}

func (h *history) commit(e fake.Commit) {
	object := objectKey{e.Resource, e.After.GetNamespace(), e.After.GetName()}
	h.versions[object]++
	h.resources[e.Resource]++
	h.written[e.Revision] = h.versions[object]
}

func (h *history) record(r trace.Record) {
	if r.Kind != trace.KindAPI && r.Kind != trace.KindDriver && r.Kind != trace.KindEvent ||
		strings.HasPrefix(r.Object, resourceEvents+"/") {
		return
	}
	found := h.found(r)
	n := mix(mix(h.tasks[r.Task]^found, r.Verb), r.Object)
	if r.Err != nil {
		n = mix(n, "fails")
	}
	h.tasks[r.Task] = n
	changes := r.After != nil || r.Kind == trace.KindDriver && !r.Read || r.Kind == trace.KindEvent
	if changes {
		h.changes = mix(h.changes^n, r.Task)
	}
	if h.take != nil {
		h.take(r, found, changes)
	}
}

// found returns a number for the version that a request found.
func (h *history) found(r trace.Record) uint64 {
	resource, _, _ := strings.Cut(r.Object, "/")
	switch {
	case r.Kind != trace.KindAPI:
		return 0
	case r.Verb == "list":
		return h.resources[resource]
	}
	return h.written[revisionOf(r)]
}

// versionOf returns the resourceVersion in the record of a request or a delivery; "": it has none.
func versionOf(r trace.Record) string {
	_, version, _ := strings.Cut(r.Detail, "rv=")
	version, _, _ = strings.Cut(version, " ")
	return version
}

// revisionOf returns the resourceVersion in a record as a number; 0: it has none.
func revisionOf(r trace.Record) int64 {
	n, _ := strconv.ParseInt(versionOf(r), 10, 64)
	return n
}
