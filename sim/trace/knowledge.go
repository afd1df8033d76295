package trace

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// CacheKnowledge keeps what the caches of all components have heard of what was written, as far as it was noted, and so what each
// of them did not know when it decided something. Not for several goroutines at once.
type CacheKnowledge struct {
	writes      map[string][]write         // by resource, in the order of their versions
	seen        map[string]map[string]int  // component: resource: up to which version
	restartedAt map[string]int             // component: the step at which it was killed last; what it did before is forgotten
	contexts    map[string]DecisionContext // by actor: on what it decides what it does next

	workers map[string]bool // actors that take up one task after the other, of which it is known when they do
}

// NewCacheKnowledge returns one of a world in which nobody has heard of anything.
func NewCacheKnowledge() *CacheKnowledge {
	return &CacheKnowledge{
		writes: map[string][]write{}, seen: map[string]map[string]int{}, restartedAt: map[string]int{}, contexts: map[string]DecisionContext{},
		workers: map[string]bool{},
	}
}

// DecisionContext is what an actor knew when it decided what to do: right after what it did before. Of an operation it is not known
// when it was begun: there may have been another of its name.
type DecisionContext struct {
	Previous *Record   // what it did before; nil: that is not known
	Unseen   []*Record // the writes by others that its component's caches had not heard of, in their order
}

type write struct {
	record  *Record
	version int
}

// Version is the resourceVersion in the detail of a record, 0 if there is none.
func (r *Record) Version() int {
	_, rest, found := strings.Cut(r.Detail, "rv=")
	if !found {
		return 0
	}
	digits, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// Resource is that of a record's object: "pods" for "pods/default/web".
func (r *Record) Resource() string {
	resource, _, _ := strings.Cut(r.Object, "/")
	return resource
}

// Observe takes in a record, which stays as it is from then on. matters tells whether it is to be kept in mind if it is a write.
// Records are noted in their order.
func (h *CacheKnowledge) Observe(r *Record, matters bool) {
	part := Process(r.Task)
	if r.Kind == KindWork {
		h.workers[r.Task] = true
	}
	switch {
	case r.Kind == KindDeliver:
		if h.seen[part] == nil {
			h.seen[part] = map[string]int{}
		}
		h.seen[part][r.Resource()] = r.Version()
	case r.Kind == KindEvent:
		if dead := CrashedComponent(r); dead != "" {
			delete(h.seen, dead)
			h.restartedAt[dead] = r.Step
			for actor := range h.contexts { // in any order: they only leave a map
				if Process(actor) == dead {
					delete(h.contexts, actor)
				}
			}
		}
	case r.After != nil && matters:
		h.writes[r.Resource()] = append(h.writes[r.Resource()], write{r, r.Version()})
	}
	if h.seen[part] != nil && r.Kind != KindDeliver {
		h.contexts[r.Task] = DecisionContext{r, h.Unseen(part)}
	}
}

// CrashedComponent is the component that dies by what befell the world, and forgets all; "" if none does.
func CrashedComponent(r *Record) string {
	of, _, _ := strings.Cut(r.Object, " ")
	switch r.Verb {
	case "crash", "stop", "retire":
		return of
	case "reboot", "lose":
		return "kubelet(" + of + ")"
	default:
		return ""
	}
}

// DecisionContext is on what an actor decided what it does now. It is to be asked before that is noted.
func (h *CacheKnowledge) DecisionContext(actor string) (basis DecisionContext, has bool) {
	basis, has = h.contexts[actor]
	if has && !h.workers[actor] { // it may have been begun later, by who had heard of more
		now := h.Unseen(Process(actor))
		basis.Unseen = slices.DeleteFunc(slices.Clone(basis.Unseen), func(w *Record) bool { return !slices.Contains(now, w) })
		basis.Previous = nil
	}
	return basis, has
}

// WritesSince are the writes by others to the object of a record since a basis; none if it is not known when that was.
func (h *CacheKnowledge) WritesSince(r *Record, from DecisionContext) []*Record {
	if from.Previous == nil {
		return nil
	}
	writes := h.writes[r.Resource()]
	i := len(writes)
	for i > 0 && writes[i-1].record.Step > from.Previous.Step {
		i--
	}
	var since []*Record
	for _, w := range writes[i:] {
		if w.record.Object == r.Object && w.record.Task != r.Task {
			since = append(since, w.record)
		}
	}
	return since
}

// Unseen are the writes by others, in their order, that a component's caches have yet to hear of.
func (h *CacheKnowledge) Unseen(part string) []*Record {
	var unheard []*Record
	for resource, heard := range h.seen[part] {
		writes := h.writes[resource]
		i := len(writes)
		for i > 0 && writes[i-1].version > heard {
			i--
		}
		for _, w := range writes[i:] {
			if own := Process(w.record.Task) == part && w.record.Step > h.restartedAt[part]; !own && inScope(part, w.record) {
				unheard = append(unheard, w.record)
			}
		}
	}
	slices.SortFunc(unheard, func(a, b *Record) int { return a.Step - b.Step })
	return unheard
}

// NewlySeen are the writes that a delivery brings to a component for the first time. It is to be asked before the delivery is
// noted.
func (h *CacheKnowledge) NewlySeen(r *Record) []*Record {
	return slices.DeleteFunc(h.Unseen(Process(r.Task)), func(w *Record) bool {
		return w.Resource() != r.Resource() || w.Version() > r.Version()
	})
}

// inScope tells whether a write is in the view of a component: a kubelet sees its own node, and the pods on it.
func inScope(part string, r *Record) bool {
	node, is := strings.CutPrefix(part, "kubelet(")
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
