package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/invariant"
)

// Wait runs the world until cond holds. what describes the condition in errors. cond is called
// after each action, and may read Server.
func (c *Cluster) Wait(ctx context.Context, what string, cond func() bool) error {
	return c.host.Wait(ctx, what, cond)
}

// WaitForClaim returns when the claim has the phase.
func (c *Cluster) WaitForClaim(ctx context.Context, namespace, name string,
	phase corev1.PersistentVolumeClaimPhase,
) error {
	return c.Wait(ctx, fmt.Sprintf("claim %s/%s to be %s", namespace, name, phase), func() bool {
		claim, ok := c.claim(namespace, name)
		return ok && claim.Status.Phase == phase
	})
}

// WaitForPod returns when the pod has the phase.
func (c *Cluster) WaitForPod(ctx context.Context, namespace, name string, phase corev1.PodPhase) error {
	return c.Wait(ctx, fmt.Sprintf("pod %s/%s to be %s", namespace, name, phase), func() bool {
		pod, ok := c.pod(namespace, name)
		return ok && pod.Status.Phase == phase
	})
}

// WaitForGone returns when the object does not exist. resource is the API's name, such as "pods";
// namespace is "" for cluster-scoped resources.
func (c *Cluster) WaitForGone(ctx context.Context, resource, namespace, name string) error {
	return c.Wait(ctx, fmt.Sprintf("%s %s/%s to be gone", resource, namespace, name), func() bool {
		_, ok := c.server.Get(resource, namespace, name)
		return !ok
	})
}

// WaitForRest returns when nothing is pending.
func (c *Cluster) WaitForRest(ctx context.Context) error {
	err := c.Wait(ctx, "the world to come to rest", func() bool { return len(c.Pending()) == 0 })
	if err != nil {
		return fmt.Errorf("%w; pending: %v", err, c.Pending())
	}
	return nil
}

// Pending describes what the control plane has yet to do, as far as the API objects show it: see
// invariant.PendingObjects.
func (c *Cluster) Pending() []string {
	var pending []string
	for _, d := range invariant.PendingObjects(c.server) {
		pending = append(pending, d.String())
	}
	return pending
}

// Leaks describes what exists although no API object refers to it. Call it in a world whose claims
// and pods are all gone. It reads the driver, its devices, the nodes' mounts and the machine of the
// PersistentVolume controller.
func (c *Cluster) Leaks() ([]string, error) {
	leaks, err := c.driver.leaks()
	volumes, errVolumes := c.machine.Volumes()
	for _, v := range volumes {
		leaks = append(leaks, "directory "+v.Path)
	}
	return append(invariant.Leaks(c.server), leaks...), errors.Join(err, errVolumes)
}

func (c *Cluster) claim(namespace, name string) (*corev1.PersistentVolumeClaim, bool) {
	o, ok := c.server.Get("persistentvolumeclaims", namespace, name)
	if !ok {
		return nil, false
	}
	return o.(*corev1.PersistentVolumeClaim), true
}

func (c *Cluster) pod(namespace, name string) (*corev1.Pod, bool) {
	o, ok := c.server.Get("pods", namespace, name)
	if !ok {
		return nil, false
	}
	return o.(*corev1.Pod), true
}

// isRegistered reports whether the API server has all nodes and the driver on each of them.
func (c *Cluster) isRegistered() bool {
	for _, n := range c.nodes {
		o, ok := c.server.Get("csinodes", "", n.name)
		if !ok || len(o.(*storagev1.CSINode).Spec.Drivers) == 0 {
			return false
		}
	}
	_, class := c.server.Get("storageclasses", "", ClassName)
	_, driver := c.server.Get("csidrivers", "", c.driver.name())
	return class && driver
}
