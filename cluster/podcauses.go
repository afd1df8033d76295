package cluster

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

// podCauses returns why a pod is not Running, or not removed.
func (c *Cluster) podCauses(pod *corev1.Pod) []string {
	return c.orLastWarning(c.knownPodCauses(pod), pod, pod.Status.Phase == corev1.PodRunning)
}

func (c *Cluster) knownPodCauses(pod *corev1.Pod) []string {
	switch {
	case pod.DeletionTimestamp != nil:
		return c.goneCauses("pods", pod)
	case pod.Status.Phase == corev1.PodRunning:
		return []string{"containers do not run in a simulated cluster: annotation volsim.dev/exit-codes ends them"}
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return []string{"the pod has completed"}
	}
	causes := c.podClaimCauses(pod)
	if pod.Spec.NodeName == "" {
		return append(causes, c.schedulingCauses(pod)...)
	}
	if _, ok := c.server.Get("nodes", "", pod.Spec.NodeName); !ok {
		return append(causes, fmt.Sprintf("node %s not found", pod.Spec.NodeName))
	}
	causes = append(causes, c.componentCauses(kubeletName(pod.Spec.NodeName))...)
	causes = append(causes, c.fileCauses(pod)...)
	causes = append(causes, c.kindCauses(pod)...)
	return append(causes, c.attachCauses(pod)...)
}

// kindCauses returns the volumes of a pod that no plugin of its kubelet supports.
func (c *Cluster) kindCauses(pod *corev1.Pod) []string {
	n, err := c.node(pod.Spec.NodeName)
	if err != nil || n.kubelet.Load() == nil {
		return nil
	}
	var causes []string
	for i := range pod.Spec.Volumes {
		name := pod.Spec.Volumes[i].Name
		spec, err := c.volumeOf(pod, name)
		if err != nil || !usesVolume(pod, name) {
			continue
		}
		if _, err := n.kubelet.Load().MountPath(spec, pod.UID); errors.Is(err, plugins.ErrNoPlugin) {
			causes = append(causes, fmt.Sprintf("volume %s is of kind %s: no plugin of %s supports it",
				name, kindOf(spec), kubeletName(n.name)))
		}
	}
	return causes
}

// kindOf returns the kind of a volume as its manifest has it, such as "iscsi".
func kindOf(spec *plugins.Spec) string {
	var source reflect.Value
	if spec.PersistentVolume != nil {
		source = reflect.ValueOf(spec.PersistentVolume.Spec.PersistentVolumeSource)
	} else {
		source = reflect.ValueOf(spec.Volume.VolumeSource)
	}
	for field, value := range source.Fields() {
		if !value.IsNil() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}

// usesVolume reports whether a container of the pod mounts the volume.
func usesVolume(pod *corev1.Pod, volume string) bool {
	return slices.ContainsFunc(slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume })
	})
}

// fileCauses returns which config maps and secrets of the volumes do not exist that containers mount.
func (c *Cluster) fileCauses(pod *corev1.Pod) []string {
	var causes []string
	require := func(resource, name string, optional *bool) {
		if optional != nil && *optional {
			return
		}
		if _, ok := c.server.Get(resource, pod.Namespace, name); !ok {
			causes = append(causes, fmt.Sprintf("%s not found", trace.ObjectName(resource+"/"+pod.Namespace+"/"+name)))
		}
	}
	for _, volume := range pod.Spec.Volumes {
		if !usesVolume(pod, volume.Name) {
			continue
		}
		if v := volume.ConfigMap; v != nil {
			require("configmaps", v.Name, v.Optional)
		}
		if v := volume.Secret; v != nil {
			require("secrets", v.SecretName, v.Optional)
		}
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if v := source.ConfigMap; v != nil {
				require("configmaps", v.Name, v.Optional)
			}
			if v := source.Secret; v != nil {
				require("secrets", v.Name, v.Optional)
			}
		}
	}
	return causes
}

// podClaimCauses returns what is wrong with the claims of a pod.
func (c *Cluster) podClaimCauses(pod *corev1.Pod) []string {
	var causes []string
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := podclaims.Name(pod, volume)
		if name == "" {
			continue
		}
		claim, ok := c.claim(pod.Namespace, name)
		switch {
		case !ok && volume.Ephemeral != nil:
			causes = append(causes, fmt.Sprintf("claim %s/%s of ephemeral volume %s not found", pod.Namespace, name, volume.Name))
		case !ok:
			causes = append(causes, fmt.Sprintf("claim %s/%s: %s", pod.Namespace, name, c.missing("persistentvolumeclaims", pod.Namespace, name)))
		case volume.Ephemeral != nil && ephemeral.VolumeIsForPod(pod, claim) != nil:
			causes = append(causes, fmt.Sprintf("claim %s/%s belongs to another pod", pod.Namespace, name))
		default:
			for _, cause := range c.claimCauses(claim, pod) {
				causes = append(causes, fmt.Sprintf("claim %s: %s", keyOfObject(claim), cause))
			}
		}
	}
	return causes
}

// schedulingCauses returns why a pod has no node, apart from its claims. Other reasons are in the events
// of the scheduler.
func (c *Cluster) schedulingCauses(pod *corev1.Pod) []string {
	if name := pod.Spec.SchedulerName; name != "" && name != corev1.DefaultSchedulerName {
		return []string{fmt.Sprintf("scheduler %q is not part of this world", name)}
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		return []string{fmt.Sprintf("scheduling gate %s is not removed", pod.Spec.SchedulingGates[0].Name)}
	}
	if causes := c.componentCauses("scheduler"); len(causes) > 0 {
		return causes
	}
	nodes := c.server.List("nodes")
	if len(nodes) == 0 {
		return []string{"the world has no nodes"}
	}
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	matches := func(o fake.Object) bool {
		ok, err := required.Match(o.(*corev1.Node))
		return ok && err == nil
	}
	if slices.ContainsFunc(nodes, matches) {
		return nil
	}
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.GetName()
	}
	slices.Sort(names)
	if pod.Spec.NodeSelector == nil {
		return []string{"the node affinity fits no node (have " + strings.Join(names, ", ") + ")"}
	}
	return []string{fmt.Sprintf("node selector %s fits no node (have %s)", labels.Set(pod.Spec.NodeSelector), strings.Join(names, ", "))}
}

// attachCauses returns why the volumes of a pod with a node are not attached.
func (c *Cluster) attachCauses(pod *corev1.Pod) []string {
	var causes []string
	node := pod.Spec.NodeName
	for _, key := range podclaims.Keys(pod) {
		claim, ok := c.claim(pod.Namespace, strings.TrimPrefix(key, pod.Namespace+"/"))
		if !ok || claim.Spec.VolumeName == "" {
			continue
		}
		o, ok := c.server.Get("persistentvolumes", "", claim.Spec.VolumeName)
		if !ok {
			causes = append(causes, fmt.Sprintf("volume %s of claim %s not found", claim.Spec.VolumeName, key))
			continue
		}
		spec, err := migrated.Translate(&plugins.Spec{PersistentVolume: o.(*corev1.PersistentVolume)}, pod.Namespace)
		if err != nil || spec.PersistentVolume.Spec.CSI == nil {
			continue
		}
		volume := spec.PersistentVolume
		causes = append(causes, c.driverCauses(volume.Spec.CSI.Driver, volume.Name, node)...)
		causes = append(causes, c.attachmentCauses(volume, node)...)
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		spec, err := migrated.Translate(&plugins.Spec{Volume: volume}, pod.Namespace)
		switch {
		case err != nil:
		case volume.CSI != nil:
			causes = append(causes, c.driverCauses(volume.CSI.Driver, volume.Name, node)...)
		case spec.PersistentVolume != nil:
			causes = append(causes, c.driverCauses(spec.PersistentVolume.Spec.CSI.Driver, volume.Name, node)...)
		}
	}
	return causes
}

// driverCauses returns that the driver of a volume is not on a node.
func (c *Cluster) driverCauses(driver, volume, node string) []string {
	if c.hasDriver(node, driver) {
		return nil
	}
	cause := fmt.Sprintf("driver %s of volume %s is not registered on %s", driver, volume, node)
	if d, err := c.nodeDriver(node, driver); err == nil && d.stopped.Load() {
		cause += ": " + d.eventName() + " is stopped"
	}
	return []string{cause}
}

func (c *Cluster) hasDriver(node, driver string) bool {
	o, ok := c.server.Get("csinodes", "", node)
	return ok && slices.ContainsFunc(o.(*storagev1.CSINode).Spec.Drivers,
		func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// attachmentCauses returns why a volume is not attached to a node.
func (c *Cluster) attachmentCauses(volume *corev1.PersistentVolume, node string) []string {
	var causes []string
	attached := false
	for _, o := range c.server.List("volumeattachments") {
		a := o.(*storagev1.VolumeAttachment)
		if name := a.Spec.Source.PersistentVolumeName; name == nil || *name != volume.Name || a.Spec.Attacher != volume.Spec.CSI.Driver {
			continue
		}
		switch {
		case a.Spec.NodeName != node:
			if !slices.Contains(volume.Spec.AccessModes, corev1.ReadWriteMany) && !slices.Contains(volume.Spec.AccessModes, corev1.ReadOnlyMany) {
				causes = append(causes, fmt.Sprintf("volume %s is still attached to %s", volume.Name, a.Spec.NodeName))
			}
		case a.Status.Attached:
			attached = true
		case a.Status.AttachError != nil:
			causes = append(causes, fmt.Sprintf("volume %s cannot be attached to %s: %s", volume.Name, node, shortened(a.Status.AttachError.Message)))
		}
	}
	if o, ok := c.server.Get("csidrivers", "", volume.Spec.CSI.Driver); ok {
		required := o.(*storagev1.CSIDriver).Spec.AttachRequired
		attached = attached || required != nil && !*required
	}
	if d := c.installed(volume.Spec.CSI.Driver); d != nil && !attached && !c.kubeletsAttach {
		causes = append(causes, c.componentCauses("attachdetach")...)
		causes = append(causes, c.sidecarCauses(d, "attacher")...)
	}
	return causes
}
