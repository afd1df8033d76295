package attachdetach

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

// attach starts to attach a volume. The pods that want it now are told how it ended.
//
// Upstream: pkg/volume/util/operationexecutor GenerateAttachVolumeFunc (v1.36).
func (c *Controller) attach(d *desiredVolume) {
	volume, node, spec, attacher, pods := d.Volume, d.Node, d.Spec, d.attacher, d.Pods()
	uncertain := c.actual.State(volume, node) == Uncertain
	var devicePath string
	c.start(executor.Operation{
		Key:  operationKey(volume, spec, node),
		Name: executor.Attach,
		Run: func(ctx context.Context) (err error) {
			devicePath, err = attacher.Attach(ctx, spec, node)
			if err == nil && uncertain {
				err = c.confirm(ctx, volume, node, plugins.Attached)
			}
			return err
		},
		Done: func(_ executor.Outcome, err error) {
			if err != nil {
				c.actual.addUncertain(volume, uncertainNode(err, node), spec)
				c.recordEvents(pods, corev1.EventTypeWarning, FailedAttachVolume, sameText(attachFailedMessage(spec, err)))
				return
			}
			c.actual.markAttached(volume, node, spec, devicePath)
			c.status.changed(node)
			c.scheduleVerify(volume)
			c.recordEvents(pods, corev1.EventTypeNormal, reasonAttached, sameText(attachedMessage(spec)))
		},
	})
}

// uncertainNode is the node to which the volume may be attached after a failure: the one it was for, or the one where
// the plugin found it instead.
func uncertainNode(err error, node types.NodeName) types.NodeName {
	var dangling *plugins.DanglingError
	if errors.As(err, &dangling) && dangling.CurrentNode != "" {
		return dangling.CurrentNode
	}
	return node
}

// detach takes the volume back from the node's status, and when that is written, starts to detach it. Leaving the
// component to write, it looks again afterwards: the volume may be wanted by then.
//
// Differs: upstream does not look again, and detaches a volume that a pod has come to want meanwhile.
//
// Upstream: pkg/controller/volume/attachdetach/reconciler reconcile (v1.36).
func (c *Controller) detach(ctx context.Context, a *attachedVolume) error {
	a.Reported = false
	if err := c.status.flush(ctx, a.Node); err != nil {
		c.reportAgain(a)
		return err
	}
	if c.actual.get(a.Volume, a.Node) != a {
		return nil
	}
	d := c.decideDetach(a)
	if d.verdict != detachNow {
		c.reportAgain(a)
		c.requeueAt(a.Volume, d.until)
		return nil
	}
	a.DetachTried = c.cfg.Process.Now()
	if d.safety.forced() {
		c.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: "force-detach", Object: string(a.Volume)},
			trace.Outcome{Detail: fmt.Sprintf("from %s: %s", a.Node, d.safety)})
	}
	c.start(executor.Operation{
		Key:  operationKey(a.Volume, a.Spec, a.Node),
		Name: executor.Detach,
		Run:  func(ctx context.Context) error { return c.runDetach(ctx, a, d.timeout) },
		Done: func(outcome executor.Outcome, err error) { c.finishDetach(a, outcome, err) },
	})
	return nil
}

// runDetach is the operation. It fails as transient when the node turns out to use the volume, or cannot be read.
//
// Upstream: pkg/volume/util/operationexecutor GenerateDetachVolumeFunc (v1.36).
func (c *Controller) runDetach(ctx context.Context, a *attachedVolume, timeout bool) error {
	if err := c.verifySafeToDetach(ctx, a, timeout); err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	attacher, err := c.detacher(a.Volume)
	if err != nil {
		return &plugins.Error{Class: plugins.Transient, Err: err}
	}
	_, name, err := plugins.SplitUniqueName(a.Volume)
	if err == nil {
		err = attacher.Detach(ctx, name, a.Node)
	}
	if err == nil && a.State == Uncertain {
		err = c.confirm(ctx, a.Volume, a.Node, plugins.Detached)
	}
	if err != nil {
		return fmt.Errorf("detach volume %q from node %q: %w", a.Volume, a.Node, err)
	}
	return nil
}

// finishDetach takes in how a detach ended. When it did not begin, nothing has happened, and the volume is reported again; when
// the plugin failed, nobody knows.
//
// Differs: upstream takes a refusal, too, for a reason to be uncertain. It tells nobody of a failed detach, and so do we, but
// for a panic.
func (c *Controller) finishDetach(a *attachedVolume, outcome executor.Outcome, err error) {
	panicked := (*executor.PanicError)(nil)
	switch {
	case outcome == executor.Done:
		c.actual.markDetached(a.Volume, a.Node)
		if _, err := c.nodes.Get(string(a.Node)); apierrors.IsNotFound(err) {
			c.actual.forgetNode(a.Node)
		}
		return
	case outcome == executor.Transient:
		c.reportAgain(a)
		return
	case errors.As(err, &panicked):
		c.cfg.Recorder.Event(&corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(a.Node), UID: types.UID(a.Node)},
			corev1.EventTypeWarning, reasonFailedDetach, detachFailedMessage(a, err))
	}
	c.actual.markUncertain(a.Volume, a.Node)
}

// verifySafeToDetach reads the node itself, and judges again what the cache allowed. A node that is not there is safe.
//
// Differs: upstream does not look when it forces, nor in any case after six minutes; then an old cache is enough to take
// a volume away from a node that is ready and uses it (I16).
//
// Upstream: pkg/volume/util/operationexecutor verifyVolumeIsSafeToDetach (v1.36).
func (c *Controller) verifySafeToDetach(ctx context.Context, a *attachedVolume, timeout bool) error {
	node, err := c.cfg.Client.CoreV1().Nodes().Get(ctx, string(a.Node), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("detach volume %q: get node %q: %w", a.Volume, a.Node, err)
	}
	c.setInUse(node)
	if decideSafety(nodeFactsOf(node, c.actual.InUse(a.Volume, a.Node)), timeout) == safetyInUse {
		return fmt.Errorf("detach volume %q from node %q: %w", a.Volume, a.Node, errStillInUse)
	}
	return nil
}

// detacher finds who can detach a volume of which perhaps only the name is known.
func (c *Controller) detacher(volume corev1.UniqueVolumeName) (plugins.Attacher, error) {
	name, _, err := plugins.SplitUniqueName(volume)
	if err != nil {
		return nil, err
	}
	plugin, err := c.cfg.Plugins.FindByName(name)
	if err != nil {
		return nil, err
	}
	if plugin.Attacher == nil {
		return nil, fmt.Errorf("detach: %w %q", plugins.ErrUnsupported, name)
	}
	return plugin.Attacher, nil
}

// reportAgain lets the attachment stand in the node's status again.
func (c *Controller) reportAgain(a *attachedVolume) {
	if a.markReported() {
		c.status.changed(a.Node)
	}
}

// start starts an operation that was found startable in this same turn.
func (c *Controller) start(op executor.Operation) {
	if err := c.executor.Start(op); err != nil {
		panic("attachdetach: " + op.Name + " was decided on but cannot start: " + err.Error())
	}
}
