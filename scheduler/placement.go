package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"
)

// placement is the decision to assign a pod to a node. From then on, the pod is assumed to be
// there.
type placement struct {
	pod     *corev1.Pod
	node    string
	awaited []string // claims to be provisioned for the node
	chosen  int      // how many of them have the node's annotation
	bound   bool     // the pod is assigned; the cache does not show it yet
}

// proceed continues a placement as far as possible: it writes the node on the claims, waits until
// they are bound, and assigns the pod. It is called again when one of the pod's claims changes.
//
// Upstream: plugins/volumebinding PreBind, bindAPIUpdate (v1.36), pkg/scheduler bindingCycle.
//
// Differs: waiting for the claims has no timeout.
func (c *Controller) proceed(ctx context.Context, p *placement) error {
	if p.bound {
		return nil
	}
	for p.chosen < len(p.awaited) {
		err := c.selectNode(ctx, p, p.awaited[p.chosen])
		if c.placed[p.pod.UID] != p {
			return nil // the pod was deleted
		}
		if err != nil {
			return c.abandon(ctx, p, fmt.Errorf("running PreBind plugin %q: %w", "VolumeBinding", err))
		}
		p.chosen++
	}
	ready, err := c.progress(p)
	if err != nil {
		return c.abandon(ctx, p, fmt.Errorf("running PreBind plugin %q: binding volumes: %w", "VolumeBinding", err))
	}
	if !ready {
		return nil
	}
	return c.bind(ctx, p)
}

// selectNode writes the placement's node on a claim that does not have it.
func (c *Controller) selectNode(ctx context.Context, p *placement, name string) error {
	claim := c.claim(p.pod.Namespace, name)
	if claim == nil {
		return fmt.Errorf("persistentvolumeclaim %q not found", name)
	}
	if claim.Annotations[storagehelpers.AnnSelectedNode] == p.node {
		return nil
	}
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnSelectedNode, p.node)
	written, err := c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, claim,
		metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	cached, err := c.claims.PersistentVolumeClaims(claim.Namespace).Get(name)
	if err == nil && isNewer(written, cached) {
		c.written[cache.MetaObjectToName(written)] = written
	}
	return nil
}

// progress reports whether all awaited claims are bound to volumes that the node can use. An error
// means that this cannot happen any more.
//
// Upstream: plugins/volumebinding checkBindings (v1.36), to the letter.
func (c *Controller) progress(p *placement) (ready bool, err error) {
	if len(p.awaited) == 0 {
		return true, nil
	}
	node, err := c.nodes.Get(p.node)
	if err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", p.node, err)
	}
	ready = true
	for _, name := range p.awaited {
		bound, err := checkAwaited(p.pod.Namespace, name, node, c)
		if err != nil {
			return false, err
		}
		ready = ready && bound
	}
	return ready, nil
}

// checkAwaited reports whether a claim is bound to a volume that the node can use.
func checkAwaited(namespace, name string, node *corev1.Node, from objects) (bound bool, err error) {
	claim := from.claim(namespace, name)
	switch {
	case claim == nil:
		return false, fmt.Errorf("failed to check provisioning pvc: could not find v1.PersistentVolumeClaim %q",
			namespace+"/"+name)
	case claim.Annotations[storagehelpers.AnnSelectedNode] != node.Name:
		return false, fmt.Errorf("provisioning failed for PVC %q", name)
	case claim.Spec.VolumeName == "":
		return false, nil
	}
	volume := from.volume(claim.Spec.VolumeName)
	if volume == nil {
		return false, nil // the cache has not seen it yet
	}
	if err := storagehelpers.CheckNodeAffinity(volume, node.Labels); err != nil {
		return false, fmt.Errorf("pv %q node affinity doesn't match node %q: %w", volume.Name, node.Name, err)
	}
	return isBound(claim), nil
}

// bind assigns the pod to its node.
//
// Upstream: plugins/defaultbinder Bind (v1.36).
func (c *Controller) bind(ctx context.Context, p *placement) error {
	err := c.cfg.Client.CoreV1().Pods(p.pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.pod.Namespace, Name: p.pod.Name, UID: p.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: p.node},
	}, metav1.CreateOptions{})
	if err == nil {
		p.bound = true
		c.reportBound(p)
		return nil
	}
	if c.placed[p.pod.UID] != p {
		return nil // the pod was deleted, or the cache shows it on a node
	}
	return c.abandon(ctx, p, fmt.Errorf("running Bind plugin %q: %w", "DefaultBinder", err))
}

// abandon cancels a placement. The pod is retried after a back-off.
//
// Upstream: pkg/scheduler handleBindingCycleError (v1.36).
func (c *Controller) abandon(ctx context.Context, p *placement, why error) error {
	delete(c.placed, p.pod.UID)
	r := c.backingOff[p.pod.UID]
	pause := min(c.cfg.BackoffMin<<min(r.failures, 30), c.cfg.BackoffMax)
	c.backingOff[p.pod.UID] = backoff{failures: r.failures + 1, until: c.cfg.Process.Now().Add(pause)}
	c.queue.AddAfter(cache.MetaObjectToName(p.pod), pause)
	c.podLeft(p.pod)
	return c.report(ctx, p.pod, corev1.PodReasonSchedulerError, why.Error())
}
