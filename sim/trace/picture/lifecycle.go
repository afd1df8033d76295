package picture

import (
	"cmp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/internal/causality"
	"github.com/volsim/volsim/sim/trace"
)

// kind is the kind of an object with states.
type kind string

const (
	claimKind      kind = "claim"
	volumeKind     kind = "volume"
	podKind        kind = "pod"
	attachmentKind kind = "attachment"
	mountKind      kind = "mount"
)

// The states, besides the phases of the API.
const (
	absent    = "absent"
	deleting  = "deleting"
	gone      = "deleted"
	attaching = "attaching"
	attached  = "attached"
	detaching = "detaching"
	staged    = "staged"
	published = "published"
	starting  = "starting"
	ending    = "ending"
)

// A thing is an object with states.
type thing struct {
	kind kind
	name string
}

// A change is a state transition of a thing.
type change struct {
	thing    thing
	from, to string
	record   *trace.Record
	before   bool // it belongs to the time before the picture
}

// A lifecycleTracker finds the changes in a run.
type lifecycleTracker struct {
	scene   *scene
	now     map[thing]string
	mounts  map[thing]*mount
	order   []thing // mounts, in order
	changes []change
}

// A mount is what a driver has done with a volume on a node.
type mount struct {
	node             string
	attached, staged bool
	published        map[string]bool // paths
}

func (m *mount) state() string {
	switch {
	case len(m.published) > 0:
		return published
	case m.staged:
		return staged
	case m.attached:
		return attached
	default:
		return absent
	}
}

// changes returns the changes of all things in the picture.
func (s *scene) changes() []change {
	b := &lifecycleTracker{scene: s, now: map[thing]string{}, mounts: map[thing]*mount{}}
	for i := range s.records {
		r := &s.records[i]
		switch r.Kind {
		case trace.KindAPI:
			b.write(i, r)
		case trace.KindDriver:
			b.call(i, r)
		case trace.KindEvent:
			b.event(i, r)
		}
	}
	return b.changes
}

// setState records a state that differs from the previous one.
func (b *lifecycleTracker) setState(i int, t thing, state string) {
	from := cmp.Or(b.now[t], absent)
	if from == gone && state == gone || from == state {
		return
	}
	if from == gone {
		from = absent // a new object of the same name
	}
	b.now[t] = state
	b.changes = append(b.changes, change{t, from, state, &b.scene.records[i], i < b.scene.began})
}

func (b *lifecycleTracker) write(i int, r *trace.Record) {
	if r.After == nil || !b.scene.related.Matches(r) {
		return
	}
	t, state := lifeOf(r.After)
	if object := causality.WrittenObject(r); t.kind == "" && b.scene.related.IsOther(object) {
		t, state = lifeOfOther(object, r.After)
	}
	if t.kind == "" {
		return
	}
	if r.Gone {
		state = gone
	}
	t.name = trace.Abbreviate(t.name)
	b.setState(i, t, state)
}

// lifeOf returns the thing that an object is, and its state.
func lifeOf(obj runtime.Object) (thing, string) {
	ends := false
	if meta, ok := obj.(metav1.Object); ok {
		ends = meta.GetDeletionTimestamp() != nil
	}
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		return thing{claimKind, o.Namespace + "/" + o.Name}, choose(ends, deleting,
			cmp.Or(string(o.Status.Phase), "Pending"))
	case *corev1.PersistentVolume:
		return thing{volumeKind, o.Name}, choose(ends, deleting, cmp.Or(string(o.Status.Phase), "Pending"))
	case *corev1.Pod:
		phase := cmp.Or(string(o.Status.Phase), "Pending")
		if phase == "Pending" && o.Spec.NodeName != "" {
			phase = starting
		}
		return thing{podKind, o.Namespace + "/" + o.Name}, choose(ends, ending, phase)
	case *storagev1.VolumeAttachment:
		name := o.Name
		if volume := o.Spec.Source.PersistentVolumeName; volume != nil {
			name = *volume
		}
		state := choose(o.Status.Attached, attached, attaching)
		return thing{attachmentKind, name + " to " + o.Spec.NodeName}, choose(ends, detaching, state)
	default:
		return thing{}, ""
	}
}

// lifeOfOther is lifeOf for an object of another resource.
func lifeOfOther(object string, obj runtime.Object) (thing, string) {
	resource, name, _ := strings.Cut(object, "/")
	state := trace.State(obj)
	if meta, ok := obj.(metav1.Object); ok && meta.GetDeletionTimestamp() != nil {
		state = deleting
	}
	return thing{kind(trace.ObjectName(resource)), name}, state
}

func choose(is bool, yes, no string) string {
	if is {
		return yes
	}
	return no
}

// call records what a driver did with a volume on a node.
func (b *lifecycleTracker) call(i int, r *trace.Record) {
	_, volume, named := strings.Cut(r.Object, "/")
	if r.Read || r.Err != nil && !r.Lost || !named || !b.scene.related.Matches(r) {
		return
	}
	node, path := detail(r, "node"), detail(r, "path")
	if of, is := strings.CutPrefix(trace.Process(r.Task), "kubelet("); is {
		node = strings.TrimSuffix(of, ")")
	}
	if node == "" {
		return
	}
	t := thing{mountKind, volume + " on " + node}
	m, known := b.mounts[t]
	if !known {
		m = &mount{node: node, published: map[string]bool{}}
	}
	switch r.Verb {
	case "ControllerPublishVolume":
		m.attached = true
	case "ControllerUnpublishVolume":
		m.attached = false
	case "NodeStageVolume":
		m.staged = true
	case "NodeUnstageVolume":
		m.staged = false
	case "NodePublishVolume":
		m.published[path] = true
	case "NodeUnpublishVolume":
		delete(m.published, path)
	default:
		return
	}
	if !known {
		b.mounts[t] = m
		b.order = append(b.order, t)
	}
	b.setState(i, t, m.state())
}

// detail returns a value in a record's detail: "node-1" for key "node" and "node=node-1".
func detail(r *trace.Record, key string) string {
	for _, word := range strings.Fields(r.Detail) {
		if value, is := strings.CutPrefix(word, key+"="); is {
			return value
		}
	}
	return ""
}

// event removes the mounts of a node that reboots.
func (b *lifecycleTracker) event(i int, r *trace.Record) {
	if r.Verb != "reboot" {
		return
	}
	for _, t := range b.order {
		if m := b.mounts[t]; m.node == r.Object {
			m.staged = false
			clear(m.published)
			b.setState(i, t, m.state())
		}
	}
}
