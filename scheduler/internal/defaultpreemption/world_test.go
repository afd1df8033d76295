package defaultpreemption

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/sim"
)

// The priorities.
const (
	negative int32 = -100
	low      int32 = 0
	mid      int32 = 100
	high     int32 = 1000
	veryHigh int32 = 10000
)

// The CPU that pods request, in thousandths.
const (
	small     = 100
	medium    = 200
	large     = 300
	veryLarge = 500 // what a node has
)

// world is an API server and the plugin.
type world struct {
	*testworld.World
	*Plugin
	nodes     []*corev1.Node
	activated []string
	nominated []*framework.PodInfo
	filtered  int // how often a node was looked at
	requests  []string
	refuse    map[string]bool      // requests that fail
	conflict  string               // a request that conflicts
	before    func(request string) // that is served
}

// newWorld returns a world with objects: nodes, pods and disruption budgets.
func newWorld(t *testing.T, change func(*Config), objects ...runtime.Object) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{})}
	process := w.Host.Process("scheduler")
	client := w.Server.Client(process).WithInterceptor(fake.InterceptorFunc(w.intercept))
	cfg := Config{
		Recorder: events.New(events.Config{Process: process, Client: client, Source: "default-scheduler"}),
		Filter: func(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
			w.filtered++
			return fits(cycle, node)
		},
		Nominated: func(string) []*framework.PodInfo { return w.nominated },
		Activate:  func(pod *corev1.Pod) { w.activated = append(w.activated, pod.Name) },
	}
	if change != nil {
		change(&cfg)
	}
	for _, object := range objects {
		if node, ok := object.(*corev1.Node); ok {
			w.nodes = append(w.nodes, node)
		}
	}
	if err := w.Server.Add(objects...); err != nil {
		t.Fatal(err)
	}
	w.Plugin = New(framework.Handle{Process: process, Client: client, Informers: w.Server.Informers(process)}, cfg)
	w.Run()
	return w
}

// intercept records the requests about pods.
func (w *world) intercept(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if r.Resource.Resource != "pods" {
		return serve()
	}
	request := strings.TrimSpace(r.Verb + " " + r.Name + " " + r.Subresource)
	w.requests = append(w.requests, request)
	if w.before != nil {
		w.before(request)
	}
	if w.refuse[request] {
		return nil, apierrors.NewInternalError(errors.New("refused"))
	}
	if request == w.conflict {
		return nil, apierrors.NewConflict(r.Resource.GroupResource(), r.Name, errors.New("changed"))
	}
	return serve()
}

// fits compares the number of pods and their requests with what a node has.
func fits(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	if int64(len(node.Pods)) >= node.Allocatable.Pods {
		return framework.NewStatus(framework.Unschedulable, "Too many pods")
	}
	if node.Requested.MilliCPU+cycle.Pod.Requests.MilliCPU > node.Allocatable.MilliCPU {
		return framework.NewStatus(framework.Unschedulable, "Insufficient cpu")
	}
	return nil
}

// cycle returns the cycle of a pod of the server, with the pods that have a node.
func (w *world) cycle(name string) *framework.Cycle {
	w.Helper()
	var placed []*corev1.Pod
	for _, object := range w.Server.List("pods") {
		if pod := object.(*corev1.Pod); pod.Spec.NodeName != "" {
			placed = append(placed, pod)
		}
	}
	info, err := framework.NewPodInfo(w.pod(name))
	if err != nil {
		w.Fatal(err)
	}
	return framework.NewCycle(info, framework.NewSnapshot(w.nodes, placed))
}

// pod returns a pod of the server; nil: there is none.
func (w *world) pod(name string) *corev1.Pod {
	object, ok := w.Server.Get("pods", "default", name)
	if !ok {
		return nil
	}
	return object.(*corev1.Pod)
}

// unresolvable is the answer about nodes that no preemption helps.
var unresolvable = framework.NewStatus(framework.UnschedulableAndUnresolvable)

// everywhere is a diagnosis after which a preemption may help on each node but the given ones.
func (w *world) everywhere(but ...string) *framework.Diagnosis {
	d := &framework.Diagnosis{NodesMax: len(w.nodes), Others: unresolvable}
	for _, node := range w.nodes {
		if !slices.Contains(but, node.Name) {
			d.Reject(node.Name, framework.NewStatus(framework.Unschedulable))
		}
	}
	return d
}

// postFilter runs PostFilter about a pod, and what follows.
func (w *world) postFilter(name string, why *framework.Diagnosis) (nominated string, clear bool, status *framework.Status) {
	w.Helper()
	w.Process.Spawn("cycle", func(ctx context.Context) {
		nominated, clear, status = w.PostFilter(ctx, w.cycle(name), why)
	})
	w.Run()
	return nominated, clear, status
}

// preempted returns the names of the pods that are being deleted or gone, of the given ones.
func (w *world) preempted(pods []*corev1.Pod) []string {
	var names []string
	for _, pod := range pods {
		if now := w.pod(pod.Name); now == nil || now.DeletionTimestamp != nil && pod.DeletionTimestamp == nil {
			names = append(names, pod.Name)
		}
	}
	return names
}

// events returns the events about a pod, as "reason: message".
func (w *world) events(pod string) []string {
	var texts []string
	for _, object := range w.Server.List("events") {
		if e := object.(*corev1.Event); e.InvolvedObject.Name == pod {
			texts = append(texts, e.Reason+": "+e.Message)
		}
	}
	return texts
}

func newNode(name string, pods int64) *corev1.Node {
	list := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(pods, resource.DecimalSI), corev1.ResourceCPU: resource.MustParse("500m")}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Allocatable: list, Capacity: list}}
}

// nodesNamed returns nodes with room for many pods.
func nodesNamed(names string) []runtime.Object {
	var nodes []runtime.Object
	for _, name := range strings.Fields(names) {
		nodes = append(nodes, newNode(name, 32))
	}
	return nodes
}

// newPod returns a pod with a node, "" for none, a priority and a request for CPU.
func newPod(name, node string, priority int32, cpu int64, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	pod.Spec = corev1.PodSpec{
		NodeName: node, Priority: &priority, SchedulerName: corev1.DefaultSchedulerName,
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}
	if cpu > 0 {
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(cpu, resource.DecimalSI)}
	}
	for _, f := range change {
		f(pod)
	}
	return pod
}

// started sets when a pod started.
func started(seconds int64) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.StartTime = &metav1.Time{Time: time.Unix(seconds, 0)} }
}

func labelled(value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels = map[string]string{"app": value} }
}

func never(pod *corev1.Pod) {
	policy := corev1.PreemptNever
	pod.Spec.PreemptionPolicy = &policy
}

func nominatedTo(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.NominatedNodeName = node }
}

// terminating marks a pod that is being deleted, since it was preempted or for another reason.
func terminating(preempted bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Unix(1, 0)}, new(int64)
		pod.Finalizers = []string{"example.com/test"}
		if preempted {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler",
			}}
		}
	}
}

// newBudget returns a budget for the pods with a label.
func newBudget(value string, allowed int32, counted ...string) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: value},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
	for _, pod := range counted {
		if budget.Status.DisruptedPods == nil {
			budget.Status.DisruptedPods = map[string]metav1.Time{}
		}
		budget.Status.DisruptedPods[pod] = metav1.Time{Time: time.Unix(1, 0)}
	}
	return budget
}

// textOf returns candidates as "node: victim victim (violations)".
func textOf(candidates []candidate) []string {
	var texts []string
	for _, c := range candidates {
		text := c.node + ":"
		for _, pod := range c.victims {
			text += " " + pod.Name
		}
		if c.violations > 0 {
			text += fmt.Sprintf(" (%d)", c.violations)
		}
		texts = append(texts, text)
	}
	return texts
}

func objects[T runtime.Object](more []T, all ...runtime.Object) []runtime.Object {
	for _, object := range more {
		all = append(all, object)
	}
	return all
}
