package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Wait returns when cond holds, having let the world move meanwhile; what names what is waited for. cond is asked after
// each action, and may look at Server.
func (c *Cluster) Wait(ctx context.Context, what string, cond func() bool) error {
	return c.host.Wait(ctx, what, cond)
}

// WaitForClaim returns when the claim has the phase.
func (c *Cluster) WaitForClaim(ctx context.Context, namespace, name string, phase corev1.PersistentVolumeClaimPhase) error {
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

// WaitForGone returns when the object is gone. resource is the API's word, such as "pods"; namespace is "" for what has
// none.
func (c *Cluster) WaitForGone(ctx context.Context, resource, namespace, name string) error {
	return c.Wait(ctx, fmt.Sprintf("%s %s/%s to be gone", resource, namespace, name), func() bool {
		_, ok := c.server.Get(resource, namespace, name)
		return !ok
	})
}

// WaitForRest returns when nothing is owed.
func (c *Cluster) WaitForRest(ctx context.Context) error {
	err := c.Wait(ctx, "the world to come to rest", func() bool { return len(c.Owed()) == 0 })
	if err != nil {
		return fmt.Errorf("%w; owed: %v", err, c.Owed())
	}
	return nil
}

// Owed names what the control plane has still to do, as far as the API objects tell: what is being deleted, what is
// attached without being used, pods that do not run yet, volumes to be released or reclaimed.
func (c *Cluster) Owed() []string {
	var owed []string
	used := sets.New[string]() // "node volume"
	for _, o := range c.server.List("pods") {
		pod := o.(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil:
			owed = append(owed, fmt.Sprintf("pod %s/%s is being deleted", pod.Namespace, pod.Name))
		case pod.Status.Phase == corev1.PodPending:
			owed = append(owed, fmt.Sprintf("pod %s/%s is not running", pod.Namespace, pod.Name))
		}
		for _, name := range c.volumeNames(pod) {
			used.Insert(pod.Spec.NodeName + " " + name)
		}
	}
	for _, o := range c.server.List("persistentvolumeclaims") {
		if o.GetDeletionTimestamp() != nil {
			owed = append(owed, fmt.Sprintf("claim %s/%s is being deleted", o.GetNamespace(), o.GetName()))
		}
	}
	for _, o := range c.server.List("persistentvolumes") {
		if what := c.owedToVolume(o.(*corev1.PersistentVolume)); what != "" {
			owed = append(owed, fmt.Sprintf("volume %s %s", o.GetName(), what))
		}
	}
	for _, o := range c.server.List("volumeattachments") {
		a := o.(*storagev1.VolumeAttachment)
		if name := a.Spec.Source.PersistentVolumeName; name == nil || !used.Has(a.Spec.NodeName+" "+*name) {
			owed = append(owed, fmt.Sprintf("attachment %s to %s is not used", a.Name, a.Spec.NodeName))
		}
	}
	return append(owed, c.owedByNodes()...)
}

func (c *Cluster) owedToVolume(volume *corev1.PersistentVolume) string {
	switch volume.Status.Phase {
	case corev1.VolumePending:
		return "is to be made available, or bound"
	case corev1.VolumeBound:
		ref := volume.Spec.ClaimRef
		if ref == nil {
			return "is to be made available"
		}
		if claim, ok := c.claim(ref.Namespace, ref.Name); !ok || claim.UID != ref.UID {
			return "is to be released"
		}
	case corev1.VolumeReleased:
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "is to be reclaimed"
		}
	}
	if volume.DeletionTimestamp != nil {
		return "is being deleted"
	}
	return ""
}

func (c *Cluster) owedByNodes() []string {
	var owed []string
	attachments := len(c.server.List("volumeattachments"))
	listed := 0
	for _, o := range c.server.List("nodes") {
		node := o.(*corev1.Node)
		listed += len(node.Status.VolumesAttached)
		if a, u := len(node.Status.VolumesAttached), len(node.Status.VolumesInUse); a != u {
			owed = append(owed, fmt.Sprintf("node %s lists %d volumes attached, %d in use", node.Name, a, u))
		}
	}
	if listed != attachments {
		owed = append(owed, fmt.Sprintf("%d attachments, %d listed by nodes", attachments, listed))
	}
	return owed
}

// Left names what is there although no object in the API accounts for it: meant for a world all of whose claims and pods
// are gone. It reads the driver, its devices and the nodes' mounts.
func (c *Cluster) Left() ([]string, error) {
	var left []string
	for _, resource := range []string{"pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments"} {
		for _, o := range c.server.List(resource) {
			left = append(left, fmt.Sprintf("%s %s/%s", resource, o.GetNamespace(), o.GetName()))
		}
	}
	held, err := c.driver.left()
	return append(left, held...), err
}

// volumeNames are the names of the PersistentVolumes a pod uses.
func (c *Cluster) volumeNames(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		if claim, ok := c.claim(pod.Namespace, source.ClaimName); ok && claim.Spec.VolumeName != "" {
			names = append(names, claim.Spec.VolumeName)
		}
	}
	return names
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

// registered tells whether all nodes and the driver on each of them are known to the API server.
func (c *Cluster) registered() bool {
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
