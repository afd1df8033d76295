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

// attach starts to attach a volume. The result is recorded as an event on the pods that want it
// now.
//
// Upstream: pkg/volume/util/operationexecutor GenerateAttachVolumeFunc (v1.36).
func (c *Controller) attach(d *desiredVolume) {
	volume, node, spec, attacher, pods := d.Volume, d.Node, d.Spec, d.attacher, d.Pods()
	uncertain := c.actual.State(volume, node) == stateUncertain
	var devicePath string
	c.start(executor.Operation{
		Key:  operationKey(volume, spec, node),
		Name: opAttach,
		Run: func(ctx context.Context) (err error) {
			devicePath, err = attacher.Attach(ctx, spec, node)
			if err == nil && uncertain {
				err = c.confirm(ctx, volume, spec, node, plugins.Attached)
			}
			return err
		},
		Done: func(_ executor.Outcome, err error) {
			if err != nil {
				c.actual.addUncertain(volume, uncertainNode(err, node), spec)
				c.recordEvents(pods, corev1.EventTypeWarning, reasonFailedAttach,
					sameText(attachFailedMessage(spec, err)))
				return
			}
			c.actual.markAttached(volume, node, spec, devicePath)
			c.status.changed(node)
			c.scheduleVerify(volume)
			c.recordEvents(pods, corev1.EventTypeNormal, reasonAttached, sameText(attachedMessage(spec)))
		},
	})
}

// uncertainNode returns the node to which the volume may be attached after a failed attach. That is
// the operation's node, or the node on which the plugin found the volume.
func uncertainNode(err error, node types.NodeName) types.NodeName {
	var dangling *plugins.DanglingError
	if errors.As(err, &dangling) && dangling.CurrentNode != "" {
		return dangling.CurrentNode
	}
	return node
}

// detach removes the volume from the node's status and, once that is written, starts to detach it.
// The write leaves the process, so the decision is taken again afterwards: the volume may be wanted
// by then.
//
// Differs: upstream does not decide again, and detaches a volume that a pod has come to want
// meanwhile.
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
		Name: opDetach,
		Run:  func(ctx context.Context) error { return c.runDetach(ctx, a, d.timeout) },
		Done: func(outcome executor.Outcome, err error) { c.finishDetach(a, outcome, err) },
	})
	return nil
}

// runDetach is the detach operation. It fails as transient if the node uses the volume or cannot be
// read.
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
	if err == nil && a.State == stateUncertain {
		err = c.confirm(ctx, a.Volume, a.Spec, a.Node, plugins.Detached)
	}
	if err != nil {
		return fmt.Errorf("detach volume %q from node %q: %w", a.Volume, a.Node, err)
	}
	return nil
}

// finishDetach processes the result of a detach. If it did not start, nothing has changed and the
// volume is reported again. If the plugin failed, the state is uncertain.
//
// Differs: upstream also treats a refusal as uncertain. Upstream records no event for a failed
// detach; this controller records one only for a panic.
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
		c.cfg.Recorder.Event(&corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: string(a.Node), UID: types.UID(a.Node),
		}, corev1.EventTypeWarning, reasonFailedDetach, detachFailedMessage(a, err))
	}
	c.actual.markUncertain(a.Volume, a.Node)
}

// verifySafeToDetach reads the node from the API server and repeats the decision that was made from
// the cache. A node that does not exist is safe.
//
// Differs: upstream skips this check for forced detaches and after six minutes. A stale cache is
// then enough to detach a volume from a node that is ready and uses it (I16).
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

// detacher returns the attacher of a volume of which possibly only the name is known.
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

// reportAgain lists the attachment in the node's status again.
func (c *Controller) reportAgain(a *attachedVolume) {
	if a.markReported() {
		c.status.changed(a.Node)
	}
}

// start starts an operation. The caller has checked in the same step that it can start.
func (c *Controller) start(op executor.Operation) {
	if err := c.executor.Start(op); err != nil {
		panic("attachdetach: " + op.Name + " was decided on but cannot start: " + err.Error())
	}
}
