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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

// story is a server with upstream's controller, in a bubble.
type story struct {
	*testing.T
	ctx    context.Context //nolint:containedctx // of the bubble
	server *fake.Server
	user   *fake.Clientset
}

// tell tells a story in a bubble. It begins with ready nodes n1 and n2, and an attacher that cannot do what fails names.
func tell(t *testing.T, fails failing, what func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := fake.NewServer(fake.Config{Now: time.Now})
		s := &story{t, ctx, server, server.Client(sim.DirectCaller())}
		for _, name := range []string{"n1", "n2"} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
				Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
			}}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			s.must(server.Add(node))
		}
		s.must(attends(ctx, s.user, fails))
		what(s)
		time.Sleep(3 * time.Minute) // operations end
		cancel()
	})
}

// must ends the test if there is an error.
func (s *story) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// start starts upstream's controller over a client that meddles. stop ends its process.
func (s *story) start(meddle meddling) (stop func()) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.ctx)
	wait, err := upstreamad.Start(ctx, upstreamad.Config{Client: s.server.Client(sim.DirectCaller()).WithInterceptor(meddle)})
	s.must(err)
	return func() {
		cancel()
		wait()
	}
}

// volume adds a volume of the driver for one node, bound to a claim of its name.
func (s *story) volume(name, driver, handle string) {
	s.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.Capacity, v.Spec.AccessModes = size, modes
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: name, UID: types.UID("uid-of-" + name)}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-of-" + name)}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, name
	claim.Status.Phase = corev1.ClaimBound
	s.must(s.server.Add(v, claim))
}

// pod creates a pod on a node that uses volumes.
func (s *story) pod(name, node string, volumes ...string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.NodeName, pod.Spec.Containers = node, []corev1.Container{{Name: "c", Image: "i"}}
	for _, v := range volumes {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: v, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: v},
		}})
	}
	_, err := s.user.CoreV1().Pods("default").Create(s.ctx, pod, metav1.CreateOptions{})
	s.must(err)
}

// remove removes a pod at once.
func (s *story) remove(pod string) {
	s.Helper()
	now := int64(0)
	s.must(s.user.CoreV1().Pods("default").Delete(s.ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// status patches a node's status.
func (s *story) status(node, patch string) {
	s.Helper()
	_, err := s.user.CoreV1().Nodes().
		Patch(s.ctx, node, types.StrategicMergePatchType, []byte(`{"status":`+patch+`}`), metav1.PatchOptions{}, "status")
	s.must(err)
}

// uses has a node say which volume it uses, "" for none.
func (s *story) uses(node, volume string) {
	s.Helper()
	if volume == "" {
		s.status(node, `{"volumesInUse":null}`)
		return
	}
	s.status(node, fmt.Sprintf(`{"volumesInUse":[%q]}`, unique(volume)))
}

func unique(handle string) string { return "kubernetes.io/csi/" + driver + "^" + handle }

// attachments are what is to be attached, or is on its way out, as "volume node", sorted.
func (s *story) attachments() []string {
	var all []string
	for _, obj := range s.server.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		word := *a.Spec.Source.PersistentVolumeName + " " + a.Spec.NodeName
		if a.DeletionTimestamp != nil {
			word += " going"
		}
		all = append(all, word)
	}
	slices.Sort(all)
	return all
}

// are fails the test unless the attachments are these; what says what this is to show.
func (s *story) are(what string, want ...string) {
	s.Helper()
	if got := s.attachments(); !slices.Equal(got, want) {
		s.Errorf("attachments %q, want %q: this is to show that %s", got, want, what)
	}
}

// listed are the names in a node's volumesAttached.
func (s *story) listed(node string) (names []string) {
	obj, _ := s.server.Get("nodes", "", node)
	for _, v := range obj.(*corev1.Node).Status.VolumesAttached {
		names = append(names, string(v.Name))
	}
	return names
}

// failing says of an attachment whether it cannot be made, or undone.
type failing func(a *storagev1.VolumeAttachment, attach bool) bool

func nothing(*storagev1.VolumeAttachment, bool) bool { return false }

const finalizer = "external-attacher/disk-example-com"

// attends answers each VolumeAttachment at once, as external-attacher does, until ctx ends.
func attends(ctx context.Context, client *fake.Clientset, fails failing) error {
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

// meddling is called at each request, and may answer it.
type meddling func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error)

func (m meddling) Intercept(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if m == nil {
		return serve()
	}
	return m(r, serve)
}

// InterceptWatch asks with verb watch for each event; one that an error is returned for is not delivered.
func (m meddling) InterceptWatch(r fake.Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	w, err := serve()
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		_, err := m.Intercept(r, func() (runtime.Object, error) { return e.Object, nil })
		return e, err == nil
	}), nil
}

// is tells whether a request is of a verb and a resource.
func is(r fake.Request, verb, resource string) bool {
	return r.Verb == verb && r.Resource.Resource == resource
}

// errUnheard is the error of what does not arrive.
var errUnheard = errors.New("nothing is heard")
