package reactors_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	fakediscovery "k8s.io/client-go/discovery/fake"
	fakecorev1 "k8s.io/client-go/kubernetes/typed/core/v1/fake"
	clientgo "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/reactors"
	"github.com/volsim/volsim/internal/testcheck"
)

// A migration runs one row of docs/migrating.md: it fails as the row says, and applies the fix. It
// returns the text of the failure, or "" if there is none.
type migration func(t *testing.T) (failure string)

var (
	createOptions = metav1.CreateOptions{}
	updateOptions = metav1.UpdateOptions{}
	getOptions    = metav1.GetOptions{}
	listOptions   = metav1.ListOptions{}
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

// codeOf returns an error as the page writes it.
func codeOf(err error) string {
	if status, ok := err.(apierrors.APIStatus); ok {
		return fmt.Sprintf("%d `%s`", status.Status().Code, err)
	}
	return fmt.Sprint(err)
}

// expect fails unless the condition holds.
func expect(t *testing.T, condition bool, what string) {
	t.Helper()
	if !condition {
		t.Errorf("not so: %s", what)
	}
}

// newPanic returns the panic of NewClientset.
func newPanic(objects ...runtime.Object) string {
	return "`panic: " + panicOf(func() { reactors.NewClientset(objects...) }) + "`"
}

// migrations are the rows by their first cell.
var migrations = map[string]migration{
	"`panic: … namespace required`": func(t *testing.T) string {
		p := pod("p")
		reactors.NewClientset(p.DeepCopy())
		p.Namespace = ""
		return newPanic(p)
	},
	"`panic: … already exists`": func(t *testing.T) string {
		reactors.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		return newPanic(node("n"), node("n"))
	},
	"`panic: … kind not served`": func(t *testing.T) string {
		return newPanic(&networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "i"}})
	},
	"the object read differs from the one given": func(t *testing.T) string {
		got := testcheck.Must(reactors.NewClientset(pod("p")).CoreV1().Pods("default").Get(t.Context(), "p", getOptions))
		expect(t, got.UID != "" && got.ResourceVersion != "" && !got.CreationTimestamp.IsZero(), "it has metadata")
		expect(t, got.Spec.RestartPolicy == corev1.RestartPolicyAlways, "it has defaults")
		return ""
	},
	"unexpected namespaces exist": func(t *testing.T) string {
		p := pod("p")
		p.Namespace = "mine"
		list := testcheck.Must(reactors.NewClientset(p).CoreV1().Namespaces().List(t.Context(), listOptions))
		var names []string
		for _, ns := range list.Items {
			names = append(names, ns.Name)
		}
		want := []string{"default", "kube-node-lease", "kube-public", "kube-system", "mine"}
		expect(t, slices.Equal(names, want), fmt.Sprintf("%v is %v", names, want))
		return ""
	},

	"500 `resourceVersion should not be set on objects to be created`": func(t *testing.T) string {
		maps := reactors.NewClientset(configMap("a")).CoreV1().ConfigMaps("default")
		again := testcheck.Must(maps.Get(t.Context(), "a", getOptions))
		again.Name = "b"
		_, err := maps.Create(t.Context(), again, createOptions)
		again.ResourceVersion = ""
		testcheck.Must(maps.Create(t.Context(), again, createOptions))
		return codeOf(err)
	},
	"404 `namespaces \"x\" not found`": func(t *testing.T) string {
		c, m := reactors.NewClientset(), configMap("a")
		m.Namespace = "x"
		_, err := c.CoreV1().ConfigMaps("x").Create(t.Context(), m, createOptions)
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		testcheck.Must(c.CoreV1().Namespaces().Create(t.Context(), ns, createOptions))
		testcheck.Must(c.CoreV1().ConfigMaps("x").Create(t.Context(), m, createOptions))
		return codeOf(err)
	},
	"422 `… is invalid: …`": func(t *testing.T) string {
		pods, p := reactors.NewClientset().CoreV1().Pods("default"), pod("p")
		p.Spec.Containers[0].Image = ""
		_, err := pods.Create(t.Context(), p, createOptions)
		testcheck.Must(pods.Create(t.Context(), pod("p"), createOptions))
		return codeOf(err)
	},
	"status is empty": func(t *testing.T) string {
		pods, p := reactors.NewClientset().CoreV1().Pods("default"), pod("p")
		p.Status.Message = "m"
		got := testcheck.Must(pods.Create(t.Context(), p, createOptions))
		expect(t, got.Status.Message == "", "the status is dropped")
		got.Status.Message = "m"
		got = testcheck.Must(pods.UpdateStatus(t.Context(), got, updateOptions))
		expect(t, got.Status.Message == "m", "UpdateStatus sets it")
		return ""
	},
	"fields are set that the test did not set": func(t *testing.T) string {
		claims := reactors.NewClientset(class(true)).CoreV1().PersistentVolumeClaims("default")
		got := testcheck.Must(claims.Create(t.Context(), claim(), createOptions))
		expect(t, slices.Equal(got.Finalizers, []string{"kubernetes.io/pvc-protection"}), "the claim has the finalizer")
		expect(t, ptr.Deref(got.Spec.StorageClassName, "") == "fast", "the claim has the default class")
		return ""
	},
	"UID and creationTimestamp are not the given ones": func(t *testing.T) string {
		m, past := configMap("a"), metav1.NewTime(time.Unix(1, 0))
		m.UID, m.CreationTimestamp = "given", past
		maps := reactors.NewClientset().CoreV1().ConfigMaps("default")
		created := testcheck.Must(maps.Create(t.Context(), m, createOptions))
		expect(t, created.UID != "given" && !created.CreationTimestamp.Equal(&past), "the server assigns them")
		maps = reactors.NewClientset(m).CoreV1().ConfigMaps("default")
		initial := testcheck.Must(maps.Get(t.Context(), "a", getOptions))
		expect(t, initial.UID == "given" && initial.CreationTimestamp.Equal(&past), "an initial object keeps them")
		return ""
	},
	"a name appeared": func(t *testing.T) string {
		m := configMap("")
		m.GenerateName = "a-"
		got := testcheck.Must(reactors.NewClientset().CoreV1().ConfigMaps("default").Create(t.Context(), m, createOptions))
		expect(t, strings.HasPrefix(got.Name, "a-") && got.Name != "a-", "the answer has the name")
		return ""
	},

	"409 `… the object has been modified; …`": func(t *testing.T) string {
		maps := reactors.NewClientset(configMap("a")).CoreV1().ConfigMaps("default")
		old := testcheck.Must(maps.Get(t.Context(), "a", getOptions))
		newer := old.DeepCopy()
		newer.Data = map[string]string{"k": "1"}
		newer = testcheck.Must(maps.Update(t.Context(), newer, updateOptions))
		old.Data = map[string]string{"k": "2"}
		_, err := maps.Update(t.Context(), old, updateOptions)
		newer.Data["k"] = "2"
		testcheck.Must(maps.Update(t.Context(), newer, updateOptions))
		return codeOf(err)
	},
	"422 `… metadata.resourceVersion: … must be specified for an update`": func(t *testing.T) string {
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "default"}}
		leases := reactors.NewClientset(lease).CoordinationV1().Leases("default")
		_, err := leases.Update(t.Context(), lease, updateOptions)
		read := testcheck.Must(leases.Get(t.Context(), "l", getOptions))
		testcheck.Must(leases.Update(t.Context(), read, updateOptions))
		return codeOf(err)
	},
	"status did not change": func(t *testing.T) string {
		pods, p := reactors.NewClientset(pod("p")).CoreV1().Pods("default"), pod("p")
		p.Status.Message = "m"
		expect(t, testcheck.Must(pods.Update(t.Context(), p, updateOptions)).Status.Message == "", "Update ignores it")
		expect(t, testcheck.Must(pods.UpdateStatus(t.Context(), p, updateOptions)).Status.Message == "m", "UpdateStatus")
		return ""
	},
	"spec did not change": func(t *testing.T) string {
		nodes, n := reactors.NewClientset(node("n")).CoreV1().Nodes(), node("n")
		n.Spec.Unschedulable = true
		got := testcheck.Must(nodes.UpdateStatus(t.Context(), n, updateOptions))
		expect(t, !got.Spec.Unschedulable, "UpdateStatus ignores it")
		expect(t, testcheck.Must(nodes.Update(t.Context(), n, updateOptions)).Spec.Unschedulable, "Update changes it")
		return ""
	},
	"403 or 422 `… immutable …`": func(t *testing.T) string {
		c := reactors.NewClientset(class(false), claim())
		changed := class(false)
		changed.Provisioner = "other.example.com"
		_, err := c.StorageV1().StorageClasses().Update(t.Context(), changed, updateOptions)
		expect(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "403 or 422 of a class")
		other := claim()
		other.Spec.VolumeName = "v"
		other.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		_, err = c.CoreV1().PersistentVolumeClaims("default").Update(t.Context(), other, updateOptions)
		expect(t, apierrors.IsInvalid(err) || apierrors.IsForbidden(err), "403 or 422 of a claim")
		return "403 or " + codeOf(err)
	},
	"resourceVersion is the same after an update": func(t *testing.T) string {
		maps := reactors.NewClientset(configMap("a")).CoreV1().ConfigMaps("default")
		before := testcheck.Must(maps.Get(t.Context(), "a", getOptions))
		after := testcheck.Must(maps.Update(t.Context(), before, updateOptions))
		expect(t, before.ResourceVersion == after.ResourceVersion, "nothing was written")
		return ""
	},
	"404 on an update": func(t *testing.T) string {
		c := reactors.NewClientset()
		_, err := c.CoreV1().ConfigMaps("default").Update(t.Context(), configMap("a"), updateOptions)
		expect(t, apierrors.IsNotFound(err), "404")
		return ""
	},
	"a patch fails that worked before": func(t *testing.T) string {
		pods := reactors.NewClientset(pod("p")).CoreV1().Pods("default")
		patch := func(kind types.PatchType, data string) error {
			_, err := pods.Patch(t.Context(), "p", kind, []byte(data), metav1.PatchOptions{})
			return err
		}
		expect(t, patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/name","value":"q"}]`) != nil, "a test fails")
		stale := `{"metadata":{"resourceVersion":"1","labels":{"a":"b"}}}`
		expect(t, apierrors.IsConflict(patch(types.MergePatchType, stale)), "a resourceVersion is a precondition")
		merge := `{"spec":{"containers":[{"name":"c","image":"j"}]}}`
		testcheck.NoError(t, patch(types.StrategicMergePatchType, merge))
		got := testcheck.Must(pods.Get(t.Context(), "p", getOptions))
		expect(t, len(got.Spec.Containers) == 1 && got.Spec.Containers[0].Image == "j", "merged by name")
		return ""
	},
	"`Apply` conflicts": func(t *testing.T) string {
		maps := reactors.NewClientset().CoreV1().ConfigMaps("default")
		apply := func(manager, value string, force bool) error {
			config := applycorev1.ConfigMap("a", "default").WithData(map[string]string{"k": value})
			_, err := maps.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: manager, Force: force})
			return err
		}
		testcheck.NoError(t, apply("one", "1", false))
		expect(t, apierrors.IsConflict(apply("two", "2", false)), "409")
		testcheck.NoError(t, apply("two", "2", true))
		return ""
	},

	"the object still exists": func(t *testing.T) string {
		claims := reactors.NewClientset().CoreV1().PersistentVolumeClaims("default")
		testcheck.Must(claims.Create(t.Context(), claim(), createOptions))
		testcheck.NoError(t, claims.Delete(t.Context(), "data", metav1.DeleteOptions{}))
		got := testcheck.Must(claims.Get(t.Context(), "data", getOptions))
		expect(t, got.DeletionTimestamp != nil, "it has a deletionTimestamp")
		got.Finalizers = nil
		testcheck.Must(claims.Update(t.Context(), got, updateOptions))
		_, err := claims.Get(t.Context(), "data", getOptions)
		expect(t, apierrors.IsNotFound(err), "it is deleted")
		return ""
	},
	"the pod still exists": func(t *testing.T) string {
		p := pod("p")
		p.Spec.NodeName = "n"
		pods := reactors.NewClientset(p).CoreV1().Pods("default")
		testcheck.NoError(t, pods.Delete(t.Context(), "p", metav1.DeleteOptions{}))
		testcheck.Must(pods.Get(t.Context(), "p", getOptions))
		testcheck.NoError(t, pods.Delete(t.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0))}))
		_, err := pods.Get(t.Context(), "p", getOptions)
		expect(t, apierrors.IsNotFound(err), "it is deleted")
		return ""
	},
	"a namespace stays `Terminating`": func(t *testing.T) string {
		namespaces := reactors.NewClientset().CoreV1().Namespaces()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
		testcheck.Must(namespaces.Create(t.Context(), ns, createOptions))
		testcheck.NoError(t, namespaces.Delete(t.Context(), "x", metav1.DeleteOptions{}))
		got := testcheck.Must(namespaces.Get(t.Context(), "x", getOptions))
		expect(t, got.Status.Phase == corev1.NamespaceTerminating, "Terminating")
		got.Spec.Finalizers = nil
		testcheck.Must(namespaces.Finalize(t.Context(), got, updateOptions))
		_, err := namespaces.Get(t.Context(), "x", getOptions)
		expect(t, apierrors.IsNotFound(err), "it is deleted")
		return ""
	},
	"409 on a deletion": func(t *testing.T) string {
		maps := reactors.NewClientset(configMap("a")).CoreV1().ConfigMaps("default")
		err := maps.Delete(t.Context(), "a", *metav1.NewPreconditionDeleteOptions("other"))
		expect(t, apierrors.IsConflict(err), "409")
		return ""
	},

	"400 `field label not supported: …`, or `… is not a known field selector: …`": func(t *testing.T) string {
		pods := reactors.NewClientset(pod("p")).CoreV1().Pods("default")
		unknown := metav1.ListOptions{FieldSelector: "spec.hostname=h"}
		_, err := pods.List(t.Context(), unknown)
		_, err2 := reactors.NewClientset().CoreV1().ConfigMaps("default").List(t.Context(), unknown)
		testcheck.Must(pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"}))
		return codeOf(err) + ", or " + strings.TrimPrefix(codeOf(err2), "400 ")
	},
	"fewer items than before": func(t *testing.T) string {
		pods := reactors.NewClientset(pod("a"), pod("b")).CoreV1().Pods("default")
		selected := testcheck.Must(pods.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=a"}))
		expect(t, len(selected.Items) == 1, "the selector is evaluated")
		first := testcheck.Must(pods.List(t.Context(), metav1.ListOptions{Limit: 1}))
		second := testcheck.Must(pods.List(t.Context(), metav1.ListOptions{Limit: 1, Continue: first.Continue}))
		expect(t, len(first.Items) == 1 && second.Items[0].Name == "b", "two pages")
		return ""
	},
	"a watch misses earlier writes": func(t *testing.T) string {
		pods := reactors.NewClientset(pod("a")).CoreV1().Pods("default")
		next := func(revision string) watch.Event {
			w := testcheck.Must(pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: revision}))
			defer w.Stop()
			return <-w.ResultChan()
		}
		list := testcheck.Must(pods.List(t.Context(), listOptions))
		testcheck.Must(pods.Create(t.Context(), pod("b"), createOptions))
		e := next("")
		expect(t, e.Type == watch.Added && e.Object.(*corev1.Pod).Name == "a", "existing objects first")
		expect(t, next(list.ResourceVersion).Object.(*corev1.Pod).Name == "b", "what was written after the list")
		return ""
	},
	"the order of a list changed": func(t *testing.T) string {
		list := testcheck.Must(reactors.NewClientset(pod("b"), pod("a")).CoreV1().Pods("").List(t.Context(), listOptions))
		expect(t, list.Items[0].Name == "a", "by name")
		return ""
	},
	"`panic: channel full` no longer occurs": func(t *testing.T) string {
		maps := reactors.NewClientset().CoreV1().ConfigMaps("default")
		w := testcheck.Must(maps.Watch(t.Context(), listOptions))
		defer w.Stop()
		for i := range 2 * watch.DefaultChanSize {
			testcheck.Must(maps.Create(t.Context(), configMap(fmt.Sprint("a", i)), createOptions))
		}
		expect(t, (<-w.ResultChan()).Object.(*corev1.ConfigMap).Name == "a0", "the watch lags")
		return ""
	},

	"`panic: fake: a zero Clientset has no server…`": func(t *testing.T) string {
		return "`panic: " + panicOf(func() { (&reactors.Clientset{}).CoreV1() }) + "`"
	},
	"`client.Tracker()` rejects or changes an object": func(t *testing.T) string {
		c, invalid := reactors.NewClientset(), pod("p")
		invalid.Spec.Containers[0].Image = ""
		testcheck.NoError(t, c.Tracker().Create(podsResource, invalid, "default"))
		invalid.Spec.Containers[0].Name = "d"
		expect(t, apierrors.IsInvalid(c.Tracker().Update(podsResource, invalid, "default")), "422")
		return ""
	},
	"`panic: interface conversion: … not *fake.FakeCoreV1`": func(t *testing.T) string {
		c := reactors.NewClientset()
		return "`panic: " + panicOf(func() { _ = c.CoreV1().(*fakecorev1.FakeCoreV1) }) + "`"
	},
	"`panic: interface conversion: … not *fake.FakeDiscovery`": func(t *testing.T) string {
		c := reactors.NewClientset()
		c.Server().SetVersion(version.Info{GitVersion: "v1.30.2"})
		expect(t, testcheck.Must(c.Discovery().ServerVersion()).GitVersion == "v1.30.2", "the version is set")
		return "`panic: " + panicOf(func() { _ = c.Discovery().(*fakediscovery.FakeDiscovery) }) + "`"
	},
	"`client.Resources` has no effect": func(t *testing.T) string {
		c := reactors.NewClientset()
		c.Resources = []*metav1.APIResourceList{{GroupVersion: "example.com/v1"}}
		_, err := c.Discovery().ServerResourcesForGroupVersion("example.com/v1")
		expect(t, apierrors.IsNotFound(err), "404")
		testcheck.Must(c.Discovery().ServerResourcesForGroupVersion("storage.k8s.io/v1"))
		return ""
	},
	"a reactor of reviews or discovery is not called": func(t *testing.T) string {
		c := reactors.NewClientset()
		c.PrependReactor("*", "*", func(a clientgo.Action) (bool, runtime.Object, error) {
			t.Errorf("called for %v", a)
			return false, nil, nil
		})
		testcheck.Must(c.Discovery().ServerVersion())
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "pods"},
		}}
		got := testcheck.Must(c.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, createOptions))
		expect(t, got.Status.Allowed, "everything is allowed")
		return ""
	},
	"a reactor that increments resourceVersions or generates UIDs": func(t *testing.T) string {
		c := reactors.NewClientset()
		c.PrependReactor("create", "*", func(a clientgo.Action) (bool, runtime.Object, error) {
			a.(clientgo.CreateAction).GetObject().(metav1.Object).SetUID("given")
			return false, nil, nil
		})
		got := testcheck.Must(c.CoreV1().Nodes().Create(t.Context(), node("n"), createOptions))
		expect(t, got.UID != "" && got.UID != "given" && got.ResourceVersion != "", "the server sets both")
		return ""
	},
	"a reactor that returns a `watch.FakeWatcher`": func(t *testing.T) string {
		synctest.Test(t, func(t *testing.T) { snippetWatchReactor(t, reactors.NewClientset()) })
		return ""
	},
	"a hand-made `cache.ListWatch` over a watch reactor never syncs": func(t *testing.T) string {
		synctest.Test(t, func(t *testing.T) {
			c := reactors.NewClientset()
			c.PrependWatchReactor("pods", func(clientgo.Action) (bool, watch.Interface, error) {
				return true, watch.NewFake(), nil
			})
			pods := c.CoreV1().Pods("")
			listWatch := &cache.ListWatch{
				ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
					return pods.List(ctx, opts)
				},
				WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
					return pods.Watch(ctx, opts)
				},
			}
			for _, fixed := range []bool{false, true} {
				lw := cache.ListerWatcher(listWatch)
				if fixed {
					lw = cache.ToListWatcherWithWatchListSemantics(listWatch, c)
				}
				informer := cache.NewSharedIndexInformer(lw, &corev1.Pod{}, 0, nil)
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				go informer.RunWithContext(ctx)
				synced := cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
				cancel()
				synctest.Wait()
				expect(t, synced == fixed, fmt.Sprintf("fixed %v, synced %v", fixed, synced))
			}
		})
		return ""
	},
	"additional actions": func(t *testing.T) string {
		c := reactors.NewClientset()
		_, err := c.CoreV1().Nodes().Update(t.Context(), node("n"), updateOptions)
		expect(t, err != nil && len(c.Actions()) == 1 && c.Actions()[0].Matches("update", "nodes"), "a failed update")
		return ""
	},
}

func class(isDefault bool) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast", Annotations: map[string]string{
			"storageclass.kubernetes.io/is-default-class": fmt.Sprint(isDefault),
		}},
		Provisioner: "csi.example.com",
	}
}

func claim() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// TestMigratingPage runs each row of docs/migrating.md up to the last section, whose rows package
// envtest runs. The failure has the text that the row has.
func TestMigratingPage(t *testing.T) {
	page, _, found := strings.Cut(string(testcheck.Must(os.ReadFile("../../docs/migrating.md"))), "\n## From controller-runtime's envtest\n")
	expect(t, found, "the page has a section on envtest")
	rows := map[string]bool{}
	for _, line := range strings.Split(page, "\n") {
		cells := strings.Split(line, " | ")
		row := strings.TrimPrefix(cells[0], "| ")
		if len(cells) != 3 || row == "failure" {
			continue
		}
		rows[row] = true
		run := migrations[row]
		if run == nil {
			t.Errorf("no test of %q", row)
			continue
		}
		t.Run(row, func(t *testing.T) {
			text := strings.ReplaceAll("(?s)"+regexp.QuoteMeta(row), "…", ".*")
			if failure := run(t); failure != "" && !regexp.MustCompile(text).MatchString(failure) {
				t.Errorf("failed with %s", failure)
			}
		})
	}
	for row := range migrations {
		if !rows[row] {
			t.Errorf("the page has no row %q", row)
		}
	}
}
