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

// A pluginFault is a plugin call that fails for a while, for all disks, without an effect. The zero
// pluginFault is none.
type pluginFault struct {
	verb      string
	uncertain bool
}

func (f pluginFault) String() string {
	if f.uncertain {
		return f.verb + " is not answered"
	}
	return f.verb + " fails"
}

// errInjected is the error of injected faults.
var errInjected = errors.New("injected fault")

// An observer records plugin calls and events, and injects plugin faults. It may be used
// concurrently.
type observer struct {
	mu     sync.Mutex
	armed  pluginFault      // guarded by mu
	calls  map[string]calls // guarded by mu: by disk
	events map[string]bool  // guarded by mu
}

func newObserver() *observer {
	return &observer{calls: map[string]calls{}, events: map[string]bool{}}
}

func (o *observer) arm(f pluginFault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = f
}

// fails reports whether a call fails, and whether the error is uncertain.
func (o *observer) fails(verb string) (fails, uncertain bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.armed.verb == verb, o.armed.uncertain
}

// record records a completed call.
func (o *observer) record(verb, disk string, pod types.UID, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls[disk] = append(o.calls[disk], call{verb, pod, err})
}

// failedTo reports whether a call ever failed.
func (o *observer) failedTo(what, disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.calls[disk], func(c call) bool { return c.err != nil && c.what() == what })
}

// wasCalled reports whether the plugin was ever called for a disk.
func (o *observer) wasCalled(disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls[disk]) > 0
}

// Event records an event; the observer is a record.EventRecorder.
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
	o.events[fmt.Sprintf("event about %s: %s %s: %s", name, kind, reason, message)] = true
}

// Eventf records an event.
func (o *observer) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	o.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf records an event.
func (o *observer) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	o.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// state returns sorted lines for pods, volumes in use, attached volumes, events, and the calls of
// each volume.
func (w *world) state() histories.State {
	var lines histories.State
	for _, p := range w.all {
		line := fmt.Sprintf("pod %s: mounted %v", p.object.UID, w.kubelet.mounted(p.object))
		if w.kubelet.hasVolumes(p.object) {
			line += ", has volumes"
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
	o := w.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	for text := range o.events {
		lines = append(lines, w.withoutPod(text))
	}
	for _, d := range w.disks {
		if calls := o.calls[d.name].describe(w.users(d.name) > 1); len(calls) > 0 {
			lines = append(lines, fmt.Sprintf("calls %s: %s", d.name, strings.Join(calls, ", ")))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// withoutPod replaces the pod of an event about a failed call for a disk that pods share; see
// calls.
func (w *world) withoutPod(event string) string {
	disk := diskIn(event)
	if disk == "" || !strings.Contains(event, ": Warning Failed") || strings.HasSuffix(event, inUseByOther) {
		return event
	}
	_, message, ok := strings.Cut(strings.TrimPrefix(event, "event about "), ": ")
	if !ok || w.users(disk) < 2 {
		return event
	}
	return "event about a pod: " + message
}
