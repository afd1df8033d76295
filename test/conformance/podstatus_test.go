package conformance_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/kubelet/status"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

// TestPodStatusAgreesWithUpstream compares the conditions of random pods, whose containers exit and
// become ready and unready, with those that upstream's kubelet derives from the same statuses of
// containers. A container that has ended is one that upstream's kubelet does not restart.
func TestPodStatusAgreesWithUpstream(t *testing.T) {
	const worlds = 60
	seen := map[string]int{}
	for seed := range uint64(worlds) {
		w := newStatusWorld(t, seed, seen)
		w.create()
		for range 6 {
			w.act()
			if err := w.Run(t.Context()); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			w.check(true)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, what := range []string{
		"Running", "Succeeded", "Failed", status.ContainersNotReady, status.ReadinessGatesNotReady, status.PodCompleted, status.PodFailed,
		status.ContainersNotInitialized, "Terminated", "restarted", "with a rule", "init container failed",
	} {
		if seen[what] < 3 {
			t.Errorf("%s: %d times: the pods are not random enough", what, seen[what])
		}
	}
}

type statusWorld struct {
	*cluster.Cluster

	t    *testing.T
	seed uint64
	rand *rand.Rand
	pod  *corev1.Pod
	seen map[string]int
}

func newStatusWorld(t *testing.T, seed uint64, seen map[string]int) *statusWorld {
	t.Helper()
	c, err := cluster.New(cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	w := &statusWorld{Cluster: c, t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 0)), seen: seen} //nolint:gosec // a test
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Server().OnCommit(func(e fake.Commit) {
		if pod, ok := e.After.(*corev1.Pod); ok && pod.DeletionTimestamp == nil {
			w.pod = pod
			w.check(false)
		}
	})
	return w
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// codes returns a value of the annotation with exit codes.
func (w *statusWorld) codes() string {
	codes := make([]string, 1+w.rand.IntN(3))
	for i := range codes {
		codes[i] = pick(w.rand, "0", "0", "1", "42", "")
	}
	return pick(w.rand, "", "a=", "b=", "x=", "0 y=") + strings.Join(codes, ",")
}

func (w *statusWorld) create() {
	pod := cluster.NewPod("web")
	pod.Spec.NodeName = "node-1"
	pod.Spec.RestartPolicy = pick(w.rand, corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	pod.Spec.Containers = nil
	for _, name := range []string{"a", "b", "c"}[:1+w.rand.IntN(3)] {
		c := corev1.Container{Name: name, Image: "i"}
		if w.rand.IntN(3) == 0 {
			policy := pick(w.rand, corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyOnFailure, corev1.ContainerRestartPolicyNever)
			c.RestartPolicy = &policy
			if w.rand.IntN(2) == 0 {
				w.seen["with a rule"]++
				c.RestartPolicyRules = []corev1.ContainerRestartRule{{
					Action: corev1.ContainerRestartRuleActionRestart,
					ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
						Operator: pick(w.rand, corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn),
						Values:   []int32{42},
					},
				}}
			}
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	for _, name := range []string{"x", "y"}[:w.rand.IntN(3)] {
		c := corev1.Container{Name: name, Image: "i"}
		if always := corev1.ContainerRestartPolicyAlways; w.rand.IntN(2) == 0 {
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	if w.rand.IntN(2) == 0 { // it is mounted again after a reboot
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
	for _, gate := range []corev1.PodConditionType{"gate/1", "gate/2"}[:max(0, w.rand.IntN(5)-2)] {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: gate})
	}
	pod.Annotations = map[string]string{kubelet.ReadyAnnotation: pick(w.rand, "", "false", "true b=false")}
	if w.rand.IntN(2) == 0 {
		pod.Annotations[kubelet.ExitCodesAnnotation] = w.codes()
	}
	if _, err := w.Client().CoreV1().Pods("default").Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// act changes the pod, or disturbs its node.
func (w *statusWorld) act() {
	switch w.rand.IntN(6) {
	case 0:
		w.patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			kubelet.ReadyAnnotation: pick(w.rand, "", "false", "true", "a=false"),
		}}})
	case 1, 2:
		w.patch(map[string]any{"metadata": map[string]any{"annotations": map[string]any{kubelet.ExitCodesAnnotation: w.codes()}}})
	case 3:
		w.patch(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
			"type": pick(w.rand, "gate/1", "gate/2"), "status": pick(w.rand, "True", "True", "False", "Unknown"),
		}}}}, "status")
	default:
		w.Host().(*sim.Stepped).Inject(pick(w.rand, "crash kubelet(node-1)", "crash kubelet(node-1) with pods 1 behind", "reboot node-1"))
	}
}

func (w *statusWorld) patch(patch map[string]any, subresource ...string) {
	text, err := json.Marshal(patch)
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = w.Client().CoreV1().Pods("default").
		Patch(w.t.Context(), "web", types.StrategicMergePatchType, text, metav1.PatchOptions{}, subresource...)
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

// check compares the status of the pod. Before the world is at rest, the kubelet may not have seen the
// conditions of readiness gates.
func (w *statusWorld) check(atRest bool) {
	pod := w.pod
	if pod.Status.ContainerStatuses == nil || !atRest && len(pod.Spec.ReadinessGates) > 0 {
		return
	}
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for _, want := range []corev1.PodCondition{
		status.GenerateContainersReadyCondition(pod, &pod.Status, all, pod.Status.Phase),
		status.GeneratePodReadyCondition(pod, &pod.Status, pod.Status.Conditions, all, pod.Status.Phase),
		status.GeneratePodInitializedCondition(pod, &pod.Status, all, pod.Status.Phase),
	} {
		_, got := podutil.GetPodCondition(&pod.Status, want.Type)
		if said, wants := inWords(got), inWords(&want); said != wants {
			w.t.Errorf("seed %d: %s is\n%s\nwant\n%s\nof %s", w.seed, want.Type, said, wants, statusesInWords(all))
		}
		w.seen[want.Reason]++
	}
	w.seen[string(pod.Status.Phase)]++
	failed := false // an init container, for good
	for i := range pod.Status.InitContainerStatuses {
		c, s := &pod.Spec.InitContainers[i], &pod.Status.InitContainerStatuses[i]
		if podutil.IsRestartableInitContainer(c) || s.State.Terminated == nil || s.State.Terminated.ExitCode == 0 {
			continue
		}
		w.seen["init container failed"]++
		failed = failed || !podutil.ContainerShouldRestart(*c, pod.Spec, s.State.Terminated.ExitCode)
	}
	ended := 0
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.RestartCount > 0 {
			w.seen["restarted"]++
		}
		if s.State.Terminated == nil {
			continue
		}
		w.seen["Terminated"]++
		if podutil.ContainerShouldRestart(pod.Spec.Containers[i], pod.Spec, s.State.Terminated.ExitCode) {
			if atRest {
				w.t.Errorf("seed %d: container %s has ended, and upstream restarts it", w.seed, s.Name)
			}
			continue
		}
		ended++
	}
	if terminal := podutil.IsPodPhaseTerminal(pod.Status.Phase); terminal != (failed || ended == len(pod.Spec.Containers)) {
		w.t.Errorf("seed %d: the pod is %s, and %d of %d containers have ended", w.seed, pod.Status.Phase, ended, len(pod.Spec.Containers))
	}
}

func inWords(c *corev1.PodCondition) string {
	if c == nil {
		return "missing"
	}
	return fmt.Sprintf("%s %s %q", c.Status, c.Reason, c.Message)
}

func statusesInWords(all []corev1.ContainerStatus) string {
	text, err := json.Marshal(all)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
