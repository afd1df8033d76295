package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

// Bounds of an explanation.
const (
	explainedEvents  = 3   // of one object
	explainedPending = 5   // pending objects
	explainedNames   = 5   // names of objects that exist instead
	messageMax       = 300 // characters of a message
)

// An objectWait is a wait for a condition of one object.
type objectWait struct {
	cluster                   *Cluster
	resource, namespace, name string
	gone                      bool      // the condition is that it does not exist
	condition                 condition // nil: its phase, or that it is gone
}

// explain returns why a wait has not ended: the end of its error. on is nil for a wait that is not
// for one object.
func (c *Cluster) explain(on *objectWait) string {
	var b strings.Builder
	self := ""
	if on != nil {
		self = trace.ObjectName(on.resource + "/" + objectKey(on.namespace, on.name))
		if causes := on.causes(); len(causes) > 0 {
			b.WriteString(": " + strings.Join(causes, "; "))
		}
		b.WriteString(on.state())
	}
	b.WriteString(c.explainPending(self))
	if on == nil {
		writeEvents(&b, c.eventsAbout(func(e *corev1.Event) bool { return e.Type == corev1.EventTypeWarning }), true)
	}
	return b.String()
}

// explainWaits explains all waits that have not returned, such as those of users.
func (c *Cluster) explainWaits() string {
	c.mu.Lock()
	waits := slices.Clone(c.waits)
	c.mu.Unlock()
	slices.SortStableFunc(waits, func(a, b *activeWait) int { return strings.Compare(a.what, b.what) })
	waits = slices.CompactFunc(waits, func(a, b *activeWait) bool { return a.what == b.what })
	var b strings.Builder
	for _, w := range waits {
		if w.on == nil {
			continue
		}
		b.WriteString("\n" + w.what)
		if causes := w.on.causes(); len(causes) > 0 {
			b.WriteString(": " + strings.Join(causes, "; "))
		}
		b.WriteString(w.on.state())
	}
	return b.String() + c.explainPending("")
}

// explainPending returns a line for each pending object except one, with the causes.
func (c *Cluster) explainPending(except string) string {
	var b strings.Builder
	pending := slices.DeleteFunc(c.pendingObjects(), func(p invariant.PendingObject) bool {
		return except != "" && strings.TrimSpace(p.Kind+" "+p.Name) == except
	})
	for i, p := range pending {
		if i == explainedPending {
			fmt.Fprintf(&b, "\n  pending: %d more", len(pending)-i)
			break
		}
		b.WriteString("\n  pending: " + p.String())
		if causes := c.pendingCauses(p); len(causes) > 0 {
			b.WriteString(": " + strings.Join(causes, "; "))
		}
	}
	return b.String()
}

// pendingCauses returns why a pending object is still pending.
func (c *Cluster) pendingCauses(p invariant.PendingObject) []string {
	resource, ok := map[string]string{
		"pod": "pods", "claim": "persistentvolumeclaims", "volume": "persistentvolumes", "attachment": "volumeattachments",
	}[p.Kind]
	if !ok {
		if resource, ok = snapshotResources[p.Kind]; !ok {
			return nil
		}
	}
	namespace, name, namespaced := strings.Cut(p.Name, "/")
	if !namespaced {
		namespace, name = "", p.Name
	}
	obj, ok := c.server.Get(resource, namespace, name)
	if !ok {
		return nil
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		return c.podCauses(o)
	case *corev1.PersistentVolume:
		if obj.GetDeletionTimestamp() == nil {
			return c.componentCauses("pvcontroller")
		}
	case *corev1.PersistentVolumeClaim:
		if obj.GetDeletionTimestamp() == nil && snapshotapi.RestoredFrom(o) != "" {
			return c.claimCauses(o, nil)
		}
	}
	if obj.GetDeletionTimestamp() == nil {
		return c.notReadyCauses(resource, obj)
	}
	return c.goneCauses(resource, obj)
}

// causes returns why the condition does not hold.
func (w *objectWait) causes() []string {
	c := w.cluster
	obj, ok := c.server.Get(w.resource, w.namespace, w.name)
	if !ok {
		if w.gone {
			return nil
		}
		cause := c.missing(w.resource, w.namespace, w.name)
		if w.resource == "pods" {
			cause += c.removedBecause(w.namespace, w.name)
		}
		return []string{cause}
	}
	if w.gone {
		return c.goneCauses(w.resource, obj)
	}
	var causes []string
	if w.condition != nil {
		if found := w.condition.found(obj); found != "" {
			causes = append(causes, found)
		}
	}
	switch o := obj.(type) {
	case *corev1.Pod:
		causes = append(causes, c.podCauses(o)...)
	case *corev1.PersistentVolumeClaim:
		causes = append(causes, c.claimCauses(o, nil)...)
	default:
		if obj.GetDeletionTimestamp() != nil {
			causes = append(causes, c.goneCauses(w.resource, obj)...)
		} else {
			causes = append(causes, c.notReadyCauses(w.resource, obj)...)
		}
	}
	return causes
}

// removedBecause returns why a controller removed a pod, according to the pod's last state, as ": CAUSE",
// or "".
func (c *Cluster) removedBecause(namespace, name string) string {
	for _, r := range slices.Backward(c.Trace().Records()) {
		pod, is := r.After.(*corev1.Pod)
		if !is || !r.Gone || pod.Namespace != namespace || pod.Name != name {
			continue
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
				return fmt.Sprintf(": it was on %s and was removed (%s)", pod.Spec.NodeName, condition.Message)
			}
		}
		break
	}
	return ""
}

// missing describes that an object does not exist, and what exists instead.
func (c *Cluster) missing(resource, namespace, name string) string {
	word := trace.ObjectName(resource)
	if namespace != "" {
		if _, ok := c.server.Get("namespaces", "", namespace); !ok {
			return fmt.Sprintf("no such %s: namespace %q not found", word, namespace)
		}
	}
	var elsewhere, names []string
	for _, o := range c.server.List(resource) {
		if o.GetName() == name {
			elsewhere = append(elsewhere, o.GetNamespace())
		} else if o.GetNamespace() == namespace {
			names = append(names, o.GetName())
		}
	}
	slices.Sort(elsewhere)
	slices.Sort(names)
	switch {
	case len(elsewhere) > 0:
		return fmt.Sprintf("no such %s (there is one in namespace %s)", word, strings.Join(elsewhere, ", "))
	case len(names) > explainedNames:
		return fmt.Sprintf("no such %s (have %s and %d more)", word, strings.Join(names[:explainedNames], ", "), len(names)-explainedNames)
	case len(names) > 0:
		return fmt.Sprintf("no such %s (have %s)", word, strings.Join(names, ", "))
	default:
		return "no such " + word
	}
}

// state returns a line about the present state of the object and lines about its last events; "" if
// the object does not exist.
func (w *objectWait) state() string {
	obj, ok := w.cluster.server.Get(w.resource, w.namespace, w.name)
	if !ok {
		return ""
	}
	content := contentOf(obj)
	var words []string
	if phase, _, _ := unstructured.NestedString(content, "status", "phase"); phase != "" {
		words = append(words, phase)
	}
	if node, _, _ := unstructured.NestedString(content, "spec", "nodeName"); node != "" {
		words = append(words, "on "+node)
	}
	if obj.GetDeletionTimestamp() != nil {
		words = append(words, "being deleted")
		if finalizers := obj.GetFinalizers(); len(finalizers) > 0 {
			words = append(words, "finalizers "+strings.Join(finalizers, ", "))
		}
	}
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	for _, one := range conditions {
		fields, ok := one.(map[string]any)
		switch {
		case !ok, w.resource == "pods" && fields["status"] == "True":
			continue
		case w.resource == "pods": // the messages are those of events
			delete(fields, "message")
		}
		words = append(words, describeCondition(fields))
	}
	if words == nil {
		words = []string{"exists"}
	}
	var b strings.Builder
	b.WriteString("\n  state: " + strings.Join(words, ", "))
	writeEvents(&b, w.cluster.eventsAbout(func(e *corev1.Event) bool {
		about := &e.InvolvedObject
		return about.Name == w.name && about.Namespace == w.namespace && about.UID == obj.GetUID()
	}), false)
	b.WriteString(w.lastError())
	return b.String()
}

// lastError returns a line about the last failed attempt of a reconciler at the key of the object; ""
// if there is none. It may have been of another resource, which the line then shows.
func (w *objectWait) lastError() string {
	key := types.NamespacedName{Namespace: w.namespace, Name: w.name}.String()
	for _, r := range slices.Backward(w.cluster.Trace().Records()) {
		if r.Kind == trace.KindWork && r.Err != nil && r.Object == key {
			return fmt.Sprintf("\n  error: %s for %s: %s", trace.TrimTaskNumber(r.Task), key, shortened(r.Err.Error()))
		}
	}
	return ""
}

// describeCondition returns "Ready=False NoDisk: message".
func describeCondition(fields map[string]any) string {
	text := fmt.Sprintf("%v=%v", fields["type"], fields["status"])
	if reason, _ := fields["reason"].(string); reason != "" {
		text += " " + reason
	}
	if message, _ := fields["message"].(string); message != "" {
		text += ": " + shortened(message)
	}
	return text
}

// eventsAbout returns the last events that match, in the order of their last write.
func (c *Cluster) eventsAbout(match func(*corev1.Event) bool) []*corev1.Event {
	var events []*corev1.Event
	for _, o := range c.server.List("events") {
		if e, ok := o.(*corev1.Event); ok && match(e) {
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b *corev1.Event) int {
		order, err := resourceversion.Compare(a.ResourceVersion, b.ResourceVersion)
		if err != nil {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
		}
		return order
	})
	return events[max(0, len(events)-explainedEvents):]
}

// writeEvents writes a line for each event, with the object if about is set.
func writeEvents(b *strings.Builder, events []*corev1.Event, about bool) {
	for _, e := range events {
		b.WriteString("\n  event: ")
		if about {
			fmt.Fprintf(b, "%s %s: ", strings.ToLower(e.InvolvedObject.Kind), objectKey(e.InvolvedObject.Namespace, e.InvolvedObject.Name))
		}
		b.WriteString(e.Reason + ": " + shortened(e.Message))
		if e.Count > 1 {
			fmt.Fprintf(b, " (%d times)", e.Count)
		}
	}
}

// shortened returns a message as one line of bounded length.
func shortened(message string) string {
	runes := []rune(strings.Join(strings.Fields(message), " "))
	if len(runes) > messageMax {
		return string(runes[:messageMax]) + " …"
	}
	return string(runes)
}

// objectKey returns "namespace/name", or "name" for a cluster-scoped object.
func objectKey(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// keyOfObject returns the key of an object.
func keyOfObject(o metav1.Object) string { return objectKey(o.GetNamespace(), o.GetName()) }
