package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim/trace"
)

// finalizerOwners maps finalizers to the components that remove them.
var finalizerOwners = map[string]string{
	"kubernetes.io/pvc-protection":                     "pvcprotection",
	"kubernetes.io/pv-protection":                      "pvprotection",
	"kubernetes.io/vac-protection":                     "vacprotection",
	storagehelpers.PVDeletionInTreeProtectionFinalizer: "pvcontroller",
	metav1.FinalizerDeleteDependents:                   "garbagecollector",
	metav1.FinalizerOrphanDependents:                   "garbagecollector",
	snapshotapi.ClaimSourceFinalizer:                   snapshotControllerName,
	snapshotapi.SourceFinalizer:                        snapshotControllerName,
	snapshotapi.BoundFinalizer:                         snapshotControllerName,
	snapshotapi.InGroupFinalizer:                       snapshotControllerName,
	snapshotapi.GroupBoundFinalizer:                    snapshotControllerName,
}

// goneCauses returns why an object still exists.
func (c *Cluster) goneCauses(resource string, obj fake.Object) []string {
	if obj.GetDeletionTimestamp() == nil {
		return c.keptCauses(obj)
	}
	var causes []string
	for _, finalizer := range obj.GetFinalizers() {
		cause := "finalizer " + finalizer + " is not removed"
		if why := c.finalizerCauses(finalizer, obj); len(why) > 0 {
			cause += " (" + strings.Join(why, "; ") + ")"
		}
		causes = append(causes, cause)
	}
	switch o := obj.(type) {
	case *corev1.Namespace:
		causes = append(causes, c.componentCauses("namespace")...)
		for _, condition := range o.Status.Conditions {
			if condition.Status == corev1.ConditionTrue {
				causes = append(causes, shortened(condition.Message))
			}
		}
	case *corev1.Pod:
		if _, ok := c.server.Get("nodes", "", o.Spec.NodeName); !ok {
			causes = append(causes, fmt.Sprintf("node %s not found, so no kubelet removes the pod", o.Spec.NodeName))
			break
		}
		causes = append(causes, c.componentCauses(kubeletName(o.Spec.NodeName))...)
	}
	if len(causes) == 0 {
		causes = []string{trace.ObjectName(resource) + " is being deleted"}
	}
	return causes
}

// keptCauses returns why an object is not being deleted.
func (c *Cluster) keptCauses(obj fake.Object) []string {
	causes := []string{"it is not being deleted"}
	if volume, is := obj.(*corev1.PersistentVolume); is {
		switch ref := volume.Spec.ClaimRef; {
		case ref != nil && volume.Status.Phase == corev1.VolumeBound:
			if _, ok := c.claim(ref.Namespace, ref.Name); ok {
				causes = append(causes, "claim "+objectKey(ref.Namespace, ref.Name)+" is bound to it")
			}
		case volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
			causes = append(causes, "its reclaim policy is Retain")
		}
		if volume.Status.Message != "" {
			causes = append(causes, shortened(volume.Status.Message))
		}
	}
	if owners := obj.GetOwnerReferences(); len(owners) > 0 {
		causes = append(causes, fmt.Sprintf("its owner is %s %s", strings.ToLower(owners[0].Kind), owners[0].Name))
		causes = append(causes, c.componentCauses("garbagecollector")...)
	}
	return causes
}

// finalizerCauses returns why a finalizer is not removed.
func (c *Cluster) finalizerCauses(finalizer string, obj fake.Object) []string {
	causes := c.snapshotFinalizerCauses(finalizer, obj)
	switch o := obj.(type) {
	case *corev1.PersistentVolumeClaim:
		if finalizer == "kubernetes.io/pvc-protection" {
			for _, pod := range c.podsUsing(o) {
				causes = append(causes, "pod "+keyOfObject(pod)+" uses the claim")
			}
		}
	case *corev1.PersistentVolume:
		if ref := o.Spec.ClaimRef; finalizer == "kubernetes.io/pv-protection" && ref != nil && o.Status.Phase == corev1.VolumeBound {
			causes = append(causes, "claim "+objectKey(ref.Namespace, ref.Name)+" is bound to the volume")
		}
	}
	if owner, known := finalizerOwners[finalizer]; known {
		return append(causes, c.componentCauses(owner)...)
	}
	if driver, kind := c.sidecarOf(finalizer, obj); kind != "" {
		if d := c.installed(driver); d != nil {
			return append(causes, c.sidecarCauses(d, kind)...)
		}
		return append(causes, c.componentCauses(kind)...)
	}
	return causes
}

// sidecarOf returns the driver and the kind of the sidecar that removes a finalizer of an object; kind is
// "" for another finalizer.
func (c *Cluster) sidecarOf(finalizer string, obj fake.Object) (driver, kind string) {
	if volume, is := obj.(*corev1.PersistentVolume); is && volume.Spec.CSI != nil {
		driver = volume.Spec.CSI.Driver
	}
	if attachment, is := obj.(*storagev1.VolumeAttachment); is {
		driver = attachment.Spec.Attacher
	}
	switch {
	case finalizer == storagehelpers.PVDeletionProtectionFinalizer:
		return driver, "provisioner"
	case strings.HasPrefix(finalizer, "external-attacher/"):
		return driver, "attacher"
	}
	return c.snapshotSidecar(finalizer, obj)
}
