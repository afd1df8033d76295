package scenario

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/trace"
)

// hearsay keeps what the caches of all parts have heard of what was written.
type hearsay struct {
	writes []write
	heard  map[string]map[string]int // part: resource: up to which version
	missed map[string][]int          // by part: the steps that it was said not to have heard of
	born   map[string]int            // by part: the step of the trace at which it was killed last; what it did before is forgotten
	bases  map[string]basis          // by actor: on what it decides what it does next
}

// basis is what an actor knew when it decided what to do: right after what it did before.
type basis struct {
	turn      int
	step      int      // of the trace
	resources []string // of which its part's cache had not heard of some writes
	unheard   map[string][]int
}

func newHearsay() hearsay {
	return hearsay{
		heard: map[string]map[string]int{}, missed: map[string][]int{}, born: map[string]int{},
		bases: map[string]basis{},
	}
}

// write is one that matters to the failure.
type write struct {
	record  *trace.Record
	version int
}

// version is the resourceVersion in the detail of a record, 0 if there is none.
func version(r *trace.Record) int {
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

// note takes in a record.
func (h *hearsay) note(r *trace.Record, concerns bool) {
	part := component(r.Actor)
	switch {
	case r.Kind == trace.KindDeliver:
		if h.heard[part] == nil {
			h.heard[part] = map[string]int{}
		}
		resource, _, _ := strings.Cut(r.Object, "/")
		h.heard[part][resource] = version(r)
	case r.Kind == trace.KindEvent:
		dead, _, _ := strings.Cut(r.Object, " ")
		if r.Verb == "reboot" || r.Verb == "lose" {
			dead = "kubelet(" + dead + ")"
		}
		if r.Verb != "relist" {
			delete(h.heard, dead)
			delete(h.missed, dead)
			h.born[dead] = r.Step
		}
	case r.After != nil && concerns:
		h.writes = append(h.writes, write{r, version(r)})
	}
	if h.heard[part] != nil && r.Kind != trace.KindDeliver {
		resources, unheard := h.unheard(part)
		h.bases[r.Actor] = basis{r.Turn, r.Step, resources, unheard}
	}
}

// since are the steps of the writes by others to the object of a record, since the actor decided what to do.
func (h *hearsay) since(r *trace.Record, from basis) []int {
	var steps []int
	for _, w := range h.writes {
		if w.record.Object == r.Object && w.record.Step > from.step && w.record.Actor != r.Actor {
			steps = append(steps, w.record.Turn)
		}
	}
	return steps
}

// unheard are the steps of the writes by others that a part's caches have yet to hear of, by resource.
func (h *hearsay) unheard(part string) (resources []string, steps map[string][]int) {
	steps = map[string][]int{}
	for _, w := range h.writes {
		resource, _, _ := strings.Cut(w.record.Object, "/")
		heard, has := h.heard[part][resource]
		own := component(w.record.Actor) == part && w.record.Step > h.born[part]
		if !has || heard >= w.version || own || !sees(part, w.record) {
			continue
		}
		if steps[resource] == nil {
			resources = append(resources, resource)
		}
		steps[resource] = append(steps[resource], w.record.Turn)
	}
	return resources, steps
}

// news are the steps of the writes that a delivery brings to a part for the first time. It is to be asked before the delivery
// is noted.
func (h *hearsay) news(r *trace.Record) []int {
	part := component(r.Actor)
	resource, _, _ := strings.Cut(r.Object, "/")
	now := version(r)
	_, steps := h.unheard(part)
	var news []int
	for _, w := range h.writes {
		of, _, _ := strings.Cut(w.record.Object, "/")
		if of == resource && w.version <= now && slices.Contains(steps[resource], w.record.Turn) {
			news = append(news, w.record.Turn)
		}
	}
	return news
}

// sees tells whether a write is in the view of a part: a kubelet sees its own node, and the pods on it.
func sees(part string, r *trace.Record) bool {
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
