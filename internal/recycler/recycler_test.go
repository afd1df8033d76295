package recycler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// world is a stepped world with an API server and a process that recycles.
type world struct {
	*testworld.World
	process  *sim.Process
	recycler *recycler.Recycler
	refuse   map[string]error // "create": the answer to the next such request
	told     []string
}

// caller rejects the requests that a world rejects.
type caller struct {
	sim.Caller
	refuse map[string]error
}

func (c caller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return c.Caller.Call(action, func() trace.Outcome {
		if err := c.refuse[action.Verb]; err != nil {
			delete(c.refuse, action.Verb)
			return trace.Outcome{Err: err}
		}
		return effect()
	})
}

func newWorld(t *testing.T) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 10_000}), refuse: map[string]error{}}
	w.ActImmediately() // its requests are not recorded
	w.begin()
	return w
}

// begin starts the process with its cache of pods.
func (w *world) begin() {
	w.process = w.Host.Process("controller")
	pods := w.Server.Informers(w.process).Core().V1().Pods()
	pods.Informer()
	w.recycler = recycler.New(recycler.Config{
		Process: w.process, Client: w.Server.Client(caller{w.process, w.refuse}), Pods: pods,
	})
	w.Run()
}

// recycle starts to recycle the volume in a directory of its name, and returns the address of its
// result. acquire, if given, is called first.
func (w *world) recycle(volume string, acquire ...func(holder string) error) *outcome {
	out := &outcome{}
	acquire = append(acquire, nil)
	w.process.Spawn("recycle "+volume, func(ctx context.Context) {
		out.err = w.recycler.Run(ctx, recycler.Job{
			Volume: volume, Deadline: time.Minute, Acquire: acquire[0],
			Source:      corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + volume}},
			RecordEvent: func(eventType, message string) { w.told = append(w.told, eventType+" "+message) },
		})
		out.over = true
	})
	w.Run()
	return out
}

type outcome struct {
	over bool
	err  error
}

// want compares the result: "" is success, "-" no result yet.
func (w *world) want(out *outcome, want string) {
	w.Helper()
	got := "-"
	switch {
	case out.over && out.err == nil:
		got = ""
	case out.over:
		got = out.err.Error()
	}
	if got != want {
		w.Errorf("outcome is %q, want %q\n%s", got, want, w.Host.Log().Text())
	}
}

// wantPods compares the names of all pods.
func (w *world) wantPods(want ...string) {
	w.Helper()
	var got []string
	for _, obj := range w.Server.List("pods") {
		got = append(got, obj.GetName())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("pods (-want +got):\n%s", diff)
	}
}

func (w *world) pod(volume string) *corev1.Pod {
	w.Helper()
	pod, err := w.User.CoreV1().Pods("default").Get(ctx, "recycler-for-"+volume, metav1.GetOptions{})
	w.NoError(err)
	return pod
}

// end ends the pod of a volume.
func (w *world) end(volume string, phase corev1.PodPhase, message string) {
	w.Helper()
	pod := w.pod(volume)
	pod.Status.Phase, pod.Status.Message = phase, message
	_, err := w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	w.NoError(err)
	w.Run()
}

// event records an event of a pod.
func (w *world) event(name string, pod *corev1.Pod, severity, message string) {
	w.Helper()
	_, err := w.User.CoreV1().Events("default").Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "default", Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod.Name, UID: pod.UID},
		Type:           severity, Reason: "Any", Message: message, FirstTimestamp: metav1.NewTime(w.Host.Now()),
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func TestPodMatchesUpstream(t *testing.T) {
	w := newWorld(t)
	w.recycle("v")
	pod := w.pod("v")
	deadline := int64(60)
	want := corev1.PodSpec{
		ActiveDeadlineSeconds: &deadline,
		RestartPolicy:         corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: "vol", VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: "/v", Type: new(corev1.HostPathType)},
		}}},
		Containers: []corev1.Container{{
			Name: "pv-recycler", Image: "build-image/debian-base:bookworm-v1.0.6", Command: []string{"/bin/sh"},
			Args:         []string{"-c", `test -e /scrub && find /scrub -mindepth 1 -delete && test -z "$(ls -A /scrub)" || exit 1`},
			VolumeMounts: []corev1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
		}},
	}
	got := corev1.PodSpec{
		ActiveDeadlineSeconds: pod.Spec.ActiveDeadlineSeconds, RestartPolicy: pod.Spec.RestartPolicy,
		Volumes: pod.Spec.Volumes,
		Containers: []corev1.Container{{
			Name: pod.Spec.Containers[0].Name, Image: pod.Spec.Containers[0].Image, Command: pod.Spec.Containers[0].Command,
			Args: pod.Spec.Containers[0].Args, VolumeMounts: pod.Spec.Containers[0].VolumeMounts,
		}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("spec, without defaults (-want +got):\n%s", diff)
	}
	if volume, source, ok := recycler.PodVolume(pod); volume != "v" || source.HostPath == nil || !ok {
		t.Errorf("Scrubs = %q, %v, %v", volume, source, ok)
	}
	pod.Spec.Containers[0].Name = "main"
	if _, _, ok := recycler.PodVolume(pod); ok {
		t.Error("a pod with another container is taken for a recycler pod")
	}
}

func TestOutcomes(t *testing.T) {
	tests := []struct {
		name    string
		phase   corev1.PodPhase
		message string
		want    string
	}{
		{"succeeds", corev1.PodSucceeded, "", ""},
		{"fails", corev1.PodFailed, "", "failed to recycle volume: pod failed, pod.Status.Message unknown"},
		{"fails and says why", corev1.PodFailed, "too late", "failed to recycle volume: too late"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			out := w.recycle("v")
			w.want(out, "-")
			w.end("v", corev1.PodRunning, "")
			w.want(out, "-")
			w.end("v", tt.phase, tt.message)
			w.want(out, tt.want)
			w.wantPods()
		})
	}
}

func TestDeletedPodIsFailure(t *testing.T) {
	for _, seen := range []bool{true, false} {
		w := newWorld(t)
		if !seen { // it is deleted before the cache has shown it, and the cache is listed again
			over := false
			w.process.Delivery("meanwhile", func() bool { return !over && len(w.Server.List("pods")) > 0 }, func() {
				over = true
				w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "recycler-for-v", metav1.DeleteOptions{}))
				w.Server.Compact("pods")
			})
		}
		out := w.recycle("v")
		if seen {
			w.want(out, "-")
			w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "recycler-for-v", metav1.DeleteOptions{}))
			w.Run()
		}
		w.want(out, "failed to recycle volume: recycler pod was deleted")
		if text := w.Host.Log().Text(); strings.Contains(text, "deliver ADDED pods/default/recycler-for-v") != seen {
			t.Errorf("seen %v, but the log is\n%s", seen, text)
		}
	}
}

// namesake creates a foreign pod with the name of v's recycler pod.
func (w *world) namesake() {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "recycler-for-v"}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	_, err := w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	w.NoError(err)
	w.Run()
}

func TestOldPodIsDeletedAndRecyclingRetried(t *testing.T) {
	w := newWorld(t)
	w.namesake()
	w.want(w.recycle("v"), "old recycler pod found, will retry later")
	w.wantPods()

	out := w.recycle("v")
	w.wantPods("recycler-for-v")
	w.end("v", corev1.PodSucceeded, "")
	w.want(out, "")
}

func TestRequestsThatFail(t *testing.T) {
	refused := errors.New("no")
	t.Run("create", func(t *testing.T) {
		w := newWorld(t)
		w.refuse["create"] = refused
		w.want(w.recycle("v"), "unexpected error creating recycler pod:  no")
	})
	t.Run("delete", func(t *testing.T) {
		w := newWorld(t)
		out := w.recycle("v")
		w.refuse["delete"] = refused
		w.end("v", corev1.PodSucceeded, "")
		w.want(out, "failed to delete recycler pod: no")
		w.wantPods("recycler-for-v")
	})
	t.Run("delete after a failure", func(t *testing.T) {
		w := newWorld(t)
		out := w.recycle("v")
		w.refuse["delete"] = refused
		w.end("v", corev1.PodFailed, "too late")
		w.want(out, "failed to recycle volume: too late")
	})
	t.Run("delete of an old pod", func(t *testing.T) {
		w := newWorld(t)
		w.recycle("v")
		w.refuse["delete"] = refused
		w.want(w.recycle("v"), "failed to delete old recycler pod default/recycler-for-v: no")
	})
	t.Run("delete of a pod that does not exist", func(t *testing.T) {
		w := newWorld(t)
		out := w.recycle("v")
		w.refuse["delete"] = apierrors.NewNotFound(corev1.Resource("pods"), "recycler-for-v")
		w.end("v", corev1.PodSucceeded, "")
		w.want(out, "")
	})
	t.Run("list of events", func(t *testing.T) {
		w := newWorld(t)
		out := w.recycle("v")
		w.event("e", w.pod("v"), corev1.EventTypeNormal, "hello")
		w.refuse["list"] = refused
		w.end("v", corev1.PodRunning, "")
		w.end("v", corev1.PodSucceeded, "")
		w.want(out, "")
		w.wantTold("Normal hello")
	})
}

func (w *world) wantTold(want ...string) {
	w.Helper()
	if diff := cmp.Diff(want, w.told); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestPodEventsAreForwarded(t *testing.T) {
	w := newWorld(t)
	earlier := w.recycle("v")
	w.event("earlier", w.pod("v"), corev1.EventTypeNormal, "of an earlier pod")
	w.end("v", corev1.PodFailed, "")
	w.want(earlier, "failed to recycle volume: pod failed, pod.Status.Message unknown")
	w.told = nil

	w.recycle("v")
	pod := w.pod("v")
	w.event("b", pod, corev1.EventTypeNormal, "first")
	w.event("of-another", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}, corev1.EventTypeNormal,
		"not ours")
	w.end("v", corev1.PodRunning, "")
	w.wantTold("Normal first")
	w.event("d", pod, corev1.EventTypeWarning, "third")
	w.event("c", pod, corev1.EventTypeNormal, "second")
	w.end("v", corev1.PodSucceeded, "")
	w.wantTold("Normal first", "Normal second", "Warning third")
}

// Upstream's plugins write each volume into one shared pod.
func TestVolumesHaveSeparatePods(t *testing.T) {
	w := newWorld(t)
	a, b := w.recycle("a"), w.recycle("b")
	for _, volume := range []string{"a", "b"} {
		if got := w.pod(volume).Spec.Volumes[0].HostPath.Path; got != "/"+volume {
			t.Errorf("the pod of %s empties %s", volume, got)
		}
	}
	w.end("b", corev1.PodSucceeded, "")
	w.want(a, "-")
	w.want(b, "")
	w.wantPods("recycler-for-a")
}

func TestRestartedControllerHandlesOldPod(t *testing.T) {
	w := newWorld(t)
	w.recycle("v")
	first := w.pod("v").UID
	w.Host.Crash(w.process)
	w.Server.RemoveComponent(w.process)
	w.wantPods("recycler-for-v")
	w.begin()
	w.want(w.recycle("v"), "old recycler pod found, will retry later")
	out := w.recycle("v")
	if w.pod("v").UID == first {
		t.Error("the pod is still that of before")
	}
	w.end("v", corev1.PodSucceeded, "")
	w.want(out, "")
	w.wantPods()
}

// A foreign pod that replaced ours must not be deleted.
func TestReplacementPodIsNotDeleted(t *testing.T) {
	w := newWorld(t)
	out := w.recycle("v")
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "recycler-for-v", metav1.DeleteOptions{}))
	w.namesake()
	w.want(out, "failed to recycle volume: recycler pod was deleted")
	w.wantPods("recycler-for-v")
}

func TestPodWaitsForAcquire(t *testing.T) {
	gates := func(w *world) int { return len(w.pod("v").Spec.SchedulingGates) }
	t.Run("held", func(t *testing.T) {
		w := newWorld(t)
		var holder string
		out := w.recycle("v", func(name string) error {
			holder = name
			if gates(w) == 0 {
				t.Error("the pod could be scheduled before the volume was held")
			}
			return nil
		})
		if gates(w) > 0 {
			t.Error("the pod cannot be scheduled when the volume is held")
		}
		if want := "pod default/recycler-for-v (" + string(w.pod("v").UID) + ")"; holder != want {
			t.Errorf("held by %q, want %q", holder, want)
		}
		w.end("v", corev1.PodSucceeded, "")
		w.want(out, "")
	})
	t.Run("not held", func(t *testing.T) {
		w := newWorld(t)
		w.want(w.recycle("v", func(string) error { return errors.New("bound") }), "failed to recycle volume: bound")
		w.wantPods()
	})
	t.Run("acquired, but the pod does not exist", func(t *testing.T) {
		w := newWorld(t)
		w.want(w.recycle("v", func(string) error {
			return w.User.CoreV1().Pods("default").Delete(ctx, "recycler-for-v", metav1.DeleteOptions{})
		}), "failed to recycle volume: recycler pod was deleted")
	})
	t.Run("held, but the pod is another", func(t *testing.T) {
		w := newWorld(t)
		w.want(w.recycle("v", func(string) error {
			w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "recycler-for-v", metav1.DeleteOptions{}))
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "recycler-for-v"}}
			pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
			_, err := w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			return err
		}), "failed to recycle volume: recycler pod was deleted")
		w.wantPods("recycler-for-v")
	})
}

func TestDeadline(t *testing.T) {
	for size, want := range map[string]time.Duration{
		"1": 60 * time.Second, "1Gi": 60 * time.Second, "2Gi": 60 * time.Second, "2.5Gi": 60 * time.Second,
		"3Gi": 90 * time.Second, "100Gi": 3000 * time.Second,
	} {
		volume := &corev1.PersistentVolume{}
		volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		if got := recycler.Deadline(volume, time.Minute, 30*time.Second); got != want {
			t.Errorf("%s: %v, want %v", size, got, want)
		}
	}
}

func TestScrub(t *testing.T) {
	fs := nodefs.NewMemory("/")
	for _, name := range []string{"/v/a/b", "/other/mnt"} {
		if err := fs.MkdirAll(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"/v/file", "/v/a/b/file", "/other/file"} {
		if err := fs.WriteFile(name, []byte(types.UID(name))); err != nil {
			t.Fatal(err)
		}
	}
	if err := recycler.Scrub(fs, "/v"); err != nil {
		t.Error(err)
	}
	names, err := fs.ReadDir("/v")
	if err != nil || len(names) > 0 {
		t.Errorf("left: %q, %v", names, err)
	}
	if err := recycler.Scrub(fs, "/missing"); err == nil {
		t.Error("a missing directory was emptied")
	}
	if err := fs.MountTree(nodefs.NewTree(), "disk", "/other/mnt", false); err != nil {
		t.Fatal(err)
	}
	if err := recycler.Scrub(fs, "/other"); !errors.Is(err, nodefs.ErrMounted) {
		t.Errorf("with a mount in it: %v, want %v", err, nodefs.ErrMounted)
	}
}
