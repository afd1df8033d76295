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
	"github.com/volsim/volsim/test/conformance/histories"
)

var mutants = []histories.Mutant[mutation]{
	{Name: "treats an uncertain mount as none", Steps: 2, Mutation: mutation{plugin: func(p *ourPlugin) plugins.Plugin {
		return certain{attaching{p}}
	}}},
	{Name: "does not unmount volumes of pods", Steps: 2, Mutation: mutation{plugin: func(p *ourPlugin) plugins.Plugin {
		return keeping{attaching{p}}
	}}},
	{Name: "mounts for pods only", Steps: 1, Mutation: mutation{plugin: func(p *ourPlugin) plugins.Plugin {
		return podsOnly{attaching{p}}
	}}},
	{Name: "mounts the volume of another claim", Steps: 1, Mutation: mutation{client: func(c kubernetes.Interface) kubernetes.Interface {
		return trusting{c}
	}}},
	{Name: "keeps the volumes of terminated pods", Steps: 2, Mutation: mutation{keepsTerminated: true}},
	{Name: "mounts before it reports a volume as in use", Steps: 1, Mutation: mutation{reportsEarly: true}},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }

// A certain plugin returns each error as a final one.
type certain struct{ attaching }

func (s certain) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	if err := s.attaching.SetUp(ctx, spec, pod, use); err != nil {
		return errors.New(err.Error())
	}
	return nil
}

// A keeping plugin does not tear down.
type keeping struct{ attaching }

func (keeping) TearDown(context.Context, string, types.UID) error { return nil }

// A podsOnly plugin mounts nothing for the node.
type podsOnly struct{ attaching }

func (podsOnly) CanDeviceMount(*plugins.Spec) (bool, error) { return false, nil }

// A trusting client returns each volume as bound to the claim that names it.
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
