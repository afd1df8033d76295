package causality

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/sim/trace"
)

// CacheKnowledge tracks what the caches of all processes have seen of the observed writes. It
// computes what a process had not seen when it made a decision. It is not safe for concurrent use.
type CacheKnowledge struct {
	writes      map[string][]write         // by resource, in the order of their versions
	seen        map[string]map[string]int  // process: resource: up to which version
	restartedAt map[string]int             // process: the step of its last crash; earlier knowledge is lost
	contexts    map[string]DecisionContext // by task: the context of its next decision

	workers map[string]bool // tasks that take up one key after the other, so that the start of their work is known
	live    bool            // the records are those of a live host
	ownSeen map[string]bool // processes that read their own writes from their caches
}

// NewCacheKnowledge returns the knowledge of a world in which no cache has seen anything.
func NewCacheKnowledge() *CacheKnowledge {
	return &CacheKnowledge{
		writes: map[string][]write{}, seen: map[string]map[string]int{}, restartedAt: map[string]int{}, contexts: map[string]DecisionContext{},
		workers: map[string]bool{}, ownSeen: map[string]bool{},
	}
}

// CountOwn makes Unseen and NewlySeen return a process's own writes, too. It is for processes that
// read what they have written from their caches.
func (h *CacheKnowledge) CountOwn(process string) { h.ownSeen[process] = true }

// A DecisionContext is what a task knew when it decided what to do: right after its previous
// action. The start of an operation is not known, as an earlier operation may have had the same
// name. On a live host, deliveries may come between the previous action and the decision; what they
// showed counts as seen.
type DecisionContext struct {
	Previous *trace.Record   // its previous action; nil: unknown
	Unseen   []*trace.Record // the writes by others that the caches of its process had not seen, in order
}

type write struct {
	record  *trace.Record
	version int
}

// Observe adds a record, which must not change afterwards. Records must come in order. matters says
// whether a write is tracked.
func (h *CacheKnowledge) Observe(r *trace.Record, matters bool) {
	process := trace.Process(r.Task)
	h.live = r.HostStep == 0
	if r.Kind == trace.KindWork {
		h.workers[r.Task] = true
	}
	switch {
	case r.Kind == trace.KindDeliver:
		if h.seen[process] == nil {
			h.seen[process] = map[string]int{}
		}
		h.seen[process][r.Resource()] = r.Version()
	case r.Kind == trace.KindEvent:
		if crashed := CrashedComponent(r); crashed != "" {
			delete(h.seen, crashed)
			h.restartedAt[crashed] = r.Step
			for task := range h.contexts { // any order: they only leave a map
				if trace.Process(task) == crashed {
					delete(h.contexts, task)
				}
			}
		}
	case r.After != nil && matters:
		h.writes[r.Resource()] = append(h.writes[r.Resource()], write{r, r.Version()})
	}
	if h.seen[process] != nil && r.Kind != trace.KindDeliver {
		h.contexts[r.Task] = DecisionContext{r, h.Unseen(process)}
	}
}

// CrashedComponent returns the process that an event ends, and whose memory is lost; "" if none.
func CrashedComponent(r *trace.Record) string {
	of, _, _ := strings.Cut(r.Object, " ")
	switch r.Verb {
	case "crash", "stop", "retire":
		return of
	case "reboot", "partition":
		return "kubelet(" + of + ")"
	default:
		return ""
	}
}

// DecisionContext returns the context in which a task made its current decision, and whether it is
// known. Call it before Observe of the record.
func (h *CacheKnowledge) DecisionContext(task string) (decided DecisionContext, has bool) {
	decided, has = h.contexts[task]
	if !has || h.workers[task] && !h.live {
		return decided, has
	}
	// It may have decided later, when the cache had seen more.
	now := h.Unseen(trace.Process(task))
	decided.Unseen = slices.DeleteFunc(slices.Clone(decided.Unseen), func(w *trace.Record) bool { return !slices.Contains(now, w) })
	if !h.workers[task] {
		decided.Previous = nil
	}
	return decided, has
}

// WritesSince returns the writes by others to the object of a record since a decision. It returns
// none if the time of the decision is unknown.
func (h *CacheKnowledge) WritesSince(r *trace.Record, from DecisionContext) []*trace.Record {
	if from.Previous == nil {
		return nil
	}
	writes := h.writes[r.Resource()]
	i := len(writes)
	for i > 0 && writes[i-1].record.Step > from.Previous.Step {
		i--
	}
	var since []*trace.Record
	for _, w := range writes[i:] {
		if w.record.Object == r.Object && w.record.Task != r.Task {
			since = append(since, w.record)
		}
	}
	if h.live && len(since) > 0 {
		unseen := h.Unseen(trace.Process(r.Task))
		since = slices.DeleteFunc(since, func(w *trace.Record) bool { return !slices.Contains(unseen, w) })
	}
	return since
}

// Unseen returns the writes by others, and those of CountOwn, that the caches of a process have yet to see, in order.
func (h *CacheKnowledge) Unseen(process string) []*trace.Record {
	var unseen []*trace.Record
	for resource, version := range h.seen[process] {
		writes := h.writes[resource]
		i := len(writes)
		for i > 0 && writes[i-1].version > version {
			i--
		}
		for _, w := range writes[i:] {
			if own := trace.Process(w.record.Task) == process && w.record.Step > h.restartedAt[process] && !h.ownSeen[process]; !own && inScope(process, w.record) {
				unseen = append(unseen, w.record)
			}
		}
	}
	slices.SortFunc(unseen, func(a, b *trace.Record) int { return a.Step - b.Step })
	return unseen
}

// NewlySeen returns the writes that a delivery shows to a process for the first time. Call it
// before Observe of the delivery.
func (h *CacheKnowledge) NewlySeen(r *trace.Record) []*trace.Record {
	return slices.DeleteFunc(h.Unseen(trace.Process(r.Task)), func(w *trace.Record) bool {
		return w.Resource() != r.Resource() || w.Version() > r.Version()
	})
}

// inScope reports whether the caches of a process select a write: a kubelet sees its own node and
// the pods on it.
func inScope(process string, r *trace.Record) bool {
	node, is := strings.CutPrefix(process, "kubelet(")
	if !is {
		return true
	}
	node = strings.TrimSuffix(node, ")")
	on := func(obj runtime.Object) bool {
		switch o := obj.(type) {
		case *corev1.Pod:
			return o.Spec.NodeName == node
		case *corev1.Node:
			return o.Name == node
		default:
			return obj != nil
		}
	}
	return on(r.Before) || on(r.After)
}
