package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

func newVolume(name string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    storage("1Gi"),
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name},
			},
		},
	}
	for _, f := range change {
		f(v)
	}
	return v
}

func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "busybox", VolumeMounts: []corev1.VolumeMount{{
				Name:      "data",
				MountPath: "/data",
			}}}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "a"},
			}}},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func newAttachment(name string, change ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: "node-1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("v")},
		},
	}
	for _, f := range change {
		f(a)
	}
	return a
}

func on(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }

func TestLastStateOfADeletedObject(t *testing.T) {
	w := newWorld(t)
	var commits []fake.Commit
	w.Server.OnCommit(func(c fake.Commit) { commits = append(commits, c) })
	w.create("a")
	w.delete("a")
	marked := w.get("a")
	answer := w.patch("a", `{"metadata":{"finalizers":null}}`)

	last := commits[len(commits)-1]
	expect(t, string(last.Type), "DELETED")
	expect(t, last.After.GetFinalizers(), []string{"kubernetes.io/pvc-protection"}) // it was never stored without
	expect(t, last.After.GetResourceVersion(), fmt.Sprint(last.Revision))
	expect(t, last.Before.GetResourceVersion(), marked.ResourceVersion)
	expect(t, answer.ResourceVersion, marked.ResourceVersion)
	expect(t, answer.Finalizers, nil)
}

func TestMetadataThroughStatus(t *testing.T) {
	w := newWorld(t)
	volumes, nodes := w.User.CoreV1().PersistentVolumes(), w.User.CoreV1().Nodes()
	pods, attachments := w.User.CoreV1().Pods("default"), w.User.StorageV1().VolumeAttachments()

	v := testcheck.Must(volumes.Create(w.Context(), newVolume("v"), metav1.CreateOptions{}))
	v.Labels, v.Spec.StorageClassName = map[string]string{"n": "1"}, "gold"
	v = testcheck.Must(volumes.UpdateStatus(w.Context(), v, metav1.UpdateOptions{}))
	expect(t, []string{v.Labels["n"], v.Spec.StorageClassName}, []string{"1", ""})

	n := testcheck.Must(nodes.Create(w.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		metav1.CreateOptions{}))
	n.Labels, n.Spec.Unschedulable = map[string]string{"n": "1"}, true
	n = testcheck.Must(nodes.UpdateStatus(w.Context(), n, metav1.UpdateOptions{}))
	expect(t, []any{n.Labels["n"], n.Spec.Unschedulable}, []any{"1", false})

	p := testcheck.Must(pods.Create(w.Context(), newPod("p"), metav1.CreateOptions{}))
	p.Labels, p.Spec.NodeName, p.Status.Phase = map[string]string{"n": "1"}, "x", corev1.PodRunning
	p = testcheck.Must(pods.UpdateStatus(w.Context(), p, metav1.UpdateOptions{}))
	expect(t, []any{p.Labels["n"], p.Spec.NodeName, p.Status.Phase, p.Generation},
		[]any{"1", "", corev1.PodRunning, int64(1)})

	a := testcheck.Must(attachments.Create(w.Context(), newAttachment("va"), metav1.CreateOptions{}))
	a.Labels, a.Status.Attached = map[string]string{"n": "1"}, true
	a = testcheck.Must(attachments.UpdateStatus(w.Context(), a, metav1.UpdateOptions{}))
	expect(t, []any{a.Labels["n"], a.Status.Attached}, []any{"", true})
}

func TestVolumePhase(t *testing.T) {
	now := sim.Epoch.Add(100 * time.Millisecond)
	s := fake.NewServer(fake.Config{Now: func() time.Time { return now }})
	volumes, ctx := s.Client(direct).CoreV1().PersistentVolumes(), t.Context()

	v := testcheck.Must(volumes.Create(ctx, newVolume("v", func(v *corev1.PersistentVolume) {
		v.Status.Phase = corev1.VolumeBound
	}), metav1.CreateOptions{}))
	expect(t, v.Status.Phase, corev1.VolumePending)
	expect(t, v.Status.LastPhaseTransitionTime.Time, sim.Epoch)
	expect(t, v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)

	now = now.Add(time.Minute)
	v.Status.Message = "x"
	v = testcheck.Must(volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}))
	expect(t, v.Status.LastPhaseTransitionTime.Time, sim.Epoch)
	v.Status.Phase = corev1.VolumeAvailable
	v = testcheck.Must(volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}))
	expect(t, v.Status.LastPhaseTransitionTime.Time, sim.Epoch.Add(time.Minute))
}

func TestUpdateNeedsAResourceVersion(t *testing.T) {
	w := newWorld(t)
	group := w.User.StorageV1()
	a := testcheck.Must(group.VolumeAttachments().Create(w.Context(), newAttachment("va"),
		metav1.CreateOptions{}))
	n := testcheck.Must(group.CSINodes().Create(w.Context(),
		&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}))
	d := testcheck.Must(group.CSIDrivers().Create(w.Context(),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}))
	for _, obj := range []metav1.Object{a, n, d} {
		obj.SetResourceVersion("")
		obj.SetLabels(map[string]string{"n": "1"})
	}
	_, errA := group.VolumeAttachments().Update(w.Context(), a, metav1.UpdateOptions{})
	_, errN := group.CSINodes().Update(w.Context(), n, metav1.UpdateOptions{})
	_, errD := group.CSIDrivers().Update(w.Context(), d, metav1.UpdateOptions{})
	for _, err := range []error{errA, errN, errD} {
		expectError(t, err, apierrors.IsInvalid, "metadata.resourceVersion: Invalid value: 0: must be specified for an update")
	}
	// A patch without a resourceVersion applies to the newest state.
	_, err := group.CSINodes().Patch(w.Context(), "n", types.MergePatchType, []byte(`{"metadata":{"labels":{"n":"2"}}}`),
		metav1.PatchOptions{})
	expect(t, err, nil)
}

func TestDeletePod(t *testing.T) {
	for _, test := range []struct {
		name   string
		pod    *corev1.Pod
		phase  corev1.PodPhase
		grace  *int64
		repeat *int64
		want   any // seconds of grace, or that it is removed
	}{
		{"unbound", newPod("p"), "", nil, nil, "gone"},
		{"bound", newPod("p", on("n")), "", nil, nil, int64(30)},
		{"bound with its own grace", newPod("p", on("n"),
			func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(5)) }), "", nil, nil, int64(5)},
		{"bound with grace asked", newPod("p", on("n")), "", ptr.To(int64(7)), nil, int64(7)},
		{"bound with grace 0", newPod("p", on("n")), "", ptr.To(int64(0)), nil, "gone"},
		{"terminated", newPod("p", on("n")), corev1.PodSucceeded, nil, nil, "gone"},
		{"again", newPod("p", on("n")), "", ptr.To(int64(10)), ptr.To(int64(20)), int64(10)},
		{"again with less", newPod("p", on("n")), "", ptr.To(int64(10)), ptr.To(int64(4)), int64(4)},
		{"again with 0", newPod("p", on("n")), "", nil, ptr.To(int64(0)), "gone"},
		{"finalizer", newPod("p", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/f"} }), "", nil, nil, int64(0)},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			pods := w.User.CoreV1().Pods("default")
			p := testcheck.Must(pods.Create(w.Context(), test.pod, metav1.CreateOptions{}))
			if test.phase != "" {
				p.Status.Phase = test.phase
				testcheck.Must(pods.UpdateStatus(w.Context(), p, metav1.UpdateOptions{}))
			}
			expect(t, pods.Delete(w.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: test.grace}), nil)
			if test.repeat != nil {
				expect(t, pods.Delete(w.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: test.repeat}), nil)
			}
			var got any = "gone"
			if p, err := pods.Get(w.Context(), "p", metav1.GetOptions{}); err == nil {
				got = *p.DeletionGracePeriodSeconds
				expect(t, p.DeletionTimestamp.Time.UTC(),
					sim.Epoch.Add(time.Duration(*p.DeletionGracePeriodSeconds)*time.Second))
				expect(t, p.Generation, int64(2))
			}
			expect(t, got, test.want)
		})
	}
}

func TestBindAndEvict(t *testing.T) {
	w := newWorld(t)
	pods := w.User.CoreV1().Pods("default")
	testcheck.Must(pods.Create(w.Context(), newPod("p"), metav1.CreateOptions{}))
	bind := func(change ...func(*corev1.Binding)) error {
		b := &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
		}
		for _, f := range change {
			f(b)
		}
		return pods.Bind(w.Context(), b, metav1.CreateOptions{})
	}
	expectError(t, bind(func(b *corev1.Binding) { b.UID = "other" }), apierrors.IsConflict, "UID in precondition: other")
	expect(t, bind(), nil)
	p := testcheck.Must(pods.Get(w.Context(), "p", metav1.GetOptions{}))
	expect(t, p.Spec.NodeName, "n")
	expect(t, p.Status.Conditions, []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: sim.Epoch},
	}})
	expectError(t, bind(), apierrors.IsConflict,
		`Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"`)

	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	expect(t, pods.EvictV1(w.Context(), eviction), nil)
	p = testcheck.Must(pods.Get(w.Context(), "p", metav1.GetOptions{}))
	expect(t, *p.DeletionGracePeriodSeconds, int64(30))
	_, err := pods.UpdateResize(w.Context(), "p", p, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")
	_, err = pods.GetLogs("p", &corev1.PodLogOptions{}).DoRaw(w.Context())
	expectError(t, err, apierrors.IsNotFound, "the server could not find the requested resource")
}

func TestNamespaces(t *testing.T) {
	w := newWorld(t)
	spaces := w.User.CoreV1().Namespaces()
	_, err := w.User.CoreV1().PersistentVolumeClaims("shop").Create(w.Context(), newClaim("a", inNamespace("shop")),
		metav1.CreateOptions{})
	expectError(t, err, apierrors.IsNotFound, `namespaces "shop" not found`)

	ns := testcheck.Must(spaces.Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		metav1.CreateOptions{}))
	expect(t, ns.Status.Phase, corev1.NamespaceActive)
	expect(t, ns.Spec.Finalizers, []corev1.FinalizerName{"kubernetes"})
	expect(t, ns.Labels, map[string]string{"kubernetes.io/metadata.name": "shop"})
	_, err = w.User.CoreV1().PersistentVolumeClaims("shop").Create(w.Context(), newClaim("a", inNamespace("default")),
		metav1.CreateOptions{})
	expectError(t, err, apierrors.IsBadRequest,
		"the namespace of the provided object does not match the namespace sent on the request")

	expect(t, spaces.Delete(w.Context(), "shop", metav1.DeleteOptions{}), nil)
	ns = testcheck.Must(spaces.Get(w.Context(), "shop", metav1.GetOptions{}))
	expect(t, ns.Status.Phase, corev1.NamespaceTerminating)
	_, err = w.User.CoreV1().PersistentVolumeClaims("shop").Create(w.Context(), newClaim("a", inNamespace("shop")),
		metav1.CreateOptions{})
	expectError(t, err, apierrors.IsForbidden, "because it is being terminated")
	ns.Spec.Finalizers = nil
	testcheck.Must(spaces.Finalize(w.Context(), ns, metav1.UpdateOptions{}))
	_, err = spaces.Get(w.Context(), "shop", metav1.GetOptions{})
	expectError(t, err, apierrors.IsNotFound, "")
	expectError(t, spaces.Delete(w.Context(), "default", metav1.DeleteOptions{}), apierrors.IsForbidden,
		"this namespace may not be deleted")
}

func inNamespace(ns string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Namespace = ns }
}

func TestDeleteCollection(t *testing.T) {
	w := newWorld(t)
	w.create("a", label("n", "1"))
	w.create("b", label("n", "2"))
	w.create("c", label("n", "1"))
	expect(t, w.claims.DeleteCollection(w.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "n=1"}), nil)
	var going []string
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		if obj.GetDeletionTimestamp() != nil {
			going = append(going, obj.GetName())
		}
	}
	expect(t, going, []string{"a", "c"})
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	events := w.User.CoreV1().Events("")
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", Namespace: "default", Name: "a",
			UID: "u",
		},
		Reason: "FailedBinding", Source: corev1.EventSource{Component: "persistentvolume-controller"},
		FirstTimestamp: metav1.Time{Time: sim.Epoch.Add(time.Millisecond)},
	}
	// An update of an event that does not exist creates it.
	got := testcheck.Must(events.UpdateWithEventNamespaceWithContext(w.Context(), e))
	expect(t, got.FirstTimestamp.Time, sim.Epoch)
	got = testcheck.Must(events.PatchWithEventNamespaceWithContext(w.Context(), e, []byte(`{"count":2}`)))
	expect(t, got.Count, int32(2))
	list := testcheck.Must(events.List(w.Context(), metav1.ListOptions{
		FieldSelector: events.GetFieldSelector(ptr.To("a"), ptr.To("default"), nil,
			ptr.To("u")).String() + ",source=persistentvolume-controller",
	}))
	expect(t, len(list.Items), 1)
	e.Name, e.InvolvedObject.Namespace = "f", "other"
	_, err := events.CreateWithEventNamespaceWithContext(w.Context(), e)
	expectError(t, err, apierrors.IsInvalid, `involvedObject.namespace: Invalid value: "other": does not match event.namespace`)
}

// Modifies everything that was passed in or returned.
func TestResultsBelongToTheCaller(t *testing.T) {
	w := newWorld(t)
	in := newClaim("a")
	out := testcheck.Must(w.claims.Create(w.Context(), in, metav1.CreateOptions{}))
	stored, _ := w.Server.Get("persistentvolumeclaims", "default", "a")
	old := stored.DeepCopyObject()
	for _, c := range []*corev1.PersistentVolumeClaim{
		in, out, w.get("a"),
		&testcheck.Must(w.claims.List(w.Context(), metav1.ListOptions{})).Items[0],
	} {
		c.Labels["app"] = "changed"
		c.Spec.Resources.Requests[corev1.ResourceStorage] = storage("9Gi")[corev1.ResourceStorage]
		c.Spec.AccessModes[0] = corev1.ReadOnlyMany
	}
	expect(t, stored.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim))
}

func TestRequestsWithAnEndedContextHaveNoEffect(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(w.Context())
	cancel()
	_, err := w.claims.Create(ctx, newClaim("a"), metav1.CreateOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	expect(t, len(w.Server.List("persistentvolumeclaims")), 0)
}

// Checks the trace of requests.
func TestTrace(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	s := fake.NewServer(fake.Config{Now: host.Now})
	c, ctx := s.Client(host.ExternalCaller()), t.Context()
	claims := c.CoreV1().PersistentVolumeClaims("default")
	claim := testcheck.Must(claims.Create(ctx, newClaim("a"), metav1.CreateOptions{}))
	_, _ = claims.Create(ctx, newClaim("", func(c *corev1.PersistentVolumeClaim) { c.GenerateName = "x-" }),
		metav1.CreateOptions{})
	claim.Status.Phase = corev1.ClaimBound
	_, _ = claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	_, _ = claims.Update(ctx, claim, metav1.UpdateOptions{})
	_, _ = claims.Get(ctx, "b", metav1.GetOptions{})
	_, _ = c.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	_ = claims.Delete(ctx, "a", metav1.DeleteOptions{})
	_, _ = claims.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{})
	want := `1	0s	user	api create persistentvolumeclaims/default/a	rv=5 phase=Pending, finalizers=[kubernetes.io/pvc-protection]
2	0s	user	api create persistentvolumeclaims/default/x-*	rv=6 phase=Pending, finalizers=[kubernetes.io/pvc-protection]
3	0s	user	api update/status persistentvolumeclaims/default/a	rv=7 phase=Bound
4	0s	user	api update persistentvolumeclaims/default/a	error: Operation cannot be fulfilled on persistentvolumeclaims "a": the object has been modified; please apply your changes to the latest version and try again
5	0s	user	api get persistentvolumeclaims/default/b	error: persistentvolumeclaims "b" not found
6	0s	user	api list persistentvolumeclaims	2 items rv=7
7	0s	user	api delete persistentvolumeclaims/default/a	rv=8 deleting=yes
8	0s	user	api patch persistentvolumeclaims/default/a	rv=9 gone
`
	expect(t, host.Log().Text(), want)
	for _, r := range host.Log().Records()[:1] {
		if r.Kind != trace.KindAPI || r.After == nil || r.Before != nil {
			t.Errorf("got %+v", r)
		}
	}
}

// Covers UIDs, generated names and revisions.
func TestServersWithTheSameHistoryAreEqual(t *testing.T) {
	run := func() []fake.Object {
		w := newWorld(t)
		for i := range 20 {
			w.create("", func(c *corev1.PersistentVolumeClaim) { c.GenerateName = fmt.Sprintf("x%d-", i%3) })
		}
		w.create("a")
		w.remove("a")
		w.create("a")
		return w.Server.List("persistentvolumeclaims")
	}
	expect(t, run(), run())
}

// TestIdentityIsPartOfNames gives servers the same history: UIDs and generated names are equal if and
// only if the identities are.
func TestIdentityIsPartOfNames(t *testing.T) {
	names := func(identity uint64) []string {
		s := fake.NewServer(fake.Config{Now: time.Now, Identity: identity})
		claims := s.Client(sim.DirectCaller()).CoreV1().PersistentVolumeClaims("default")
		claim := newClaim("", func(c *corev1.PersistentVolumeClaim) { c.GenerateName = "x-" })
		generated := testcheck.Must(claims.Create(t.Context(), claim, metav1.CreateOptions{}))
		names := []string{generated.Name}
		for _, resource := range []string{"namespaces", "configmaps", "persistentvolumeclaims"} {
			for _, object := range s.List(resource) {
				names = append(names, string(object.GetUID()))
			}
		}
		return names
	}
	seen := map[string]uint64{}
	identities := []uint64{0}
	for bit := range 64 {
		identities = append(identities, 1<<bit)
	}
	for _, identity := range identities {
		all := names(identity)
		testcheck.Equal(t, fmt.Sprintf("names of another server of identity %#x", identity), all, names(identity))
		for _, name := range all {
			if other, ok := seen[name]; ok {
				t.Errorf("identities %#x and %#x give %s", identity, other, name)
			}
			seen[name] = identity
		}
	}
	for name := range seen {
		if len(name) == 36 && (name[14] != '4' || !strings.ContainsRune("89ab", rune(name[19]))) {
			t.Errorf("UID %s is not of version 4", name)
		}
	}
}

func TestUIDsAndGeneratedNamesAreUnique(t *testing.T) {
	w := newWorld(t)
	seen := map[types.UID]bool{}
	for range 2000 {
		c := w.create("", func(c *corev1.PersistentVolumeClaim) { c.GenerateName = "x-" })
		if seen[c.UID] || len(c.UID) != 36 {
			t.Fatalf("UID %q", c.UID)
		}
		seen[c.UID] = true
	}
	expect(t, len(w.Server.List("persistentvolumeclaims")), 2000)
}
