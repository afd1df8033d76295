package upstreamad_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

// A world is a server with upstream's controller, in a bubble.
type world struct {
	*testing.T
	ctx    context.Context //nolint:containedctx // of the bubble
	server *fake.Server
	user   *fake.Clientset
}

// run runs script in a bubble, in a world with ready nodes n1 and n2, and an attacher whose calls
// fail if fails returns true.
func run(t *testing.T, fails failing, script func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := fake.NewServer(fake.Config{Now: time.Now})
		w := &world{t, ctx, server, server.Client(sim.DirectCaller())}
		for _, name := range []string{"n1", "n2"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
			}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			w.must(server.Add(node))
		}
		w.must(runAttacher(ctx, w.user, fails))
		script(w)
		time.Sleep(3 * time.Minute) // until operations have ended
		cancel()
	})
}

// must ends the test if err is not nil.
func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// start starts upstream's controller with an interceptor. stop ends its process.
func (w *world) start(interceptor histories.Interceptor) (stop func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.ctx)
	wait, err := upstreamad.Start(ctx, upstreamad.Config{Client: w.server.Client(sim.DirectCaller()).WithInterceptor(interceptor)})
	w.must(err)
	return func() {
		cancel()
		wait()
	}
}

// volume adds a volume of the driver for one node, bound to a claim of its name.
func (w *world) volume(name, driver, handle string) {
	w.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.Capacity, v.Spec.AccessModes = size, modes
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, name
	claim.Status.Phase = corev1.ClaimBound
	w.must(w.server.Add(v, claim))
}

// pod creates a pod on a node that uses volumes.
func (w *world) pod(name, node string, volumes ...string) {
	w.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "c", Image: "i"}}
	for _, v := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v},
		}})
	}
	_, err := w.user.CoreV1().Pods("default").Create(w.ctx, pod, metav1.CreateOptions{})
	w.must(err)
}

// remove removes a pod at once.
func (w *world) remove(pod string) {
	w.Helper()
	now := int64(0)
	w.must(w.user.CoreV1().Pods("default").Delete(w.ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// status patches a node's status.
func (w *world) status(node, patch string) {
	w.Helper()
	_, err := w.user.CoreV1().Nodes().
		Patch(w.ctx, node, types.StrategicMergePatchType, []byte(`{"status":`+patch+`}`), metav1.PatchOptions{}, "status")
	w.must(err)
}

// reportInUse reports one volume as in use in a node's status, or none ("").
func (w *world) reportInUse(node, volume string) {
	w.Helper()
	if volume == "" {
		w.status(node, `{"volumesInUse":null}`)
		return
	}
	w.status(node, fmt.Sprintf(`{"volumesInUse":[%q]}`, unique(volume)))
}

func unique(handle string) string { return "kubernetes.io/csi/" + driver + "^" + handle }

// attachments returns the VolumeAttachments as "volume node", sorted. Those that are being deleted
// end with "deleting".
func (w *world) attachments() []string {
	var all []string
	for _, obj := range w.server.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		word := *a.Spec.Source.PersistentVolumeName + " " + a.Spec.NodeName
		if a.DeletionTimestamp != nil {
			word += " deleting"
		}
		all = append(all, word)
	}
	slices.Sort(all)
	return all
}

// wantAttachments fails the test unless the attachments are these. meaning is what they show.
func (w *world) wantAttachments(meaning string, want ...string) {
	w.Helper()
	if got := w.attachments(); !slices.Equal(got, want) {
		w.Errorf("attachments %q, want %q: %s", got, want, meaning)
	}
}

// listed returns the names in a node's volumesAttached.
func (w *world) listed(node string) (names []string) {
	obj, _ := w.server.Get("nodes", "", node)
	for _, v := range obj.(*corev1.Node).Status.VolumesAttached {
		names = append(names, string(v.Name))
	}
	return names
}

// A failing function reports whether the attach or detach call of an attachment fails.
type failing func(a *storagev1.VolumeAttachment, attach bool) bool

func neverFails(*storagev1.VolumeAttachment, bool) bool { return false }

const finalizer = "external-attacher/disk-example-com"

// runAttacher answers each VolumeAttachment at once, as external-attacher does, until ctx ends.
func runAttacher(ctx context.Context, client *fake.Clientset, fails failing) error {
	attachments := client.StorageV1().VolumeAttachments()
	events, err := attachments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() {
		defer events.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-events.ResultChan():
				a := e.Object.(*storagev1.VolumeAttachment).DeepCopy()
				switch {
				case e.Type == watch.Added:
					a.Finalizers = []string{finalizer}
					if a, err = attachments.Update(ctx, a, metav1.UpdateOptions{}); err != nil {
						continue
					}
					if fails(a, true) {
						a.Status.AttachError = &storagev1.VolumeError{Message: "not now"}
					} else {
						a.Status.Attached = true
					}
					_, _ = attachments.UpdateStatus(ctx, a, metav1.UpdateOptions{})
				case e.Type == watch.Modified && a.DeletionTimestamp != nil && fails(a, false):
					if a.Status.DetachError == nil {
						a.Status.DetachError = &storagev1.VolumeError{Message: "not now"}
						_, _ = attachments.UpdateStatus(ctx, a, metav1.UpdateOptions{})
					}
				case e.Type == watch.Modified && a.DeletionTimestamp != nil:
					a.Finalizers = nil
					_, _ = attachments.Update(ctx, a, metav1.UpdateOptions{})
				}
			}
		}
	}()
	return nil
}

// errDropped is the error of dropped requests and events.
var errDropped = errors.New("dropped")
