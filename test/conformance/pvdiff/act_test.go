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
)

// act is one thing that somebody does to the world. An act upon what is not there does nothing, so that a history stays one
// whatever is left out of it.
type act interface {
	fmt.Stringer
	do(u *user) error
}

// step is an act, and what goes wrong for the controller while it reacts.
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

// history is what one world lives through.
type history []step

// String gives a line for each step.
func (h history) String() string {
	var b strings.Builder
	for i, s := range h {
		fmt.Fprintf(&b, "%2d  %s\n", i+1, s)
	}
	return b.String()
}

// user is everybody in a world but its controller.
type user struct {
	server  *fake.Server
	client  kubernetes.Interface
	storage *storage
	down    func(meanwhile func() error) error // stops the controller for as long as meanwhile takes
}

var ctx = context.Background()

// key is the key of an object: "namespace/name", or the name alone; or "made for namespace/name", the volume that was made for
// that claim.
type key string

func (k key) split() (namespace, name string) {
	namespace, name, ok := strings.Cut(string(k), "/")
	if !ok {
		return "", string(k)
	}
	return namespace, name
}

func stored[T fake.Object](u *user, resource string, k key) (T, bool) {
	namespace, name := k.split()
	obj, ok := u.server.Get(resource, namespace, name)
	if !ok {
		var none T
		return none, false
	}
	return obj.DeepCopyObject().(T), true
}

func (u *user) claim(k key) (*corev1.PersistentVolumeClaim, bool) {
	return stored[*corev1.PersistentVolumeClaim](u, "persistentvolumeclaims", k)
}

func (u *user) volume(k key) (*corev1.PersistentVolume, bool) {
	if claim, ok := strings.CutPrefix(string(k), "made for "); ok {
		return u.made(claim)
	}
	return stored[*corev1.PersistentVolume](u, "persistentvolumes", k)
}

// made is the first volume that was made for a claim of that key.
func (u *user) made(claim string) (first *corev1.PersistentVolume, ok bool) {
	for _, obj := range u.server.List("persistentvolumes") {
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

func (u *user) class(k key) (*storagev1.StorageClass, bool) {
	return stored[*storagev1.StorageClass](u, "storageclasses", k)
}

func (u *user) pod(k key) (*corev1.Pod, bool) { return stored[*corev1.Pod](u, "pods", k) }

func (u *user) updateClaim(c *corev1.PersistentVolumeClaim) error {
	_, err := u.client.CoreV1().PersistentVolumeClaims(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
	return err
}

func (u *user) updateVolume(v *corev1.PersistentVolume) error {
	_, err := u.client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
	return err
}

// restart is the controller going down and coming up again, and what is done while it is down.
type restart struct{ meanwhile []act }

func (r restart) String() string {
	if len(r.meanwhile) == 0 {
		return "restart"
	}
	var acts []string
	for _, a := range r.meanwhile {
		acts = append(acts, a.String())
	}
	return "restart, meanwhile: " + strings.Join(acts, "; ")
}

func (r restart) do(u *user) error {
	return u.down(func() error {
		var errs []string
		for _, a := range r.meanwhile {
			if err := a.do(u); err != nil {
				errs = append(errs, err.Error())
			}
		}
		if len(errs) > 0 {
			return fmt.Errorf("%s", strings.Join(errs, "; "))
		}
		return nil
	})
}
