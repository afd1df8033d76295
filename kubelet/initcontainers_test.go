package kubelet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
)

// initPod returns a pod with init containers, a restart policy and an annotation.
func initPod(policy corev1.RestartPolicy, codes string, names ...string) *corev1.Pod {
	pod := policyPod(policy, codes)
	for _, name := range names {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Image: "i"})
	}
	return pod
}

// initialized returns what a pod's status says of its init containers.
func initialized(pod *corev1.Pod) string {
	var words []string
	for _, s := range pod.Status.InitContainerStatuses {
		word := s.Name + ":" + stateOf(s.State)
		if s.RestartCount > 0 {
			word += fmt.Sprintf("(%d)", s.RestartCount)
		}
		words = append(words, word)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodInitialized {
			words = append(words, strings.TrimSpace(string(c.Status)+" "+c.Message))
		}
	}
	return strings.Join(words, " ")
}

// TestInitContainersExit are lives of pods whose init containers fail.
func TestInitContainersExit(t *testing.T) {
	t.Parallel()
	const waits, runs = "Pending main:PodInitializing", "Running main:running ready"
	for _, c := range []struct {
		name, codes string
		policy      corev1.RestartPolicy
		of          []string
		life        []string
		inits       string
	}{
		{
			"succeeds", "seed=0", corev1.RestartPolicyNever,
			[]string{"seed"},
			[]string{waits, runs},
			"seed:Completed/0 True",
		},
		{
			"is not named", "3", corev1.RestartPolicyNever,
			[]string{"seed"},
			[]string{"Pending", runs, "Failed main:Error/3"},
			"seed:Completed/0 True",
		},
		{
			"fails, and its pod", "seed=1", corev1.RestartPolicyNever,
			[]string{"seed", "late"},
			[]string{waits, "Failed main:PodInitializing"},
			"seed:Error/1 late:PodInitializing False containers with incomplete status: [seed late]",
		},
		{
			"fails once", "seed=1", corev1.RestartPolicyOnFailure,
			[]string{"seed", "late"},
			[]string{waits, runs},
			"seed:Completed/0(1) late:Completed/0 True",
		},
		{
			"is not always restarted", "seed=2,1,0,5", corev1.RestartPolicyAlways,
			[]string{"early", "seed"},
			[]string{waits, runs},
			"early:Completed/0 seed:Completed/0(2) True",
		},
		{
			"does not end", "seed=", corev1.RestartPolicyNever,
			[]string{"early", "seed", "late"},
			[]string{waits},
			"early:Completed/0 seed:running late:PodInitializing False containers with incomplete status: [seed late]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.createPod(initPod(c.policy, c.codes, c.of...))
			w.rest()
			if life := w.lives["web"]; c.life[0] == waits && life[0] == "Pending" {
				w.lives["web"] = life[1:] // before the first report
			}
			testcheck.Equal(t, "life", c.life, w.lives["web"])
			testcheck.Equal(t, "init containers", c.inits, initialized(w.pod("web")))
		})
	}
}

// TestInitContainerThatDoesNotEnd ends when the user says so. Its sidecar containers wait, and the pod
// can be deleted meanwhile.
func TestInitContainerThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := initPod(corev1.RestartPolicyAlways, "seed=", "seed", "proxy")
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers[1].RestartPolicy = &always
	w.createPod(pod)
	w.rest()
	const waits = "seed:running proxy:PodInitializing False containers with incomplete status: [seed proxy]"
	testcheck.Equal(t, "init containers", waits, initialized(w.pod("web")))
	w.annotate("web", kubelet.ExitCodesAnnotation, "seed=0")
	w.rest()
	testcheck.Equal(t, "init containers", "seed:Completed/0 proxy:running True", initialized(w.pod("web")))
	testcheck.Equal(t, "life", "Running main:running ready", w.lives["web"][len(w.lives["web"])-1])
	w.delete("web")
	w.rest()

	w.createPod(initPod(corev1.RestartPolicyAlways, "seed=", "seed"))
	w.rest()
	w.delete("web")
	w.rest()
	testcheck.Equal(t, "life", "Failed main:PodInitializing", w.lives["web"][len(w.lives["web"])-1])
}

// TestBackOffOfInitContainers is that of containers.
func TestBackOffOfInitContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := w.host.Now()
	w.createPod(initPod(corev1.RestartPolicyAlways, "seed=1,1,1", "seed"))
	w.rest()
	if took := w.pod("web").Status.ContainerStatuses[0].State.Running.StartedAt.Sub(began); took != 30*time.Second {
		t.Errorf("the container starts after %s, want 30s", took)
	}
	testcheck.Equal(t, "events", []string{
		"x2 Warning BackOff web: Back-off restarting failed container seed in pod web_default(" + string(w.pod("web").UID) + ")",
	}, w.events("BackOff"))
	w.annotate("web", kubelet.ExitCodesAnnotation, "seed=1,1,1,x")
	w.rest()
	if events := w.events("InvalidAnnotation"); len(events) != 1 || !strings.Contains(events[0], `container "seed": "x": want a code`) {
		t.Errorf("events %q", events)
	}
}

// TestInitContainersSurviveRestarts of the kubelet, also from a list that lacks its last reports, and
// run again after a restart of the node.
func TestInitContainersSurviveRestarts(t *testing.T) {
	t.Parallel()
	for _, event := range []string{
		"crash kubelet(node-1)", "crash kubelet(node-1) with pods 1 behind", "crash kubelet(node-1) with pods 2 behind", "reboot node-1",
	} {
		t.Run(event, func(t *testing.T) {
			t.Parallel()
			for step := range 6 {
				w := newWorld(t)
				var all []string // what is said of the init containers
				w.createPod(initPod(corev1.RestartPolicyOnFailure, "seed=1,1 0", "seed"))
				testcheck.NoError(t, w.Wait(t.Context(), "reports", func() bool {
					if pod, ok := w.Server().Get("pods", "default", "web"); ok {
						if said := initialized(pod.(*corev1.Pod)); !slices.Contains(all, said) {
							all = append(all, said)
						}
					}
					return len(all) > step || len(w.lives["web"]) > 2
				}))
				if !w.host.Inject(event) {
					continue // there is no such list yet
				}
				w.rest()
				life := w.lives["web"]
				if last := life[len(life)-1]; last != "Succeeded main:Completed/0" {
					t.Errorf("after %q: life %q", all, life)
				}
				if got := initialized(w.pod("web")); !strings.HasPrefix(got, "seed:Completed/0(") || !strings.HasSuffix(got, " True") {
					t.Errorf("after %q: %s", all, got)
				}
			}
		})
	}
}
