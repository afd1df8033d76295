package trace

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Hearsay keeps what the caches of all components have heard of what was written, as far as it was noted, and so what each
// of them did not know when it decided something. Not for several goroutines at once.
type Hearsay struct {
	writes map[string][]write        // by resource, in the order of their versions
	heard  map[string]map[string]int // component: resource: up to which version
	born   map[string]int            // component: the step at which it was killed last; what it did before is forgotten
	bases  map[string]Basis          // by actor: on what it decides what it does next

	workers map[string]bool // actors that take up one task after the other, of which it is known when they do
}

// NewHearsay returns one of a world in which nobody has heard of anything.
func NewHearsay() *Hearsay {
	return &Hearsay{
		writes: map[string][]write{}, heard: map[string]map[string]int{}, born: map[string]int{}, bases: map[string]Basis{},
		workers: map[string]bool{},
	}
}

// Basis is what an actor knew when it decided what to do: right after what it did before. Of an operation it is not known
// when it was begun: there may have been another of its name.
type Basis struct {
	Record  *Record   // what it did before; nil: that is not known
	Unheard []*Record // the writes by others that its component's caches had not heard of, in their order
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

// Note takes in a record, which stays as it is from then on. matters tells whether it is to be kept in mind if it is a write.
// Records are noted in their order.
func (h *Hearsay) Note(r *Record, matters bool) {
	part := Component(r.Actor)
	if r.Kind == KindWork {
		h.workers[r.Actor] = true
	}
	switch {
	case r.Kind == KindDeliver:
		if h.heard[part] == nil {
			h.heard[part] = map[string]int{}
		}
		h.heard[part][r.Resource()] = r.Version()
	case r.Kind == KindEvent:
		if dead := Dies(r); dead != "" {
			delete(h.heard, dead)
			h.born[dead] = r.Step
			for actor := range h.bases { // in any order: they only leave a map
				if Component(actor) == dead {
					delete(h.bases, actor)
				}
			}
		}
	case r.After != nil && matters:
		h.writes[r.Resource()] = append(h.writes[r.Resource()], write{r, r.Version()})
	}
	if h.heard[part] != nil && r.Kind != KindDeliver {
		h.bases[r.Actor] = Basis{r, h.Unheard(part)}
	}
}

// Dies is the component that dies by what befell the world, and forgets all; "" if none does.
func Dies(r *Record) string {
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

// Basis is on what an actor decided what it does now. It is to be asked before that is noted.
func (h *Hearsay) Basis(actor string) (basis Basis, has bool) {
	basis, has = h.bases[actor]
	if has && !h.workers[actor] { // it may have been begun later, by who had heard of more
		now := h.Unheard(Component(actor))
		basis.Unheard = slices.DeleteFunc(slices.Clone(basis.Unheard), func(w *Record) bool { return !slices.Contains(now, w) })
		basis.Record = nil
	}
	return basis, has
}

// Since are the writes by others to the object of a record since a basis; none if it is not known when that was.
func (h *Hearsay) Since(r *Record, from Basis) []*Record {
	if from.Record == nil {
		return nil
	}
	writes := h.writes[r.Resource()]
	i := len(writes)
	for i > 0 && writes[i-1].record.Step > from.Record.Step {
		i--
	}
	var since []*Record
	for _, w := range writes[i:] {
		if w.record.Object == r.Object && w.record.Actor != r.Actor {
			since = append(since, w.record)
		}
	}
	return since
}

// Unheard are the writes by others, in their order, that a component's caches have yet to hear of.
func (h *Hearsay) Unheard(part string) []*Record {
	var unheard []*Record
	for resource, heard := range h.heard[part] {
		writes := h.writes[resource]
		i := len(writes)
		for i > 0 && writes[i-1].version > heard {
			i--
		}
		for _, w := range writes[i:] {
			if own := Component(w.record.Actor) == part && w.record.Step > h.born[part]; !own && sees(part, w.record) {
				unheard = append(unheard, w.record)
			}
		}
	}
	slices.SortFunc(unheard, func(a, b *Record) int { return a.Step - b.Step })
	return unheard
}

// News are the writes that a delivery brings to a component for the first time. It is to be asked before the delivery is
// noted.
func (h *Hearsay) News(r *Record) []*Record {
	return slices.DeleteFunc(h.Unheard(Component(r.Actor)), func(w *Record) bool {
		return w.Resource() != r.Resource() || w.Version() > r.Version()
	})
}

// sees tells whether a write is in the view of a component: a kubelet sees its own node, and the pods on it.
func sees(part string, r *Record) bool {
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
