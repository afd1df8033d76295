package causality

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/sim/trace"
)

// Reads are the reads that explain the writes of some processes: those from a cache that lagged, and
// those of objects that were written again before the process wrote them.
type Reads struct {
	Cached map[int][]CachedRead // by the index of the record of their task after which they came, in order
	Live   map[int]bool         // indexes of records of reads from the server
	Bases  map[int]Base         // by the index of a write, if others have written to its object since it was read
	Caches map[string]bool      // processes that read from caches
}

// A CachedRead is a read from a cache that matters.
type CachedRead struct {
	trace.Read
	Shown  int             // the version of the object that it showed; of a list, that of the cache; 0: unknown
	Missed []*trace.Record // the writes that the cache had not seen, in order
}

// A Base is what a task knew of an object that it wrote: what it had read, or written before.
type Base struct {
	Record *trace.Record   // of the read or the write; of a read from a cache, the task's record before it
	Cached bool            // it was read from a cache
	Missed []*trace.Record // later writes than it knew, which came before the read
	Since  []*trace.Record // and those which came after it
}

// A readEvent is a read of a task, from a cache or from the server.
type readEvent struct {
	at      int // index of the record, or of the task's record before it
	cached  int // index of the read from a cache; -1: none
	object  string
	verb    string
	step    int // of the last record before it
	upTo    int // version
	selects func(runtime.Object) bool
}

// FindReads finds the reads that matter for the writes from index began on, of the processes for
// which own is true. The writes that a read misses are those for which told is true. The log must
// contain all records of the run.
func FindReads(records []trace.Record, reads []trace.Read, began int, own func(process string) bool, told func(*trace.Record) bool) *Reads {
	out := &Reads{
		Cached: map[int][]CachedRead{}, Live: map[int]bool{}, Bases: map[int]Base{}, Caches: map[string]bool{},
	}
	f := &readFinder{
		out: out, records: records, told: told, writes: map[string][]int{}, window: map[string][]readEvent{},
		last: map[string]int{}, found: map[int]bool{},
	}
	next := 0
	for i := range records {
		r := &records[i]
		for ; next < len(reads) && reads[next].Step < r.Step; next++ {
			out.Caches[trace.Process(reads[next].Task)] = true
			f.addCached(reads, next)
		}
		f.observe(i, reads, own(trace.Process(r.Task)), i >= began)
	}
	for at := range out.Cached { // any order: each is sorted by itself
		slices.SortFunc(out.Cached[at], func(a, b CachedRead) int { return a.Step - b.Step })
	}
	return out
}

// A readFinder finds the reads that matter.
type readFinder struct {
	out     *Reads
	records []trace.Record
	told    func(*trace.Record) bool
	writes  map[string][]int       // by resource: the indexes of the writes
	window  map[string][]readEvent // by task: its reads since it took up its key
	last    map[string]int         // by task: the index of its last record
	found   map[int]bool           // reads from caches that are in out
}

func (f *readFinder) addCached(reads []trace.Read, i int) {
	r := &reads[i]
	at, acted := f.last[r.Task]
	if !acted {
		return
	}
	f.remember(r.Task, readEvent{
		at: at, cached: i, object: r.Object, verb: r.Verb, step: r.Step, upTo: r.Version, selects: r.Selects,
	})
}

// windowMax is how many reads of a task are kept. A user has no keys that would limit them.
const windowMax = 256

// remember adds a read of a task.
func (f *readFinder) remember(task string, e readEvent) {
	window := f.window[task]
	if len(window) >= windowMax {
		window = append(window[:0], window[windowMax/2:]...)
	}
	f.window[task] = append(window, e)
}

// observe adds a record. own says whether its process is of interest, told whether the record is one
// that a story tells.
func (f *readFinder) observe(i int, reads []trace.Read, own, told bool) {
	r := &f.records[i]
	f.last[r.Task] = i
	verb, _, _ := strings.Cut(r.Verb, "/")
	switch {
	case r.Kind == trace.KindEvent:
		if crashed := CrashedComponent(r); crashed != "" {
			for task := range f.window { // any order: they only leave a map
				if trace.Process(task) == crashed {
					delete(f.window, task)
				}
			}
		}
	case r.Kind == trace.KindWork:
		delete(f.window, r.Task)
	case r.Kind != trace.KindAPI:
	case verb == "get" || verb == "list":
		if r.Err == nil && own {
			f.remember(r.Task, readEvent{at: i, cached: -1, object: r.Object, verb: verb, step: r.Step, upTo: r.Version()})
		}
	default:
		if own && told && (r.After != nil || apierrors.IsConflict(r.Err) || apierrors.IsAlreadyExists(r.Err) || apierrors.IsNotFound(r.Err)) {
			f.explain(i, reads)
		}
		if r.After != nil {
			f.writes[r.Resource()] = append(f.writes[r.Resource()], i)
			if own {
				f.remember(r.Task, readEvent{at: i, cached: -1, object: WrittenObject(r), verb: "get", step: r.Step, upTo: r.Version()})
			}
		}
	}
}

// explain finds the reads that matter for a write.
func (f *readFinder) explain(i int, reads []trace.Read) {
	r := &f.records[i]
	for _, e := range f.window[r.Task] {
		if e.cached < 0 {
			continue
		}
		if missed := f.writesTo(e, e.step, ""); len(missed) > 0 {
			f.tell(reads, e, missed)
		}
	}
	object := WrittenObject(r)
	for _, e := range slices.Backward(f.window[r.Task]) {
		if e.object != object && (e.verb != "list" || !strings.HasPrefix(object, e.object+"/")) {
			continue
		}
		if verb, _, _ := strings.Cut(r.Verb, "/"); e.cached < 0 && f.records[e.at].After != nil && verb != "update" {
			return // a patch does not depend on what the task wrote before
		}
		base := Base{Record: &f.records[e.at], Cached: e.cached >= 0}
		for _, w := range f.writesTo(e, r.Step, object) {
			switch {
			case w.Step <= e.step:
				base.Missed = append(base.Missed, w)
			case w.Task != r.Task:
				base.Since = append(base.Since, w)
			}
		}
		if len(base.Missed)+len(base.Since) == 0 {
			return
		}
		f.out.Bases[i] = base
		switch {
		case e.cached >= 0:
			f.tell(reads, e, f.writesTo(e, e.step, ""))
		case f.records[e.at].After == nil:
			f.out.Live[e.at] = true
		}
		return
	}
}

// tell adds a read from a cache.
func (f *readFinder) tell(reads []trace.Read, e readEvent, missed []*trace.Record) {
	if !f.found[e.cached] {
		f.found[e.cached] = true
		f.out.Cached[e.at] = append(f.out.Cached[e.at], CachedRead{reads[e.cached], f.shown(e), missed})
	}
}

// shown returns the version that a read shows.
func (f *readFinder) shown(e readEvent) int {
	if e.verb == "list" {
		return e.upTo
	}
	resource, _, _ := strings.Cut(e.object, "/")
	for _, i := range slices.Backward(f.writes[resource]) {
		if w := &f.records[i]; w.Version() <= e.upTo && WrittenObject(w) == e.object {
			return w.Version()
		}
	}
	return 0
}

// writesTo returns the writes up to a step that a read does not show. object limits them to one
// object; "" means all that were read.
func (f *readFinder) writesTo(e readEvent, upTo int, object string) []*trace.Record {
	resource, _, _ := strings.Cut(e.object, "/")
	var all []*trace.Record
	for _, i := range slices.Backward(f.writes[resource]) {
		w := &f.records[i]
		if w.Version() <= e.upTo {
			break
		}
		name := WrittenObject(w)
		read := name == e.object || e.verb == "list" && strings.HasPrefix(name, e.object+"/")
		if read && e.selects != nil {
			read = w.Before != nil && e.selects(w.Before) || e.selects(w.After)
		}
		if w.Step <= upTo && read && (object == "" || name == object) && f.told(w) {
			all = append(all, w)
		}
	}
	slices.Reverse(all)
	return all
}

// WrittenObject returns the object of a write, named as in an action. The server may have completed
// the name that was sent.
func WrittenObject(r *trace.Record) string {
	o, ok := r.After.(metav1.Object)
	if !ok || !strings.HasSuffix(r.Object, "*") {
		return r.Object
	}
	return r.Object[:strings.LastIndex(r.Object, "/")+1] + o.GetName()
}
