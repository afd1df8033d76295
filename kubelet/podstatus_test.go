package kubelet_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestLifeOfAPod has its volume at once, and says no more than it must.
func TestLifeOfAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web", "data")
	w.rest()
	w.delete("web")
	w.rest()
	testcheck.Equal(w.t, "life", []string{"Pending", "Running main:running ready", "Succeeded main:Completed/0"}, w.lives["web"])
}

// TestStatusOfAPodThatRuns is all that a kubelet says.
func TestStatusOfAPodThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	always := corev1.ContainerRestartPolicyAlways
	pod := cluster.NewPod("web")
	pod.Spec.InitContainers = []corev1.Container{{Name: "seed", Image: "i"}, {Name: "proxy", Image: "i", RestartPolicy: &always}}
	w.createPod(pod)
	w.rest()
	got := w.pod("web").Status
	now := metav1.NewTime(sim.Epoch)
	condition := func(kind corev1.PodConditionType) corev1.PodCondition {
		return corev1.PodCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now}
	}
	yes, no := true, false
	id := "volsim://node-1-0/" + string(w.pod("web").UID) + "/main"
	want := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &now, QOSClass: got.QOSClass,
		Conditions: []corev1.PodCondition{
			condition(corev1.PodReadyToStartContainers), condition(corev1.PodInitialized), condition(corev1.PodReady),
			condition(corev1.ContainersReady), condition(corev1.PodScheduled),
		},
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "seed", Image: "i", Ready: true, Started: &no, State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now},
			}},
			{Name: "proxy", Image: "i", Ready: true, Started: &yes, State: corev1.ContainerState{
				Running: &corev1.ContainerStateRunning{StartedAt: now},
			}},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "main", Image: "pause", Ready: true, Started: &yes, ContainerID: id,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}},
	}
	testcheck.Equal(w.t, "status", want, got)
}

// TestPodThatWaitsForItsVolume says so after a second, and loses the words when it runs.
func TestPodThatWaitsForItsVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := true
	w.driver = func(method string, _ any) error {
		if broken && method == "NodePublishVolume" {
			return errors.New("broken")
		}
		return nil
	}
	w.create("web", "data")
	w.pass(999 * time.Millisecond)
	testcheck.Equal(w.t, "life in the first second", []string{"Pending"}, w.lives["web"])
	w.pass(time.Second)
	testcheck.Equal(w.t, "life after a second", []string{"Pending", "Pending main:ContainerCreating"}, w.lives["web"])
	for _, c := range w.pod("web").Status.Conditions {
		switch c.Type {
		case corev1.PodReady, corev1.ContainersReady:
			testcheck.Equal(w.t, string(c.Type), []string{"False", "ContainersNotReady", "containers with unready status: [main]"},
				[]string{string(c.Status), c.Reason, c.Message})
		case corev1.PodReadyToStartContainers:
			testcheck.Equal(w.t, string(c.Type), corev1.ConditionFalse, c.Status)
		default:
			testcheck.Equal(w.t, string(c.Type), corev1.ConditionTrue, c.Status)
		}
	}
	broken = false
	w.rest()
	testcheck.Equal(w.t, "life", []string{"Pending", "Pending main:ContainerCreating", "Running main:running ready"}, w.lives["web"])
	for _, c := range w.pod("web").Status.Conditions {
		testcheck.Equal(w.t, string(c.Type)+": status, reason, message", []string{"True", "", ""}, []string{string(c.Status), c.Reason, c.Message})
	}
}

// TestPodThatNeverRan has failed when it is deleted; an initContainer was not reached.
func TestPodThatNeverRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pod := cluster.NewPod("web", "missing")
	pod.Spec.InitContainers = []corev1.Container{{Name: "seed", Image: "i"}}
	w.createPod(pod)
	w.rest()
	for _, c := range w.pod("web").Status.Conditions {
		if c.Type == corev1.PodInitialized {
			testcheck.Equal(w.t, "initialized", []string{"False", "ContainersNotInitialized", "containers with incomplete status: [seed]"},
				[]string{string(c.Status), c.Reason, c.Message})
		}
	}
	w.delete("web")
	w.rest()
	testcheck.Equal(w.t, "life", []string{"Pending", "Pending main:PodInitializing", "Failed main:PodInitializing"}, w.lives["web"])
}

// TestContainersEndBeforeTheirVolumesGo and the pod stays until these are gone.
func TestContainersEndBeforeTheirVolumesGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web", "data")
	w.rest()
	broken := true
	w.driver = func(method string, _ any) error {
		if broken && method == "NodeUnpublishVolume" {
			return errors.New("broken")
		}
		return nil
	}
	w.delete("web")
	w.pass(time.Minute)
	testcheck.Equal(w.t, "life while the volume is there", []string{"Pending", "Running main:running ready", "Succeeded main:Completed/0"}, w.lives["web"])
	w.pod("web")
	broken = false
	w.rest()
	if _, there := w.Server().Get("pods", "default", "web"); there {
		t.Error("the pod stays")
	}
}

// TestContainersAreCountedThatABootHasStopped and those that a kubelet finds running are not.
func TestContainersAreCountedThatABootHasStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web", "data")
	w.rest()
	const life = "Running main:running ready"
	testcheck.NoError(w.t, w.Crash("kubelet(node-1)"))
	w.rest()
	testcheck.Equal(w.t, "life after the kubelet's end", []string{"Pending", life}, w.lives["web"])
	for range 2 {
		testcheck.NoError(w.t, w.Reboot("node-1"))
		w.rest()
	}
	testcheck.Equal(w.t, "life after two boots", []string{
		"Pending", life,
		"Running main:ContainerCreating(1)", "Running main:running(1) ready",
		"Running main:ContainerCreating(2)", "Running main:running(2) ready",
	}, w.lives["web"])
	last := w.pod("web").Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.Reason != "ContainerStatusUnknown" || last.ExitCode != 137 {
		t.Errorf("the container before ended as %v", last)
	}
}

// TestPodIsToldWhatCannotBeProcessed is upstream's event, to the letter.
func TestPodIsToldWhatCannotBeProcessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.createPod(cluster.NewPod("web", "missing"))
	w.rest()
	testcheck.Equal(w.t, "events", []string{
		"x1 Warning FailedMount web: Unable to attach or mount volumes: unmounted volumes=[missing], unattached volumes=[], " +
			"failed to process volumes=[missing]: error processing PVC default/missing: failed to fetch PVC from API server: " +
			`persistentvolumeclaims "missing" not found`,
	}, w.events("FailedMount"))
}
