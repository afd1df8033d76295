package ephemeral_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/ephemeral"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// world is a server with an ephemeral volume controller.
type world struct{ *testworld.World }

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 5000})
	process := w.Host.Process("ephemeral")
	var seen informers.SharedInformerFactory
	seen = w.Server.Informers(process,
		fake.Filter{Resource: "pods", Match: func(old, obj fake.Object) bool {
			return old == nil && obj != nil && ephemeral.HasVolumes(obj.(*corev1.Pod))
		}},
		fake.Filter{Resource: "persistentvolumeclaims", Match: func(old, obj fake.Object) bool {
			return obj == nil && ephemeral.Wants(seen, old.(*corev1.PersistentVolumeClaim))
		}})
	client := w.Server.Client(process)
	ephemeral.New(ephemeral.Config{
		Process: process, Client: client, Informers: seen,
		Recorder: events.New(events.Config{Process: process, Client: client, Source: ephemeral.EventSource}),
	})
	return &world{w}
}

var ctx = context.Background()

// pod returns a pod with a generic ephemeral volume of each name.
func pod(volumes ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image"}}},
	}
	for _, name := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"volume": name}, Annotations: map[string]string{"a": "b"}},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					StorageClassName: ptr.To("fast"),
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}},
		}})
	}
	return pod
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       pod("x").Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec,
	}
}

// claims returns the claims with their controllers.
func (w *world) claims() string {
	var all []string
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		name := obj.GetName()
		if owner := metav1.GetControllerOf(obj); owner != nil {
			name += " of " + owner.Name
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// messages returns the messages of the events.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		all = append(all, e.Type+" "+e.Reason+" "+e.Message)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TestClaims has the cases of upstream's TestSyncHandler, by name, and more.
func TestClaims(t *testing.T) {
	other := pod("v1")
	other.Name, other.UID = "other", "uid-other"
	owned := claim("web-v1")
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Pod", Name: "other", UID: "uid-other", Controller: ptr.To(true),
	}}
	conflict := func(volume string) []string {
		return []string{"Warning FailedBinding ephemeral volume " + volume +
			": PVC default/web-" + volume + " was not created for pod default/web (pod is not owner)"}
	}
	create := func(w *world, p *corev1.Pod) {
		testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, p, metav1.CreateOptions{}))
	}
	remove := func(w *world, name string) {
		w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}))
	}
	deleted := pod("v1")
	deleted.Finalizers = []string{"example.com/hold"}
	for _, tt := range []struct {
		name   string
		before []fake.Object
		act    func(w *world)
		after  func(w *world) // once the world is at rest
		want   string
		events []string
	}{
		{name: "create", act: func(w *world) { create(w, pod("v1")) }, want: "web-v1 of web"},
		{name: "no-such-pod", act: func(*world) {}},
		{name: "pod-deleted", act: func(w *world) {
			create(w, deleted)
			w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
		}},
		{name: "no-volumes", act: func(w *world) { create(w, pod()) }},
		{
			name: "create-with-other-PVC", before: []fake.Object{claim("other")}, act: func(w *world) { create(w, pod("v1")) },
			want: "other, web-v1 of web",
		},
		{
			name: "wrong-PVC-owner", before: []fake.Object{other, owned}, act: func(w *world) { create(w, pod("v1")) },
			want: "other-v1 of other, web-v1 of other", events: conflict("v1"),
		},
		{
			name: "a claim without an owner", before: []fake.Object{claim("web-v2")},
			act: func(w *world) { create(w, pod("v1", "v2", "v3")) }, want: "web-v1 of web, web-v2", events: conflict("v2"),
		},
		{
			name: "the claim in the way is deleted", before: []fake.Object{claim("web-v1")},
			act: func(w *world) { create(w, pod("v1")) }, after: func(w *world) { remove(w, "web-v1") },
			want: "web-v1 of web", events: conflict("v1"),
		},
		{
			name: "the pod's claim is deleted", act: func(w *world) { create(w, pod("v1", "v2")) },
			after: func(w *world) { remove(w, "web-v1") }, want: "web-v1 of web, web-v2 of web",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(10) {
				w := newWorld(t, sim.NewSeeded(seed))
				for _, obj := range tt.before {
					w.NoError(w.Server.Add(obj))
				}
				tt.act(w)
				w.Run()
				if tt.after != nil {
					tt.after(w)
					w.Run()
				}
				if diff := cmp.Diff(tt.want, w.claims()); diff != "" {
					t.Fatalf("seed %d: claims (-want +got):\n%s\n%s", seed, diff, w.Host.Log().Text())
				}
				if diff := cmp.Diff(tt.events, w.messages()); diff != "" {
					t.Fatalf("seed %d: events (-want +got):\n%s", seed, diff)
				}
			}
		})
	}
}

// TestClaimIsThatOfTheTemplate compares a claim with the template of its volume.
func TestClaimIsThatOfTheTemplate(t *testing.T) {
	w := newWorld(t, nil)
	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod("v1"), metav1.CreateOptions{}))
	w.Run()
	got := testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Get(ctx, "web-v1", metav1.GetOptions{}))
	if got.Labels["volume"] != "v1" || got.Annotations["a"] != "b" || *got.Spec.StorageClassName != "fast" {
		t.Errorf("claim %+v", got)
	}
	owner := got.OwnerReferences[0]
	if owner.BlockOwnerDeletion == nil || !*owner.BlockOwnerDeletion || owner.Kind != "Pod" || owner.APIVersion != "v1" {
		t.Errorf("owner %+v", owner)
	}
}

// Other pods and claims make no steps.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, nil)
	testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod(), metav1.CreateOptions{}))
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim("data"), metav1.CreateOptions{}))
	w.Run()
	if got := w.Host.Steps(); got != 0 {
		t.Errorf("%d steps\n%s", got, w.Host.Log().Text())
	}
}
