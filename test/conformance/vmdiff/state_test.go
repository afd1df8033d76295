package vmdiff

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/test/conformance/histories"
)

// breakage is a call of the plugin that fails for a while, for all disks, and does nothing. The zero breakage is none.
type breakage struct {
	verb      string
	uncertain bool
}

func (b breakage) String() string {
	if b.uncertain {
		return b.verb + " is not answered"
	}
	return b.verb + " fails"
}

// errBroken is what a call fails with.
var errBroken = errors.New("broken")

// observer notes what the plugin was called for and what was told. It may be used concurrently.
type observer struct {
	mu    sync.Mutex
	broke breakage         // guarded by mu
	calls map[string]calls // guarded by mu: by disk
	told  map[string]bool  // guarded by mu: every event
}

func newObserver() *observer {
	return &observer{calls: map[string]calls{}, told: map[string]bool{}}
}

func (o *observer) breakdown(b breakage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.broke = b
}

// broken is what breaks a call; "" for none.
func (o *observer) broken(verb string) (is, uncertain bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.broke.verb == verb, o.broke.uncertain
}

// called notes a call that has ended.
func (o *observer) called(verb, disk string, pod types.UID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[disk] = append(o.calls[disk], call{verb, pod, err})
}

// failedTo tells whether a call ever failed.
func (o *observer) failedTo(what, disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.calls[disk], func(c call) bool { return c.err != nil && c.what() == what })
}

// knows tells whether the plugin was ever called for a disk.
func (o *observer) knows(disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls[disk]) > 0
}

// Event notes an event; the observer is a record.EventRecorder.
func (o *observer) Event(object runtime.Object, kind, reason, message string) {
	name := "?"
	switch object := object.(type) {
	case *corev1.Pod:
		name = string(object.UID)
	case *corev1.Node:
		name = object.Name
	case *corev1.PersistentVolume:
		name = object.Name
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told[fmt.Sprintf("event about %s: %s %s: %s", name, kind, reason, message)] = true
}

// Eventf notes an event.
func (o *observer) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	o.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf notes an event.
func (o *observer) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	o.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// state is what there is: a line for each pod, for what is in use and attached, each event, and each volume, sorted.
func (w *world) state() histories.State {
	var lines histories.State
	for _, p := range w.all {
		line := fmt.Sprintf("pod %s: mounted %v", p.object.UID, w.kubelet.mounted(p.object))
		if w.kubelet.holds(p.object) {
			line += ", held"
		}
		lines = append(lines, line)
	}
	status := w.nodeObject().Status
	for _, name := range status.VolumesInUse {
		lines = append(lines, "in use: "+string(name))
	}
	for _, v := range status.VolumesAttached {
		lines = append(lines, "attached: "+string(v.Name))
	}
	o := w.seen
	o.mu.Lock()
	defer o.mu.Unlock()
	for text := range o.told {
		lines = append(lines, w.anyones(text))
	}
	for _, d := range w.disks {
		if calls := o.calls[d.name].words(w.users(d.name) > 1); len(calls) > 0 {
			lines = append(lines, fmt.Sprintf("calls %s: %s", d.name, strings.Join(calls, ", ")))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// anyones is an event about a call that failed for a disk that pods share as one about any of them; see calls.
func (w *world) anyones(event string) string {
	disk := diskIn(event)
	if disk == "" || !strings.Contains(event, ": Warning Failed") || strings.HasSuffix(event, refused) {
		return event
	}
	_, what, is := strings.Cut(strings.TrimPrefix(event, "event about "), ": ")
	if !is || w.users(disk) < 2 {
		return event
	}
	return "event about some pod: " + what
}
