package pvdiff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// An observer describes the state of a server in words that do not depend on the world. It may be
// used concurrently.
type observer struct {
	server  *fake.Server
	storage *storage
	events  histories.Events
	changes atomic.Int64 // of claims, volumes and the set of events
}

func observe(server *fake.Server, storage *storage) *observer {
	o := &observer{server: server, storage: storage}
	server.OnCommit(o.record)
	return o
}

func (o *observer) record(c fake.Commit) {
	switch c.Resource {
	case "persistentvolumes", "persistentvolumeclaims":
		o.changes.Add(1)
		if c.Type == watch.Added {
			o.events.Name(c.After.GetUID(), "<%s#%d>",
				strings.TrimPrefix(c.Resource, "persistent")+"/"+c.After.GetNamespace()+"/"+c.After.GetName())
		}
	case "events":
		e := c.After.(*corev1.Event)
		if o.events.Add(e, eventText(e)) {
			o.changes.Add(1)
		}
	}
}

// revision returns the number of changes.
func (o *observer) revision() int64 { return o.changes.Load() }

// state returns sorted lines for claims, volumes, the storage and events.
func (o *observer) state() histories.State {
	lines := o.storage.state()
	for _, obj := range o.server.List("persistentvolumeclaims") {
		lines = append(lines, lineOf("claim", obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)))
	}
	for _, obj := range o.server.List("persistentvolumes") {
		v := obj.DeepCopyObject().(*corev1.PersistentVolume)
		if v.Spec.ClaimRef != nil {
			v.Spec.ClaimRef.ResourceVersion = ""
		}
		if v.Status.LastPhaseTransitionTime != nil {
			v.Status.LastPhaseTransitionTime = &metav1.Time{}
		}
		lines = append(lines, lineOf("volume", v))
	}
	return o.events.State(lines)
}

func lineOf(kind string, obj fake.Object) string {
	obj.SetResourceVersion("")
	obj.SetManagedFields(nil)
	obj.SetCreationTimestamp(metav1.Time{})
	if obj.GetDeletionTimestamp() != nil {
		obj.SetDeletionTimestamp(&metav1.Time{})
		obj.SetFinalizers(append(obj.GetFinalizers(), "(being deleted)"))
	}
	text, err := json.Marshal(obj)
	if err != nil {
		panic(err)
	}
	return kind + " " + string(text)
}

// eventText returns an event in words. Upstream lists pods in map order.
func eventText(e *corev1.Event) string {
	message := e.Message
	if pods, ok := strings.CutPrefix(message, "waiting for pods "); ok {
		names := strings.Split(strings.TrimSuffix(pods, " to be scheduled"), ",")
		slices.Sort(names)
		message = "waiting for pods " + strings.Join(names, ",") + " to be scheduled"
	}
	return fmt.Sprintf("event about %s %s: %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.UID, e.Type, e.Reason, message)
}
