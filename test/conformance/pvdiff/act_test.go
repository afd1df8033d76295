package pvdiff

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// An act is an action of a user or of another component. It does nothing if its object does not
// exist, so that rapid may leave out any act of a history.
type act interface {
	fmt.Stringer
	do(w *world) error
}

// A step is an act, and the fault that is injected until the world is at rest.
type step struct {
	act   act
	fault fault
}

func (s step) String() string {
	if s.fault.kind == "" {
		return s.act.String()
	}
	return s.act.String() + "  !" + s.fault.String()
}

// A world is an API server and its users: all but the controller.
type world struct {
	server   *fake.Server
	client   kubernetes.Interface
	storage  *storage
	observer *observer
	faults   *faults                            // of the controller
	down     func(meanwhile func() error) error // stops the controller while meanwhile runs
}

func newWorld(server *fake.Server, client kubernetes.Interface) *world {
	w := &world{server: server, client: client, storage: newStorage(), faults: &faults{}}
	w.observer = observe(server, w.storage)
	return w
}

var ctx = context.Background()

// A key is "namespace/name", a name, or "provisioned for namespace/name": the volume that was
// provisioned for a claim.
type key string

const provisionedFor = "provisioned for "

func (k key) split() (namespace, name string) {
	namespace, name, ok := strings.Cut(string(k), "/")
	if !ok {
		return "", string(k)
	}
	return namespace, name
}

func stored[T fake.Object](w *world, resource string, k key) (T, bool) {
	namespace, name := k.split()
	return histories.Stored[T](w.server, resource, namespace, name)
}

func (w *world) claim(k key) (*corev1.PersistentVolumeClaim, bool) {
	return stored[*corev1.PersistentVolumeClaim](w, "persistentvolumeclaims", k)
}

func (w *world) volume(k key) (*corev1.PersistentVolume, bool) {
	if claim, ok := strings.CutPrefix(string(k), provisionedFor); ok {
		return w.provisioned(claim)
	}
	return stored[*corev1.PersistentVolume](w, "persistentvolumes", k)
}

// provisioned returns the first volume that was provisioned for a claim of that key.
func (w *world) provisioned(claim string) (first *corev1.PersistentVolume, ok bool) {
	for _, obj := range w.server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		if ref := v.Spec.ClaimRef; !strings.HasPrefix(v.Name, "pvc-") || ref == nil || ref.Namespace+"/"+ref.Name != claim {
			continue
		}
		if first == nil || v.CreationTimestamp.Before(&first.CreationTimestamp) {
			first = v
		}
	}
	return first.DeepCopy(), first != nil
}

func (w *world) class(k key) (*storagev1.StorageClass, bool) {
	return stored[*storagev1.StorageClass](w, "storageclasses", k)
}

func (w *world) pod(k key) (*corev1.Pod, bool) { return stored[*corev1.Pod](w, "pods", k) }

func (w *world) updateClaim(c *corev1.PersistentVolumeClaim) error {
	_, err := w.client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

func (w *world) updateVolume(v *corev1.PersistentVolume) error {
	_, err := w.client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
	return err
}

// restart stops the controller, performs acts, and starts it again.
type restart struct{ meanwhile []act }

func (r restart) String() string {
	if len(r.meanwhile) == 0 {
		return "restart"
	}
	return "restart, meanwhile: " + histories.Join(r.meanwhile)
}

func (r restart) do(w *world) error {
	return w.down(func() error {
		var errs []string
		for _, a := range r.meanwhile {
			if err := a.do(w); err != nil {
				errs = append(errs, err.Error())
			}
		}
		if len(errs) > 0 {
			return fmt.Errorf("%s", strings.Join(errs, "; "))
		}
		return nil
	})
}
