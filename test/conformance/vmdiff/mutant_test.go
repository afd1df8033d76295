package vmdiff

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/plugins"
)

// mutants are kubelets that are wrong in one thing.
var mutants = []struct {
	name  string
	spoil spoil
	steps int // at most, of the history that shows it
}{
	{"takes an uncertain mount for none", spoil{plugin: func(p *ourPlugin) plugins.Plugin { return sure{attaching{p}} }}, 2},
	{"does not take volumes from pods", spoil{plugin: func(p *ourPlugin) plugins.Plugin { return keeping{attaching{p}} }}, 2},
	{"mounts for pods only", spoil{plugin: func(p *ourPlugin) plugins.Plugin { return undivided{attaching{p}} }}, 1},
	{"mounts another claim's volume", spoil{client: func(c kubernetes.Interface) kubernetes.Interface { return trusting{c} }}, 1},
	{"keeps the volumes of pods that have ended", spoil{keepsEnded: true}, 2},
	{"mounts before it says that a volume is in use", spoil{reportsSoon: true}, 1},
}

// Each mutant is found, and what shows it is as short as it can be.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			pair.FindMutant(t, draw, m.spoil, m.steps)
		})
	}
}

// sure takes each error for a final one.
type sure struct{ attaching }

func (s sure) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	if err := s.attaching.SetUp(ctx, spec, pod, use); err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// keeping does not tear down.
type keeping struct{ attaching }

func (keeping) TearDown(context.Context, string, types.UID) error { return nil }

// undivided has nothing that is mounted for the node.
type undivided struct{ attaching }

func (undivided) CanDeviceMount(*plugins.Spec) (bool, error) { return false, nil }

// trusting believes that each volume is the claim's that names it.
type trusting struct{ kubernetes.Interface }

func (c trusting) CoreV1() typedcorev1.CoreV1Interface { return trustingCore{c.Interface.CoreV1()} }

type trustingCore struct{ typedcorev1.CoreV1Interface }

func (c trustingCore) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return trustingVolumes{c.CoreV1Interface.PersistentVolumes()}
}

type trustingVolumes struct {
	typedcorev1.PersistentVolumeInterface
}

func (v trustingVolumes) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.PersistentVolume, error) {
	pv, err := v.PersistentVolumeInterface.Get(ctx, name, opts)
	if err == nil {
		pv.Spec.ClaimRef.UID = diskOf(name).uid()
	}
	return pv, err
}
