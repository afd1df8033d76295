package pvdiff

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/test/conformance/histories"
)

// mutants are controllers that are wrong in one thing. Each write of theirs goes through edit before it is made.
var mutants = []struct {
	name  string
	edit  edits
	steps int // at most, of the history that shows it
}{
	{"forgets that the binding is its own", edits{volume: func(v *corev1.PersistentVolume) {
		delete(v.Annotations, marks["by-controller"])
	}}, 2},
	{"takes a reservation back whole", edits{volume: func(v *corev1.PersistentVolume) {
		if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == "" {
			v.Spec.ClaimRef = nil
		}
	}}, 4},
	{"reports what was asked for, not what is there", edits{claimStatus: func(c *corev1.PersistentVolumeClaim) {
		if c.Status.Capacity != nil {
			c.Status.Capacity = c.Spec.Resources.Requests
		}
	}}, 2},
	{"makes volumes of no class", edits{created: func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "" }}, 2},
}

// Each mutant is found, and what shows it is as short as it can be.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			histories.FindMutant(t, m.steps, func(tb rapid.TB, shown func(verdict)) {
				check(tb, t, 1, m.edit.client, func(_ history, v verdict) { shown(v) })
			})
		})
	}
}

// edits change what is written; nil leaves it alone.
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
