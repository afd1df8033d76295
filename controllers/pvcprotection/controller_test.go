package pvcprotection_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

type world struct {
	*testworld.World
	conflicts int // how many of the controller's next updates conflict
	refusals  int // how many of the controller's next lists of pods fail
}

// beforeCall changes a claim just before the process's update of it takes effect, so the update
// conflicts.
type beforeCall struct {
	sim.Caller
	w *world
}

func (m beforeCall) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return m.Caller.Call(action, func() trace.Outcome {
		if action.Verb == "update" && m.w.conflicts > 0 {
			m.w.conflicts--
			name := strings.TrimPrefix(action.Object, "persistentvolumeclaims/default/")
			patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, m.w.conflicts)
			testcheck.Must(m.w.User.CoreV1().PersistentVolumeClaims("default").
				Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}))
		}
		return effect()
	})
}

// refusing is a client whose lists of pods fail sometimes.
type (
	refusing struct {
		kubernetes.Interface
		w *world
	}
	refusingCore struct {
		typedcorev1.CoreV1Interface
		w *world
	}
	refusingPods struct {
		typedcorev1.PodInterface
		w *world
	}
)

func (c refusing) CoreV1() typedcorev1.CoreV1Interface {
	return refusingCore{c.Interface.CoreV1(), c.w}
}

func (c refusingCore) Pods(namespace string) typedcorev1.PodInterface {
	return refusingPods{c.CoreV1Interface.Pods(namespace), c.w}
}

func (c refusingPods) List(ctx context.Context, opts metav1.ListOptions) (*corev1.PodList, error) {
	pods, err := c.PodInterface.List(ctx, opts)
	if c.w.refusals > 0 {
		c.w.refusals--
		return nil, errors.New("out of order")
	}
	return pods, err
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser})}
	w.User = w.Server.Client(testworld.ImmediateCaller(w.Host.Now)) // beforeCall acts within requests
	process := w.Host.Process("pvcprotection")
	pvcprotection.New(pvcprotection.Config{
		Process:   process,
		Client:    refusing{w.Server.Client(beforeCall{process, w}), w},
		Informers: w.Server.Informers(process),
	})
	return w
}

func newClaim(name string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return claim
}

func newPod(name, node string, volumes ...corev1.VolumeSource) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.NodeName = node
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	for i, source := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("data", i), VolumeSource: source})
	}
	return pod
}

func using(claim string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
}

var (
	scratch   = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	ephemeral = corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: newClaim("").Spec},
	}}
)

func (w *world) claim(claim *corev1.PersistentVolumeClaim) {
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{}))
}

func (w *world) deleteClaim(name string) {
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}))
}

func (w *world) pod(pod *corev1.Pod) *corev1.Pod {
	return testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
}

// deletePod deletes a pod without a grace period.
func (w *world) deletePod(name string) {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}
	w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, name, now))
}

func (w *world) podStatus(name string, phase corev1.PodPhase) {
	pod := testcheck.Must(w.User.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}))
	pod.Status.Phase = phase
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

// claims returns the names of the existing claims.
func (w *world) claims() string {
	var names []string
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		names = append(names, obj.GetName())
	}
	return strings.Join(names, " ")
}

func (w *world) want(claims, when string) {
	w.Helper()
	w.Run()
	if got := w.claims(); got != claims {
		w.Errorf("%s: claims %q, want %q\n%s", when, got, claims, w.Host.Log().Text())
	}
}

func (w *world) requests(verb string) int {
	return len(slices.DeleteFunc(w.Host.Log().Records(), func(r trace.Record) bool {
		return r.Kind != trace.KindAPI || r.Verb != verb
	}))
}

// TestUse has the cases of upstream's TestPVCProtectionController about the use of a claim that is
// being deleted.
func TestUse(t *testing.T) {
	tests := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"no pod", nil, ""},
		{"a pod uses it", newPod("p", "node-1", using("c")), "c"},
		{"a pod uses it and others", newPod("p", "node-1", scratch, using("d"), using("c")), "c"},
		{"a pod uses another and scratch", newPod("p", "node-1", using("d"), scratch), ""},
		{"a pod that uses it is not scheduled", newPod("p", "", using("c")), ""},
		{"a pod's ephemeral claim would have the name, but is not this one", newPod("c", "node-1", ephemeral), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.claim(newClaim("c"))
			if tt.pod != nil {
				w.pod(tt.pod)
			}
			w.deleteClaim("c")
			w.want(tt.want, "claim deleted")
			if tt.want == "" {
				return
			}
			if got := w.requests("list"); got != 0 {
				t.Errorf("the server was asked %d times for what the cache knew", got)
			}
			w.podStatus("p", corev1.PodSucceeded)
			w.want("c", "pod completed")
			w.deletePod("p")
			w.want("", "pod deleted")
		})
	}
}

func TestFinalizerIsAdded(t *testing.T) {
	w := newWorld(t, nil)
	w.conflicts = 2
	w.claim(newClaim("c"))
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	claim := testcheck.Must(claims.Get(ctx, "c", metav1.GetOptions{}))
	claim.Finalizers = nil
	testcheck.Must(claims.Update(ctx, claim, metav1.UpdateOptions{}))
	w.Run()
	obj, _ := w.Server.Get("persistentvolumeclaims", "default", "c")
	if got := obj.GetFinalizers(); !slices.Equal(got, []string{pvcprotection.Finalizer}) {
		t.Errorf("finalizers: got %v", got)
	}
	if got := w.requests("update"); got != 3 {
		t.Errorf("got %d updates, want 3", got)
	}
}

func TestFailuresAreRetried(t *testing.T) {
	tests := []struct {
		verb     string
		failures func(w *world) *int
	}{
		{"update", func(w *world) *int { return &w.conflicts }},
		{"list", func(w *world) *int { return &w.refusals }},
	}
	for _, tt := range tests {
		t.Run(tt.verb, func(t *testing.T) {
			w := newWorld(t, nil)
			*tt.failures(w) = 2
			w.claim(newClaim("c"))
			w.claim(newClaim("d"))
			w.deleteClaim("c")
			w.deleteClaim("d")
			w.want("", "both deleted")
			if got := w.requests(tt.verb); got != 4 {
				t.Errorf("got %d requests, want 4\n%s", got, w.Host.Log().Text())
			}
		})
	}
}

// The pod that owns an ephemeral volume keeps its claim until the pod is shut down, which is before
// it is gone.
func TestEphemeral(t *testing.T) {
	w := newWorld(t, nil)
	pod := newPod("p", "node-1", ephemeral)
	pod.Finalizers = []string{"example.com/wait"}
	pod = w.pod(pod)
	claim := newClaim("p-data0")
	claim.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod")),
	}
	w.claim(claim)
	w.deleteClaim("p-data0")
	w.want("p-data0", "claim deleted")
	w.deletePod("p")
	w.want("", "pod shut down")
}

// A pod that was deleted and recreated is observed as one update: the claim of the first pod is
// synced.
func TestRecreatedPod(t *testing.T) {
	w := newWorld(t, nil)
	w.claim(newClaim("c"))
	w.claim(newClaim("d"))
	w.pod(newPod("p", "node-1", using("c")))
	w.deleteClaim("c")
	w.want("c d", "pod uses it")
	w.deletePod("p")
	w.pod(newPod("p", "node-1", using("d")))
	w.want("d", "pod uses another")
}

// A claim that was used before its deletion exists as long as the pod, for any cache lag.
func TestScheduledPodKeepsClaim(t *testing.T) {
	asked := 0
	for seed := range uint64(200) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.claim(newClaim("c"))
		w.pod(newPod("p", "", using("c")))
		users := w.Host.Process("users")
		client := w.Server.Client(users)
		users.User("", func(ctx context.Context) {
			pods := client.CoreV1().Pods("default")
			testcheck.Must("", pods.Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"},
			}, metav1.CreateOptions{}))
			testcheck.Must("", client.CoreV1().PersistentVolumeClaims("default").Delete(ctx, "c", metav1.DeleteOptions{}))
		})
		w.want("c", fmt.Sprint("seed ", seed))
		asked += w.requests("list")
		w.deletePod("p")
		w.want("", fmt.Sprint("seed ", seed, ", pod deleted"))
		if t.Failed() {
			return
		}
	}
	if asked == 0 {
		t.Error("no schedule had the cache behind")
	}
}

// A pod that is not in the cache is deleted while the watch is broken. The claim is released
// although no event reports it.
func TestClaimIsReleasedByAPodThatWasNeverSeen(t *testing.T) {
	w := newWorld(t, sim.FIFO{})
	w.claim(newClaim("data"))
	w.Run()
	w.pod(newPod("web", "node-1", using("data")))
	w.deleteClaim("data")
	for _, actor := range []string{"cache persistentvolumeclaims", "pvcprotection", "pvcprotection"} {
		if err := w.Host.StepTask("pvcprotection/" + actor); err != nil {
			t.Fatal(err)
		}
	}
	if w.requests("list") != 1 {
		t.Fatalf("%d lists, want 1:\n%s", w.requests("list"), w.Host.Log().Text())
	}
	w.deletePod("web")
	w.Server.Compact("pods")
	w.Run()
	w.want("", "its pod is gone")
}
