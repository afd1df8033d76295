package pvdiff

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/test/conformance/histories"
)

// mutants of our controller edit what it writes.
var mutants = []histories.Mutant[mutation]{
	{Name: "does not mark the binding as its own", Steps: 2, Mutation: edits{volume: func(v *corev1.PersistentVolume) {
		delete(v.Annotations, marks["by-controller"])
	}}.client},
	{Name: "removes the whole claimRef of a reservation", Steps: 4, Mutation: edits{volume: func(v *corev1.PersistentVolume) {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == "" {
			v.Spec.ClaimRef = nil
		}
	}}.client},
	{Name: "reports the requested capacity, not the actual one", Steps: 2, Mutation: edits{claimStatus: func(c *corev1.PersistentVolumeClaim) {
		if c.Status.Capacity != nil {
			c.Status.Capacity = c.Spec.Resources.Requests
		}
	}}.client},
	{Name: "provisions volumes without a class", Steps: 2, Mutation: edits{created: func(v *corev1.PersistentVolume) {
		v.Spec.StorageClassName = ""
	}}.client},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }

// edits change written objects. Nil changes nothing.
type edits struct {
	volume, created func(*corev1.PersistentVolume)
	claimStatus     func(*corev1.PersistentVolumeClaim)
}

func (e edits) client(c kubernetes.Interface) kubernetes.Interface { return editing{c, e} }

type editing struct {
	kubernetes.Interface
	edits edits
}

func (e editing) CoreV1() typedcorev1.CoreV1Interface {
	return editingCore{e.Interface.CoreV1(), e.edits}
}

type editingCore struct {
	typedcorev1.CoreV1Interface
	edits edits
}

func (e editingCore) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return editingVolumes{e.CoreV1Interface.PersistentVolumes(), e.edits}
}

func (e editingCore) PersistentVolumeClaims(namespace string) typedcorev1.PersistentVolumeClaimInterface {
	return editingClaims{e.CoreV1Interface.PersistentVolumeClaims(namespace), e.edits}
}

type editingVolumes struct {
	typedcorev1.PersistentVolumeInterface
	edits edits
}

func (e editingVolumes) Update(ctx context.Context, v *corev1.PersistentVolume, opts metav1.UpdateOptions) (*corev1.PersistentVolume, error) {
	if e.edits.volume != nil {
		v = v.DeepCopy()
		e.edits.volume(v)
	}
	return e.PersistentVolumeInterface.Update(ctx, v, opts)
}

func (e editingVolumes) Create(ctx context.Context, v *corev1.PersistentVolume, opts metav1.CreateOptions) (*corev1.PersistentVolume, error) {
	if e.edits.created != nil {
		v = v.DeepCopy()
		e.edits.created(v)
	}
	return e.PersistentVolumeInterface.Create(ctx, v, opts)
}

type editingClaims struct {
	typedcorev1.PersistentVolumeClaimInterface
	edits edits
}

func (e editingClaims) UpdateStatus(ctx context.Context, c *corev1.PersistentVolumeClaim, opts metav1.UpdateOptions) (*corev1.PersistentVolumeClaim, error) {
	if e.edits.claimStatus != nil {
		c = c.DeepCopy()
		e.edits.claimStatus(c)
	}
	return e.PersistentVolumeClaimInterface.UpdateStatus(ctx, c, opts)
}
