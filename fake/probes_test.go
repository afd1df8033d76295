package fake_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// A world is a server with claims in the namespace default.
type world struct {
	*testworld.World
	claims typedcorev1.PersistentVolumeClaimInterface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, fake.Config{})
}

// newWorldWith is newWorld with a configuration of the server.
func newWorldWith(t *testing.T, cfg fake.Config) *world {
	t.Helper()
	w := testworld.NewWith(t, sim.SteppedConfig{}, cfg)
	w.ActImmediately()
	return &world{w, w.User.CoreV1().PersistentVolumeClaims("default")}
}

func (w *world) create(name string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.claims.Create(w.Context(), newClaim(name, change...),
		metav1.CreateOptions{}))
}

func (w *world) update(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.claims.Update(w.Context(), c, metav1.UpdateOptions{}))
}

func (w *world) updateStatus(c *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.claims.UpdateStatus(w.Context(), c, metav1.UpdateOptions{}))
}

func (w *world) get(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.claims.Get(w.Context(), name, metav1.GetOptions{}))
}

// release removes a claim's finalizers.
func (w *world) release(name string) {
	w.Helper()
	w.patch(name, `{"metadata":{"finalizers":null}}`)
}

func (w *world) patch(name, patch string, sub ...string) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.claims.Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, sub...))
}

func (w *world) delete(name string) {
	w.Helper()
	w.NoError(w.claims.Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// remove deletes a claim and its finalizers.
func (w *world) remove(name string) {
	w.Helper()
	w.release(name)
	w.delete(name)
}

func label(key, value string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { metav1.SetMetaDataLabel(&c.ObjectMeta, key, value) }
}

// watched reads n events of a watch and stops it.
func (w *world) watched(opts metav1.ListOptions, n int) []string {
	w.Helper()
	stream := testcheck.Must(w.claims.Watch(w.Context(), opts))
	defer stream.Stop()
	var got []string
	for range n {
		got = append(got, describe(<-stream.ResultChan()))
	}
	return got
}

func describe(e watch.Event) string {
	switch o := e.Object.(type) {
	case *metav1.Status:
		return fmt.Sprintf("%s %d %s %s", e.Type, o.Code, o.Reason, o.Message)
	case fake.Object:
		if e.Type == watch.Bookmark {
			return fmt.Sprintf("%s %v", e.Type, o.GetAnnotations())
		}
		return fmt.Sprintf("%s %s n=%s", e.Type, o.GetName(), o.GetLabels()["n"])
	default:
		return fmt.Sprintf("%s %v", e.Type, e.Object)
	}
}

func expect[T any](t testing.TB, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func expectError(t testing.TB, err error, is func(error) bool, text string) {
	t.Helper()
	if err == nil || !is(err) || !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v; want one that says %q", err, text)
	}
}

// The probes cover what other fakes do differently from the real server.
func TestProbes(t *testing.T) {
	probes := []struct {
		name string
		run  func(t *testing.T, w *world)
	}{
		{"an object has a resourceVersion, a UID and a creation timestamp", func(t *testing.T, w *world) {
			c := w.create("a")
			if c.ResourceVersion == "" || c.UID == "" || c.CreationTimestamp.IsZero() {
				t.Errorf("got %+v", c.ObjectMeta)
			}
		}},
		{"generateName sets a name", func(t *testing.T, w *world) {
			c := w.create("", func(c *corev1.PersistentVolumeClaim) { c.GenerateName = "x-" })
			if len(c.Name) != len("x-")+5 || !strings.HasPrefix(c.Name, "x-") {
				t.Errorf("got name %q", c.Name)
			}
		}},
		{"a resourceVersion on create is refused", func(t *testing.T, w *world) {
			_, err := w.claims.Create(w.Context(), newClaim("a", func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "7" }),
				metav1.CreateOptions{})
			expectError(t, err, func(err error) bool { return !apierrors.IsConflict(err) },
				"resourceVersion should not be set on objects to be created")
		}},
		{"a second create is AlreadyExists", func(t *testing.T, w *world) {
			w.create("a")
			_, err := w.claims.Create(w.Context(), newClaim("a"), metav1.CreateOptions{})
			expectError(t, err, apierrors.IsAlreadyExists, `persistentvolumeclaims "a" already exists`)
		}},
		{"a stale update is a Conflict", func(t *testing.T, w *world) {
			c := w.create("a")
			w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expectError(t, err, apierrors.IsConflict, `Operation cannot be fulfilled on persistentvolumeclaims "a": `+
				"the object has been modified; please apply your changes to the latest version and try again")
		}},
		{"a stale merge patch is a Conflict", func(t *testing.T, w *world) {
			c := w.create("a")
			w.patch("a", `{"metadata":{"labels":{"n":"1"}}}`)
			_, err := w.claims.Patch(w.Context(), "a", types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q,"labels":{"n":"2"}}}`,
					c.ResourceVersion), metav1.PatchOptions{})
			expectError(t, err, apierrors.IsConflict, "the object has been modified")
		}},
		{"an update without resourceVersion goes through", func(t *testing.T, w *world) {
			c := w.create("a")
			c.ResourceVersion = ""
			c.Labels["n"] = "1"
			expect(t, w.update(c).Labels["n"], "1")
		}},
		{"an update keeps the stored status", func(t *testing.T, w *world) {
			c := w.create("a")
			c.Status.Phase, c.Labels["n"] = corev1.ClaimBound, "1"
			expect(t, w.update(c).Status.Phase, corev1.ClaimPending)
		}},
		{"an update of the status keeps the stored spec", func(t *testing.T, w *world) {
			c := w.create("a")
			c.Status.Phase, c.Spec.VolumeName = corev1.ClaimBound, "v"
			c = w.updateStatus(c)
			expect(t, []string{string(c.Status.Phase), c.Spec.VolumeName}, []string{"Bound", ""})
		}},
		{"an update of the status updates the metadata", func(t *testing.T, w *world) {
			c := w.create("a")
			c.Labels["n"], c.Finalizers = "1", append(c.Finalizers, "example.com/f")
			c = w.updateStatus(c)
			expect(t, append(c.Finalizers, c.Labels["n"]),
				[]string{"kubernetes.io/pvc-protection", "example.com/f", "1"})
		}},
		{"status on create is reset", func(t *testing.T, w *world) {
			c := w.create("a", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
			expect(t, c.Status.Phase, corev1.ClaimPending)
		}},
		{"delete with finalizers only marks", func(t *testing.T, w *world) {
			w.create("a")
			w.delete("a")
			c := w.get("a")
			if c.DeletionTimestamp == nil || c.DeletionGracePeriodSeconds == nil || *c.DeletionGracePeriodSeconds != 0 {
				t.Errorf("got %+v", c.ObjectMeta)
			}
			w.delete("a")
			expect(t, w.get("a").ResourceVersion, c.ResourceVersion)
		}},
		{"removing the last finalizer removes the object", func(t *testing.T, w *world) {
			w.create("a")
			w.delete("a")
			w.release("a")
			_, err := w.claims.Get(w.Context(), "a", metav1.GetOptions{})
			expectError(t, err, apierrors.IsNotFound, `persistentvolumeclaims "a" not found`)
		}},
		{"a finalizer added while deleting is refused", func(t *testing.T, w *world) {
			w.create("a")
			w.delete("a")
			c := w.get("a")
			c.Finalizers = append(c.Finalizers, "example.com/f")
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expectError(t, err, apierrors.IsInvalid, "no new finalizers can be added if the object is being deleted")
		}},
		{"delete preconditions are checked", func(t *testing.T, w *world) {
			c := w.create("a")
			err := w.claims.Delete(w.Context(), "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}})
			expectError(t, err, apierrors.IsConflict,
				`on PersistentVolumeClaim "a": the UID in the precondition (other) does not match the UID in record (`+string(c.UID)+
					"). The object might have been deleted and then recreated")
			err = w.claims.Delete(w.Context(), "a",
				metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: ptr.To("1")}})
			expectError(t, err, apierrors.IsConflict, "the ResourceVersion in the precondition (1) does not match the "+
				"ResourceVersion in record ("+c.ResourceVersion+"). The object might have been modified")
		}},
		{"an update with a foreign UID is a Conflict", func(t *testing.T, w *world) {
			c := w.create("a")
			c.UID = "other"
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expectError(t, err, apierrors.IsConflict, "Precondition failed: UID in precondition: other")
		}},
		{"a recreated object has a fresh UID", func(t *testing.T, w *world) {
			first := w.create("a")
			w.remove("a")
			if again := w.create("a"); again.UID == first.UID {
				t.Errorf("got the same UID %s", again.UID)
			}
		}},
		{"an update of a missing object is NotFound", func(t *testing.T, w *world) {
			_, err := w.claims.Update(w.Context(), newClaim("a"), metav1.UpdateOptions{})
			expectError(t, err, apierrors.IsNotFound, "not found")
		}},
		{"a list carries a resourceVersion", func(t *testing.T, w *world) {
			c := w.create("a")
			list := testcheck.Must(w.claims.List(w.Context(), metav1.ListOptions{}))
			expect(t, list.ResourceVersion, c.ResourceVersion)
		}},
		{"a list honours a label selector", func(t *testing.T, w *world) {
			w.create("a", label("n", "1"))
			w.create("b", label("n", "2"))
			list := testcheck.Must(w.claims.List(w.Context(),
				metav1.ListOptions{LabelSelector: "n=2"}))
			expect(t, names(list.Items), []string{"b"})
		}},
		{"a list honours a field selector", func(t *testing.T, w *world) {
			w.create("a")
			w.create("b")
			list := testcheck.Must(w.claims.List(w.Context(),
				metav1.ListOptions{FieldSelector: "metadata.name=b"}))
			expect(t, names(list.Items), []string{"b"})
		}},
		{"limit and continue", func(t *testing.T, w *world) {
			w.create("a")
			w.create("b")
			list := testcheck.Must(w.claims.List(w.Context(), metav1.ListOptions{Limit: 1}))
			expect(t, names(list.Items), []string{"a"})
			list = testcheck.Must(w.claims.List(w.Context(), metav1.ListOptions{
				Limit:    1,
				Continue: list.Continue,
			}))
			expect(t, names(list.Items), []string{"b"})
		}},
		{"a watch from a list's revision replays creates, updates and deletes, every version", func(t *testing.T, w *world) {
			from := w.create("a").ResourceVersion
			for i := range 3 {
				w.patch("a", fmt.Sprintf(`{"metadata":{"labels":{"n":"%d"}}}`, i))
			}
			w.create("b")
			w.remove("a")
			expect(t, w.watched(metav1.ListOptions{ResourceVersion: from}, 6), []string{
				"MODIFIED a n=0", "MODIFIED a n=1", "MODIFIED a n=2", "ADDED b n=", "MODIFIED a n=2", "DELETED a n=2",
			})
		}},
		{"a watch honours a label selector", func(t *testing.T, w *world) {
			from := w.create("a").ResourceVersion
			w.create("b", label("n", "1"))
			expect(t, w.watched(metav1.ListOptions{ResourceVersion: from, LabelSelector: "n=1"}, 1),
				[]string{"ADDED b n=1"})
		}},
		{"a watch sends the initial events and a bookmark", func(t *testing.T, w *world) {
			w.create("a")
			got := w.watched(metav1.ListOptions{
				SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true,
				ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
			}, 2)
			expect(t, got, []string{"ADDED a n=", "BOOKMARK map[k8s.io/initial-events-end:true]"})
		}},
		{"a watch from before compaction is 410", func(t *testing.T, w *world) {
			w.create("a")
			w.create("b")
			w.Server.Compact("persistentvolumeclaims")
			expect(t, w.watched(metav1.ListOptions{ResourceVersion: "2"}, 1),
				[]string{"ERROR 410 Expired too old resource version: 2 (6)"})
		}},
		{"a watcher that is not drained stops nobody", func(t *testing.T, w *world) {
			stream := testcheck.Must(w.claims.Watch(w.Context(), metav1.ListOptions{}))
			defer stream.Stop()
			for i := range 300 {
				w.create(fmt.Sprint("c", i))
			}
		}},
		{"defaults", func(t *testing.T, w *world) {
			expect(t, *w.create("a").Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
		}},
		{"validation", func(t *testing.T, w *world) {
			_, err := w.claims.Create(w.Context(), newClaim("a", func(c *corev1.PersistentVolumeClaim) { c.Spec.AccessModes = nil }),
				metav1.CreateOptions{})
			expectError(t, err, apierrors.IsInvalid,
				"spec.accessModes: Required value: at least 1 access mode is required")
		}},
		{"immutability", func(t *testing.T, w *world) {
			c := w.create("a")
			c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expectError(t, err, apierrors.IsInvalid, "spec: Forbidden: spec is immutable after creation except")
		}},
		{"an update that changes nothing keeps the resourceVersion", func(t *testing.T, w *world) {
			c := w.create("a")
			expect(t, w.update(c).ResourceVersion, c.ResourceVersion)
			expect(t, w.updateStatus(c).ResourceVersion, c.ResourceVersion)
			expect(t, w.patch("a", `{"metadata":{"labels":{"app":"db"}}}`).ResourceVersion, c.ResourceVersion)
		}},
		{"a client-set generation is kept on create", func(t *testing.T, w *world) {
			expect(t, w.create("a", func(c *corev1.PersistentVolumeClaim) { c.Generation = 7 }).Generation, 7)
		}},
		{"dry run commits nothing", func(t *testing.T, w *world) {
			before := w.Server.Revision()
			c := testcheck.Must(w.claims.Create(w.Context(), newClaim("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))
			expect(t, *c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			expect(t, w.Server.Revision(), before)
		}},
	}
	for _, p := range probes {
		t.Run(p.name, func(t *testing.T) { p.run(t, newWorld(t)) })
	}
}

func names(items []corev1.PersistentVolumeClaim) []string {
	var out []string
	for _, c := range items {
		out = append(out, c.Name)
	}
	return out
}
