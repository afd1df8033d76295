package kubelet_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
)

// annotate sets an annotation of a pod, as kubectl annotate does.
func (w *world) annotate(name, annotation, value string) {
	w.t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
	testcheck.NoError(w.t, err)
	_, err = w.Client().CoreV1().Pods("default").Patch(w.t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
	testcheck.NoError(w.t, err)
}

// policyPod returns a pod with a restart policy, an annotation and named containers.
func policyPod(policy corev1.RestartPolicy, codes string, containers ...string) *corev1.Pod {
	pod := cluster.NewPod("web")
	pod.Spec.RestartPolicy = policy
	pod.Annotations = map[string]string{kubelet.ExitCodesAnnotation: codes}
	if len(containers) > 0 {
		pod.Spec.Containers = nil
	}
	for _, name := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "i"})
	}
	return pod
}

// TestExitCodes are lives of pods whose containers exit.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	const first, run = "Pending", "Running main:running ready"
	for _, c := range []struct {
		name   string
		policy corev1.RestartPolicy
		codes  string
		of     []string
		life   []string
	}{
		{"completes", corev1.RestartPolicyNever, "0", nil, []string{first, run, "Succeeded main:Completed/0"}},
		{"fails", corev1.RestartPolicyNever, "3", nil, []string{first, run, "Failed main:Error/3"}},
		{"completes after a failure", corev1.RestartPolicyOnFailure, "1,0", nil, []string{
			first, run, "Running main:Error/1", "Running main:running(1) ready", "Succeeded main:Completed/0(1)",
		}},
		{"is always restarted", corev1.RestartPolicyAlways, "0,1,2", nil, []string{
			first, run, "Running main:Completed/0", "Running main:running(1) ready",
			"Running main:Error/1(1)", "Running main:CrashLoopBackOff(1)", "Running main:running(2) ready",
			"Running main:Error/2(2)", "Running main:CrashLoopBackOff(2)", "Running main:running(3) ready",
		}},
		{"one goes on", corev1.RestartPolicyNever, "a=0", []string{"a", "b"}, []string{
			first, "Running a:running b:running ready", "Running a:Completed/0 b:running",
		}},
		{"one fails", corev1.RestartPolicyNever, "0 b=7", []string{"a", "b"}, []string{
			first, "Running a:running b:running ready", "Failed a:Completed/0 b:Error/7",
		}},
		{"never ends", corev1.RestartPolicyNever, "x", nil, []string{first, run}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createPod(policyPod(c.policy, c.codes, c.of...))
			w.rest()
			testcheck.Equal(t, "life", c.life, w.lives["web"])
		})
	}
}

// TestContainerRestartPolicy overrides that of the pod, by a rule for the code before it.
func TestContainerRestartPolicy(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := policyPod(corev1.RestartPolicyAlways, "42,1", "a")
	never := corev1.ContainerRestartPolicyNever
	pod.Spec.Containers[0].RestartPolicy = &never
	pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
		Action: corev1.ContainerRestartRuleActionRestart,
		ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		},
	}}
	w.createPod(pod)
	w.rest()
	testcheck.Equal(t, "life", []string{
		"Pending", "Running a:running ready", "Running a:Error/42", "Running a:running(1) ready", "Failed a:Error/1(1)",
	}, w.lives["web"])
}

// TestBackOffOfContainers restarts at once, and then after 10s, 20s, 40s.
func TestBackOffOfContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := w.host.Now()
	w.createPod(policyPod(corev1.RestartPolicyAlways, "1,1,1,1"))
	w.rest()
	if took := w.host.Now().Sub(began); took != 70*time.Second {
		t.Errorf("the last restart is after %s, want 70s", took)
	}
	pod := w.pod("web")
	s := pod.Status.ContainerStatuses[0]
	if s.RestartCount != 4 || s.LastTerminationState.Terminated.ExitCode != 1 || !strings.HasSuffix(s.ContainerID, "/main/4") {
		t.Errorf("status %+v", s)
	}
	testcheck.Equal(t, "events", []string{
		"x3 Warning BackOff web: Back-off restarting failed container main in pod web_default(" + string(pod.UID) + ")",
	}, w.events("BackOff"))
}

// TestEndedPodsVolumesAreUnmounted although the pod still exists, and it is removed when deleted.
func TestEndedPodsVolumesAreUnmounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web", "data")
	w.rest()
	w.annotate("web", kubelet.ExitCodesAnnotation, ",1") // the second run
	w.rest()
	if phase := w.pod("web").Status.Phase; phase != corev1.PodRunning {
		t.Fatalf("pod %s, want Running: its first run does not end", phase)
	}
	w.delete("web")
	w.rest()

	pod := policyPod(corev1.RestartPolicyNever, "")
	pod.Spec.Volumes = cluster.NewPod("web", "data").Spec.Volumes
	pod.Spec.Containers[0].VolumeMounts = cluster.NewPod("web", "data").Spec.Containers[0].VolumeMounts
	w.createPod(pod)
	w.rest()
	if node := w.node(); len(node.Status.VolumesInUse) != 1 {
		t.Fatalf("volumes in use %v, want 1", node.Status.VolumesInUse)
	}
	w.annotate("web", kubelet.ExitCodesAnnotation, "0")
	w.rest()
	if phase := w.pod("web").Status.Phase; phase != corev1.PodSucceeded {
		t.Errorf("pod %s, want Succeeded", phase)
	}
	if node := w.node(); len(node.Status.VolumesInUse) != 0 {
		t.Errorf("volumes in use %v, want none", node.Status.VolumesInUse)
	}
	if list := w.Server().List("volumeattachments"); len(list) != 0 {
		t.Errorf("%d attachments, want none", len(list))
	}
	w.delete("web")
	w.rest()
	if _, exists := w.Server().Get("pods", "default", "web"); exists {
		t.Error("the deleted pod still exists")
	}
}

func (w *world) node() *corev1.Node {
	w.t.Helper()
	node, ok := w.Server().Get("nodes", "", "node-1")
	if !ok {
		w.t.Fatal("no node")
	}
	return node.(*corev1.Node)
}

// TestReadiness is set and cleared, from the start and later.
func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := policyPod(corev1.RestartPolicyAlways, "", "a", "b")
	pod.Annotations = map[string]string{kubelet.ReadyAnnotation: "true b=false"}
	w.createPod(pod)
	w.rest()
	testcheck.Equal(t, "conditions", []string{
		"ContainersReady=False ContainersNotReady: containers with unready status: [b]",
		"Ready=False ContainersNotReady: containers with unready status: [b]",
	}, readiness(w.pod("web")))
	w.pass(time.Minute)
	w.annotate("web", kubelet.ReadyAnnotation, "true")
	w.rest()
	testcheck.Equal(t, "conditions", []string{"ContainersReady=True : ", "Ready=True : "}, readiness(w.pod("web")))
	for _, c := range w.pod("web").Status.Conditions {
		if changed := c.LastTransitionTime.Sub(w.pod("web").Status.StartTime.Time); (changed > 0) != strings.Contains(string(c.Type), "Ready") &&
			c.Type != corev1.PodReadyToStartContainers {
			t.Errorf("condition %s changed after %s", c.Type, changed)
		}
	}
	w.annotate("web", kubelet.ReadyAnnotation, "maybe")
	w.rest()
	testcheck.Equal(t, "conditions", []string{"ContainersReady=True : ", "Ready=True : "}, readiness(w.pod("web")))
	if events := w.events("InvalidAnnotation"); len(events) != 2 || !strings.Contains(events[0], `container "a": "maybe": want true or false`) {
		t.Errorf("events %q", events)
	}
	testcheck.Equal(t, "life", []string{"Pending", "Running a:running b:running", "Running a:running b:running ready"}, w.lives["web"])
}

// TestReadinessGates keep a pod from being ready until their conditions are True.
func TestReadinessGates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := cluster.NewPod("web")
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/a"}, {ConditionType: "example.com/b"}}
	w.createPod(pod)
	w.rest()
	set := func(status string) {
		patch := `{"status":{"conditions":[{"type":"example.com/a","status":"True"},{"type":"example.com/b","status":"` + status + `"}]}}`
		_, err := w.Client().CoreV1().Pods("default").
			Patch(t.Context(), "web", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		testcheck.NoError(t, err)
		w.rest()
	}
	const missing = `corresponding condition of pod readiness gate "example.com/`
	testcheck.Equal(t, "conditions", []string{
		"ContainersReady=True : ",
		"Ready=False ReadinessGatesNotReady: " + missing + `a" does not exist., ` + missing + `b" does not exist.`,
	}, readiness(w.pod("web")))
	set("False")
	testcheck.Equal(t, "conditions", []string{
		"ContainersReady=True : ",
		`Ready=False ReadinessGatesNotReady: the status of pod readiness gate "example.com/b" is not "True", but False`,
	}, readiness(w.pod("web")))
	set("True")
	testcheck.Equal(t, "conditions", []string{"ContainersReady=True : ", "Ready=True : "}, readiness(w.pod("web")))
}

func readiness(pod *corev1.Pod) []string {
	var lines []string
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			lines = append(lines, string(c.Type)+"="+string(c.Status)+" "+c.Reason+": "+c.Message)
		}
	}
	slices.Sort(lines)
	return lines
}

// TestForeignReadinessIsOverwritten as after a node controller has marked the pods of a node.
func TestForeignReadinessIsOverwritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web")
	w.rest()
	_, err := w.Client().CoreV1().Pods("default").Patch(t.Context(), "web", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"NodeNotReady"}]}}`), metav1.PatchOptions{}, "status")
	testcheck.NoError(t, err)
	w.rest()
	testcheck.Equal(t, "conditions", []string{"ContainersReady=True : ", "Ready=True : "}, readiness(w.pod("web")))
}

// TestExitsSurviveRestarts of the kubelet, also from a list that lacks its last reports, and of the
// node.
func TestExitsSurviveRestarts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		event string
		want  string
	}{
		{"crash kubelet(node-1)", "Succeeded main:Completed/0(2)"},
		{"crash kubelet(node-1) with pods 1 behind", "Succeeded main:Completed/0(2)"},
		{"crash kubelet(node-1) with pods 2 behind", "Succeeded main:Completed/0(2)"},
		{"reboot node-1", "Succeeded main:Completed/0(2)"},
	} {
		t.Run(c.event, func(t *testing.T) {
			t.Parallel()
			for step := range 6 {
				w := newWorld(t)
				w.createPod(policyPod(corev1.RestartPolicyOnFailure, "1,1,0"))
				testcheck.NoError(t, w.Wait(t.Context(), "reports", func() bool { return len(w.lives["web"]) > step }))
				if !w.host.Inject(c.event) {
					continue // there is no such list yet
				}
				w.rest()
				life := w.lives["web"]
				if life[len(life)-1] != c.want {
					t.Errorf("at report %d: life %q", step, life)
				}
				for i, said := range life {
					if i > 0 && strings.HasPrefix(life[i-1], "Succeeded") && said != life[i-1] {
						t.Errorf("at report %d: the pod was Succeeded, and then %q", step, said)
					}
				}
			}
		})
	}
}

// TestEndedPodIsNotStartedAgain by a kubelet whose node has rebooted and whose list of pods lacks the
// end of the pod.
func TestEndedPodIsNotStartedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createPod(policyPod(corev1.RestartPolicyNever, "0"))
	w.rest()
	for _, event := range []string{"reboot node-1", "crash kubelet(node-1) with pods 1 behind"} {
		if !w.host.Inject(event) {
			t.Fatalf("%s: not possible", event)
		}
	}
	w.rest()
	testcheck.Equal(t, "life", []string{"Pending", "Running main:running ready", "Succeeded main:Completed/0"}, w.lives["web"])
}
