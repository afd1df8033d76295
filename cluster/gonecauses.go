package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// finalizerOwners maps finalizers to the components that remove them.
var finalizerOwners = map[string]string{
	"kubernetes.io/pvc-protection":                     "pvcprotection",
	"kubernetes.io/pv-protection":                      "pvprotection",
	"kubernetes.io/vac-protection":                     "vacprotection",
	storagehelpers.PVDeletionProtectionFinalizer:       "provisioner",
	storagehelpers.PVDeletionInTreeProtectionFinalizer: "pvcontroller",
	metav1.FinalizerDeleteDependents:                   "garbagecollector",
	metav1.FinalizerOrphanDependents:                   "garbagecollector",
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
	var causes []string
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
	owner, known := finalizerOwners[finalizer]
	if !known && strings.HasPrefix(finalizer, "external-attacher/") {
		owner, known = "attacher", true
	}
	if !known {
		return causes
	}
	return append(causes, c.componentCauses(owner)...)
}
