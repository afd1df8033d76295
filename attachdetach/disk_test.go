package attachdetach_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// diskName is the name of the plugin of these tests.
const diskName = "example.com/disk"

// backend is the array behind the plugin. It has the actual attachments and checks each call.
type backend struct {
	w        *world
	attached map[string]map[types.NodeName]bool
	faults   []fault
	local    bool     // attachRequired is false
	calls    []string // with their times
	wrong    []string // violations
}

// fault makes the next matching call fail.
type fault struct {
	call  string // such as "Attach disk-1 node-1"
	err   error
	after bool // the call takes effect
}

// disk is the controller's plugin: each call of the backend suspends.
type disk struct {
	c *sim.Process
	b *backend
}

var (
	_ plugins.Plugin   = disk{}
	_ plugins.Attacher = disk{}
)

func (d disk) Name() string { return diskName }

func (d disk) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil
}

func (d disk) VolumeName(spec *plugins.Spec) (string, error) {
	return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil
}

func (d disk) CanAttach(*plugins.Spec) (bool, error) { return !d.b.local, nil }

func (d disk) Attach(_ context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	name, _ := d.VolumeName(spec)
	multi := plugins.MultiAttachAllowed(spec)
	err := d.call("Attach", name, node, func() { d.b.attach(name, node, multi) })
	if err != nil {
		return "", err
	}
	return "/dev/" + name, nil
}

func (d disk) Detach(_ context.Context, name string, node types.NodeName) error {
	return d.call("Detach", name, node, func() { d.b.detach(name, node) })
}

// call leaves the process twice: before the effect and after it.
func (d disk) call(verb, volume string, node types.NodeName, effect func()) error {
	var err error
	what := fmt.Sprintf("%s %s %s", verb, volume, node)
	d.c.Call(trace.Action{
		Kind: trace.KindDriver, Verb: verb,
		Object: volume + " " + string(node),
	}, func() trace.Outcome {
		err = d.b.perform(what, effect)
		return trace.Outcome{Err: err}
	})
	d.c.Call(trace.Action{Kind: trace.KindDriver, Verb: "return", Object: what},
		func() trace.Outcome { return trace.Outcome{} })
	return err
}

func (b *backend) perform(what string, effect func()) error {
	at := b.w.Host.Now().Sub(sim.Epoch)
	i := slices.IndexFunc(b.faults, func(f fault) bool { return f.call == what })
	if i < 0 {
		b.calls = append(b.calls, fmt.Sprintf("%v %s", at, what))
		effect()
		return nil
	}
	f := b.faults[i]
	b.faults = slices.Delete(b.faults, i, i+1)
	b.calls = append(b.calls, fmt.Sprintf("%v %s: %v", at, what, f.err))
	if f.after {
		effect()
	}
	return f.err
}

func (b *backend) attach(volume string, node types.NodeName, multi bool) {
	for other := range b.attached[volume] {
		if other != node && !multi {
			b.blame("I15: %s is attached to %s and now to %s", volume, other, node)
		}
	}
	if b.attached[volume] == nil {
		b.attached[volume] = map[types.NodeName]bool{}
	}
	b.attached[volume][node] = true
}

func (b *backend) detach(volume string, node types.NodeName) {
	unique := plugins.UniqueVolumeName(diskName, volume)
	if n := b.w.nodeNow(string(node)); n != nil {
		for _, a := range n.Status.VolumesAttached {
			if a.Name == unique {
				b.blame("I19: %s is detached from %s, whose status still lists it as attached", volume, node)
			}
		}
		if b.w.kubelets[node].mounted(volume) && !mayForce(n) {
			b.blame("I16: %s is detached from %s, which is ready and has it mounted", volume, node)
		}
	}
	delete(b.attached[volume], node)
}

func (b *backend) blame(format string, args ...any) {
	b.wrong = append(b.wrong, fmt.Sprintf("%v ", b.w.Host.Now().Sub(sim.Epoch))+fmt.Sprintf(format, args...))
}

// mayForce reports whether a node's volumes may be detached while it uses them: it is not ready or
// out of service.
func mayForce(node *corev1.Node) bool {
	ready := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	tainted := slices.ContainsFunc(node.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	return !ready || tainted
}

// where returns the nodes to which the volume is attached, sorted.
func (b *backend) where(volume string) []types.NodeName {
	var nodes []types.NodeName
	for node := range b.attached[volume] {
		nodes = append(nodes, node)
	}
	slices.Sort(nodes)
	return nodes
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
