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
	"pgregory.net/rapid"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/test/conformance/histories"
)

// mutants are controllers that are wrong in one thing.
var mutants = []struct {
	name  string
	spoil spoil
	steps int // at most, of the history that shows it
}{
	{"never forces a detach", spoil{configure: func(c *attachdetach.Config) { c.DisableForceDetach = true }}, 6},
	{"forces a detach after a minute", spoil{configure: func(c *attachdetach.Config) { c.MaxWaitForUnmount = time.Minute }}, 6},
	{"attaches what needs no attaching", spoil{plugin: func(p *csi.Plugin) plugins.Plugin { return alwaysAttaching{p} }}, 4},
	{"takes each detach for done", spoil{plugin: func(p *csi.Plugin) plugins.Plugin { return forgetful{p} }}, 4},
	{"does not take back what the node was told last", spoil{client: func(c kubernetes.Interface) kubernetes.Interface { return silent{c} }}, 4},
}

// Each mutant is found, and what shows it is as short as it can be.
func TestMutantsAreFound(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			histories.FindMutant(t, m.steps, func(tb rapid.TB, shown func(verdict)) {
				check(tb, t, 1, m.spoil, func(_ history, v verdict) { shown(v) })
			})
		})
	}
}

// alwaysAttaching does not look at the CSIDriver object.
type alwaysAttaching struct{ *csi.Plugin }

func (alwaysAttaching) CanAttach(*plugins.Spec) (bool, error) { return true, nil }

// forgetful does not detach.
type forgetful struct{ *csi.Plugin }

func (forgetful) Detach(context.Context, string, types.NodeName) error { return nil }

// silent takes nothing back that a node was told.
type silent struct{ kubernetes.Interface }

type silentCore struct{ typedcorev1.CoreV1Interface }

type silentNodes struct{ typedcorev1.NodeInterface }

func (c silent) CoreV1() typedcorev1.CoreV1Interface { return silentCore{c.Interface.CoreV1()} }

func (c silentCore) Nodes() typedcorev1.NodeInterface { return silentNodes{c.CoreV1Interface.Nodes()} }

func (n silentNodes) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	if string(data) == `{"status":{"volumesAttached":null}}` {
		return n.Get(ctx, name, metav1.GetOptions{})
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}
