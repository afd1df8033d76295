package nodediff

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

var ctx = context.Background()

// A world is an API server, its users and kubelets: all but the controllers.
type world struct {
	*controllers.World

	timed     bool // the times of deletions are compared
	counted   bool // nodes are compared without their names, by their number
	began     time.Time
	restarted time.Time // the controllers, last
	ticks     int
	kubelets  map[string]*kubelet
	started   map[string]bool      // events since then, by text
	counts    map[string]int       // of events, by text
	tainted   map[string]time.Time // when a node of a zone was tainted, last
	log       []string             // what happened to pods that no longer exist, and when
}

// A kubelet reports conditions of its node, unless it is silent.
type kubelet struct {
	silent bool
	report map[corev1.NodeConditionType]corev1.ConditionStatus
}

func newWorld(timed bool) func(*controllers.World) *world {
	return func(base *controllers.World) *world {
		w := &world{World: base, timed: timed, began: base.Now(), kubelets: map[string]*kubelet{}, counts: map[string]int{}, tainted: map[string]time.Time{}}
		base.Server.OnCommit(w.observe)
		down := base.Down
		base.Down = func(meanwhile func() error) error {
			defer func() { w.restarted, w.started = w.Now(), map[string]bool{} }()
			return down(meanwhile)
		}
		return w
	}
}

func (w *world) observe(c fake.Commit) {
	switch obj := c.After.(type) {
	case *corev1.Event:
		w.observeEvent(obj)
	case *corev1.Pod:
		if c.Type == watch.Added {
			w.Events.Name(obj.UID, "%s#%d", obj.Name)
		}
		if before, _ := c.Before.(*corev1.Pod); w.timed && before != nil && before.DeletionTimestamp == nil && obj.DeletionTimestamp != nil {
			w.log = append(w.log, fmt.Sprintf("deleted at %d: %s", w.Now().Sub(w.began)/tickPeriod, obj.UID))
		}
		if c.Type == watch.Deleted {
			w.log = append(w.log, "removed "+describePod(obj))
		}
	case *corev1.Node:
		if c.Type == watch.Added {
			w.Events.Name(obj.UID, "%s#%d", obj.Name)
		}
		if before, _ := c.Before.(*corev1.Node); before != nil && !slices.ContainsFunc(before.Spec.Taints, evicts) && slices.ContainsFunc(obj.Spec.Taints, evicts) {
			w.observeRate(obj.Labels[corev1.LabelTopologyZone])
		}
	}
}

// evicts reports whether a taint is one of the node lifecycle controller that evicts pods.
func evicts(t corev1.Taint) bool {
	return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeUnreachable || t.Key == corev1.TaintNodeNotReady)
}

// observeRate records how long ago another node of a zone was tainted, if it has waited for that. After a
// start upstream taints all again.
func (w *world) observeRate(zone string) {
	if gap := w.Now().Sub(w.tainted[zone]).Round(time.Second); gap < 15*time.Second && w.Now().Sub(w.restarted) > 200*time.Second {
		w.log = append(w.log, fmt.Sprintf("a node of zone %s was tainted %s after another", zone, gap))
	}
	w.tainted[zone] = w.Now()
}

const tickPeriod = 5 * time.Second

// observeEvent records how often an event has occurred. After a start upstream decides about a pod twice
// in the same instant, once for the pod and once for its node.
func (w *world) observeEvent(e *corev1.Event) {
	text := fmt.Sprintf("event %s %s %s", e.Type, e.Reason, e.Message)
	if w.Now().Sub(w.restarted) < tickPeriod {
		if strings.HasPrefix(e.Message, "Cancelling ") || w.started[text] {
			return
		}
		w.started[text] = true
	}
	w.counts[text]++
	w.Events.Add(e, fmt.Sprintf("%s, %d", text, w.counts[text]))
}

// nodes returns the nodes, in order of their names.
func (w *world) nodes() []*corev1.Node { return stored[*corev1.Node](w, "nodes") }

// pods returns the pods, in order of their names.
func (w *world) pods() []*corev1.Pod { return stored[*corev1.Pod](w, "pods") }

func stored[T fake.Object](w *world, resource string) []T {
	var all []T
	for _, obj := range w.Server.List(resource) {
		all = append(all, obj.DeepCopyObject().(T))
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return all
}

// Tick lets the kubelets renew their Leases, report, and run and end pods.
func (w *world) Tick() error {
	w.ticks++
	for _, node := range w.nodes() {
		k := w.kubelets[node.Name]
		if k == nil || k.silent {
			continue
		}
		if err := w.tick(k, node); err != nil {
			return fmt.Errorf("kubelet of %s: %w", node.Name, err)
		}
	}
	return nil
}

func (w *world) tick(k *kubelet, node *corev1.Node) error {
	if w.ticks%4 == 0 {
		if err := w.renewLease(node.Name); err != nil {
			return err
		}
	}
	if err := w.post(k, node, w.ticks%20 == 0); err != nil {
		return err
	}
	for _, pod := range w.pods() {
		if pod.Spec.NodeName != node.Name {
			continue
		}
		var err error
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		switch {
		case pod.DeletionTimestamp != nil && len(pod.Finalizers) == 0 && !isOutOfService(node):
			err = w.Client.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case pod.DeletionTimestamp == nil && !ended && !isReady(pod) && k.report[corev1.NodeReady] == corev1.ConditionTrue:
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.Now()),
			})
			_, err = w.Client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isOutOfService reports whether the pods of a node are left to the pod garbage collector.
func isOutOfService(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func (w *world) renewLease(node string) error {
	leases := w.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	now := metav1.NewMicroTime(w.Now())
	lease, ok := histories.Stored[*coordinationv1.Lease](w.Server, "leases", corev1.NamespaceNodeLease, node)
	if !ok {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &node, LeaseDurationSeconds: ptr.To[int32](40), RenewTime: &now,
		}}
		_, err := leases.Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	lease.Spec.RenewTime = &now
	_, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// post reports the conditions of a node, if they have changed or always.
func (w *world) post(k *kubelet, node *corev1.Node, always bool) error {
	now, changed := metav1.NewTime(w.Now()), always
	for _, kind := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady} {
		status, reported := k.report[kind]
		if !reported {
			continue
		}
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			node.Status.Conditions, i = append(node.Status.Conditions, corev1.NodeCondition{Type: kind}), len(node.Status.Conditions)
		}
		c := &node.Status.Conditions[i]
		if c.Status != status {
			c.Status, c.LastTransitionTime, changed = status, now, true
		}
		c.Reason, c.Message, c.LastHeartbeatTime = "Reported", "", now
	}
	if !changed {
		return nil
	}
	_, err := w.Client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func describePod(pod *corev1.Pod) string {
	var conditions []string
	for _, c := range pod.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
	}
	slices.Sort(conditions)
	text := fmt.Sprintf("pods %s on %q: %s %s, %s", pod.UID, pod.Spec.NodeName, pod.Status.Phase, pod.Status.Reason, strings.Join(conditions, ", "))
	if pod.DeletionTimestamp != nil {
		text += fmt.Sprintf(", ending, grace period %d", ptr.Deref(pod.DeletionGracePeriodSeconds, -1))
	}
	return text
}

func describeNode(node *corev1.Node) []string {
	lines := []string{fmt.Sprintf("nodes %s %v, unschedulable %v", node.UID, node.Labels, node.Spec.Unschedulable)}
	for _, t := range node.Spec.Taints {
		lines = append(lines, fmt.Sprintf("taint of %s: %s=%s:%s, time %v", node.UID, t.Key, t.Value, t.Effect, t.TimeAdded != nil))
	}
	for _, c := range node.Status.Conditions {
		lines = append(lines, fmt.Sprintf("condition of %s: %s=%s %s %s", node.UID, c.Type, c.Status, c.Reason, c.Message))
	}
	return lines
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	lines := slices.Clone(w.log)
	for _, node := range w.nodes() {
		lines = append(lines, describeNode(node)...)
	}
	for _, pod := range w.pods() {
		lines = append(lines, describePod(pod))
	}
	state := w.Events.State(lines)
	if !w.counted {
		return state
	}
	counts := map[string]int{}
	for _, line := range state {
		counts[nodeNames.ReplaceAllString(line, "node-*")]++
	}
	state = nil
	for line, n := range counts {
		if !strings.HasPrefix(line, "a node ") {
			line = fmt.Sprintf("%d %s", n, line)
		}
		state = append(state, line)
	}
	slices.Sort(state)
	return state
}

var nodeNames = regexp.MustCompile(`node-[0-9]+(#[0-9]+)?`)
