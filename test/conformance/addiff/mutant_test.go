package addiff

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/test/conformance/histories"
)

var mutants = []histories.Mutant[mutation]{
	{Name: "never forces a detach", Steps: 6, Mutation: mutation{configure: func(c *attachdetach.Config) {
		c.DisableForceDetach = true
	}}},
	{Name: "forces a detach after a minute", Steps: 6, Mutation: mutation{configure: func(c *attachdetach.Config) {
		c.MaxWaitForUnmount = time.Minute
	}}},
	{Name: "attaches volumes that need no attachment", Steps: 4, Mutation: mutation{plugin: func(p *csi.Plugin) plugins.Plugin {
		return alwaysAttaching{p}
	}}},
	{Name: "treats each detach as done", Steps: 4, Mutation: mutation{plugin: func(p *csi.Plugin) plugins.Plugin {
		return neverDetaching{p}
	}}},
	{Name: "does not remove the last volume from node.status.volumesAttached", Steps: 4, Mutation: mutation{
		client: func(c kubernetes.Interface) kubernetes.Interface { return neverEmptying{c} },
	}},
}

// TestMutantsAreFound checks that a short history shows each mutant.
func TestMutantsAreFound(t *testing.T) { pair.FindMutants(t, drawHistory, mutants) }

// An alwaysAttaching plugin ignores the CSIDriver object.
type alwaysAttaching struct{ *csi.Plugin }

func (alwaysAttaching) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

// A neverDetaching plugin does not detach.
type neverDetaching struct{ *csi.Plugin }

func (neverDetaching) Detach(context.Context, string, types.NodeName) error { return nil }

// A neverEmptying client does not clear node.status.volumesAttached.
type neverEmptying struct{ kubernetes.Interface }

type neverEmptyingCore struct{ typedcorev1.CoreV1Interface }

type neverEmptyingNodes struct{ typedcorev1.NodeInterface }

func (c neverEmptying) CoreV1() typedcorev1.CoreV1Interface {
	return neverEmptyingCore{c.Interface.CoreV1()}
}

func (c neverEmptyingCore) Nodes() typedcorev1.NodeInterface {
	return neverEmptyingNodes{c.CoreV1Interface.Nodes()}
}

func (n neverEmptyingNodes) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if string(data) == `{"status":{"volumesAttached":null}}` {
		return n.Get(ctx, name, metav1.GetOptions{})
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}
