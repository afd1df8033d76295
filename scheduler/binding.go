package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A placement is the decision to assign a pod to a node. From then on, the pod is assumed to be there.
type placement struct {
	profile  *profile
	queued   *queuedPod
	pod      *corev1.Pod
	node     string
	cycle    *framework.Cycle
	left     []framework.PreBinder // have PreBind to do; the rest of them, after checked
	checked  bool                  // what there is to do is known
	reserved int                   // by how many plugins
	running  bool                  // a worker carries it out
	woken    bool                  // to be continued
	bound    bool                  // the API server has the pod on the node; the cache does not show it yet
}

// place assumes that a pod is on a node, and takes there what it needs.
//
// Upstream: pkg/scheduler assumeAndReserve (v1.36).
func (c *profile) place(queued *queuedPod, cycle *framework.Cycle, node string) (*placement, *framework.Status) {
	p := &placement{profile: c, queued: queued, pod: queued.pod, node: node, cycle: cycle}
	c.cache.Assume(p.pod, node)
	c.nominated.set(p.pod, "")
	c.placed[p.pod.UID] = p
	for _, plugin := range c.plugins.reservers {
		p.reserved++
		if status := plugin.Reserve(cycle, node); status != nil {
			c.forget(p)
			if status.IsRejected() {
				status.Plugin = plugin.Name()
				return nil, status
			}
			return nil, framework.AsStatus(fmt.Errorf("running Reserve plugin %q: %w", plugin.Name(), status.Err))
		}
	}
	return p, nil
}

// forget ends an assumption: the pod is not on its node.
//
// Upstream: pkg/scheduler unreserveAndForget (v1.36).
func (c *Controller) forget(p *placement) {
	delete(c.placed, p.pod.UID)
	for i := p.reserved - 1; i >= 0; i-- {
		p.profile.plugins.reservers[i].Unreserve(p.cycle, p.node)
	}
	c.cache.RemovePod(p.pod.UID)
}

// proceed continues a placement as far as possible. It is called again when a plugin says so.
//
// Upstream: pkg/scheduler bindingCycle (v1.36).
func (c *Controller) proceed(ctx context.Context, p *placement) {
	if p.running || p.bound {
		return
	}
	p.running = true
	defer func() { p.running = false }()
	if !p.checked {
		if status := c.preFlight(ctx, p); status != nil {
			c.abandon(ctx, p, status)
			return
		}
		if c.placed[p.pod.UID] != p {
			return // the pod was deleted
		}
	}
	for len(p.left) > 0 {
		plugin := p.left[0]
		p.woken = false
		done, status := plugin.PreBind(ctx, p.cycle, p.node)
		switch {
		case c.placed[p.pod.UID] != p:
			return // the pod was deleted
		case status.IsRejected():
			status.Plugin = plugin.Name()
			c.abandon(ctx, p, status)
			return
		case status != nil:
			c.abandon(ctx, p, framework.AsStatus(fmt.Errorf("running PreBind plugin %q: %w", plugin.Name(), status.Err)))
			return
		case !done && p.woken:
			continue
		case !done:
			return
		}
		p.left = p.left[1:]
	}
	err := c.bind(ctx, p)
	switch {
	case err == nil:
		p.bound = true
		c.reportBound(p)
	case c.placed[p.pod.UID] == p: // otherwise it was deleted, or the cache shows it on a node
		c.abandon(ctx, p, framework.AsStatus(err))
	}
}

// preFlight finds the plugins that have something to do before the pod is assigned to its node. If any has, the
// pod's status names the node from then on, for all who plan with it. A status that could not be written stays
// as it was.
//
// Upstream: pkg/scheduler bindingCycle; pkg/scheduler/framework/runtime RunPreBindPreFlights (v1.36).
func (c *Controller) preFlight(ctx context.Context, p *placement) *framework.Status {
	p.checked = true
	for _, plugin := range p.profile.plugins.preBinders {
		switch status := plugin.PreBindPreFlight(p.cycle, p.node); status.CodeOf() {
		case framework.Success:
			p.left = append(p.left, plugin)
		case framework.Skip:
		default:
			return framework.AsStatus(fmt.Errorf("running PreBindPreFlight %q: %w", plugin.Name(), status.Err))
		}
	}
	if len(p.left) > 0 && p.pod.Status.NominatedNodeName != p.node {
		_ = c.writeStatus(ctx, p.pod, map[string]any{"nominatedNodeName": p.node})
	}
	return nil
}

// bind assigns the pod to its node, or lets an extender do that.
//
// Upstream: pkg/scheduler Scheduler.bind; plugins/defaultbinder Bind (v1.36).
func (c *Controller) bind(ctx context.Context, p *placement) error {
	if found, err := c.extenders.Bind(ctx, p.pod, p.node); found {
		return err
	}
	err := c.cfg.Client.CoreV1().Pods(p.pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.node},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err)
	}
	return nil
}

// abandon cancels a placement.
//
// Upstream: pkg/scheduler handleBindingCycleError (v1.36).
func (c *Controller) abandon(ctx context.Context, p *placement, why *framework.Status) {
	c.forget(p)
	left := framework.Event{Resource: framework.Pod, Action: framework.Delete, Old: assigned(p.pod, p.node)}
	v := verdict{err: why.Err, clear: true}
	if why.IsRejected() {
		d := &framework.Diagnosis{NodesMax: 1}
		d.Reject(p.node, why)
		v = verdict{diagnosis: d, clear: true}
		c.fail(ctx, p.queued, v, func() { c.queue.happenedFor(left, p.pod.UID) })
		return
	}
	c.queue.happened(left)
	c.fail(ctx, p.queued, v, nil)
}

// assigned returns a pod as it is on a node.
func assigned(pod *corev1.Pod, node string) *corev1.Pod {
	on := *pod
	on.Spec.NodeName = node
	return &on
}
