package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podclaims"
)

// noProvisioner is the provisioner of classes whose volumes an administrator creates.
//
// Upstream: pkg/apis/storage/v1/util notSupportedProvisioner (v1.36).
const noProvisioner = "kubernetes.io/no-provisioner"

// unfitMax bounds the volumes about which a cause says why they do not fit.
const unfitMax = 3

// componentCauses returns a cause for each of the components that does not run.
func (c *Cluster) componentCauses(names ...string) []string {
	var causes []string
	for _, name := range names {
		i := slices.IndexFunc(c.components, func(p *componentState) bool { return p.name == name })
		switch {
		case i < 0:
			causes = append(causes, "component "+name+" is not part of this world (see Config.Components)")
		case c.isPartitioned(c.components[i]):
			causes = append(causes, "the node of component "+name+" is partitioned")
		case c.components[i].down():
			causes = append(causes, "component "+name+" is stopped")
		}
	}
	return causes
}

// claimCauses returns why a claim is not Bound. The causes of the scheduling of one of its pods, asked,
// are left out.
func (c *Cluster) claimCauses(claim *corev1.PersistentVolumeClaim, asked *corev1.Pod) []string {
	return c.orLastWarning(c.knownClaimCauses(claim, asked), claim, claim.Status.Phase == corev1.ClaimBound)
}

// orLastWarning returns causes or, if there are none for an object that is not done, its last warning.
func (c *Cluster) orLastWarning(causes []string, obj fake.Object, done bool) []string {
	if len(causes) > 0 || done {
		return causes
	}
	for _, e := range slices.Backward(c.eventsAbout(func(e *corev1.Event) bool {
		return e.InvolvedObject.UID == obj.GetUID() && e.Type == corev1.EventTypeWarning
	})) {
		return []string{e.Reason + ": " + shortened(e.Message)}
	}
	return nil
}

func (c *Cluster) knownClaimCauses(claim *corev1.PersistentVolumeClaim, asked *corev1.Pod) []string {
	className := storagehelpers.GetPersistentVolumeClaimClass(claim)
	switch {
	case claim.DeletionTimestamp != nil:
		return c.goneCauses("persistentvolumeclaims", claim)
	case claim.Status.Phase == corev1.ClaimBound:
		return nil
	case claim.Spec.VolumeName != "":
		return append(c.namedVolumeCauses(claim), c.componentCauses("pvcontroller")...)
	case !storagehelpers.PersistentVolumeClaimHasClass(claim):
		causes := append([]string{"no storage class is set, and no class is the default"}, c.volumeCauses(claim)...)
		return append(causes, c.componentCauses("pvcontroller")...)
	case className == "":
		return append(c.volumeCauses(claim), c.componentCauses("pvcontroller")...)
	}
	o, ok := c.server.Get("storageclasses", "", className)
	if !ok {
		causes := []string{fmt.Sprintf("storage class %s not found", className)}
		if !c.hasVolumeOf(className) {
			return causes
		}
		return append(append(causes, c.volumeCauses(claim)...), c.componentCauses("pvcontroller")...)
	}
	class := o.(*storagev1.StorageClass)
	var causes []string
	if class.Provisioner == noProvisioner {
		causes = c.volumeCauses(claim)
	}
	delayed := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if _, selected := claim.Annotations[storagehelpers.AnnSelectedNode]; delayed && !selected {
		causes = append(causes, c.consumerCauses(claim, className, asked)...)
	}
	causes = append(causes, c.sourceCauses(claim)...)
	causes = append(causes, c.componentCauses("pvcontroller")...)
	return append(causes, c.provisionerCauses(class)...)
}

// provisionerCauses returns why a class does not provision.
func (c *Cluster) provisionerCauses(class *storagev1.StorageClass) []string {
	if d := c.installed(class.Provisioner); d != nil {
		return c.sidecarCauses(d, "provisioner")
	}
	_, installed := c.server.Get("csidrivers", "", class.Provisioner)
	if installed || class.Provisioner == noProvisioner || strings.HasPrefix(class.Provisioner, "kubernetes.io/") {
		return nil
	}
	return []string{fmt.Sprintf("driver %s, the provisioner of storage class %s, is not installed (this world has %s)",
		class.Provisioner, class.Name, cmp.Or(strings.Join(c.driverNames(), ", "), "none"))}
}

// sidecarCauses returns why a sidecar of a driver does not act. It returns none for one that another
// program replaces.
func (c *Cluster) sidecarCauses(d *csiDriver, kind string) []string {
	switch {
	case d.Sidecars.NodeDeployment && kind == "provisioner":
		return nil // each node has one
	case d.stopped.Load():
		return []string{d.eventName() + " is stopped"}
	case d.controller == nil:
		return []string{fmt.Sprintf("driver %s has no controller service", d.Name)}
	case d.Sidecars.None:
		return nil
	case !slices.ContainsFunc(d.sidecarComponents(c), func(r recipe) bool { return r.name == d.component(kind) }):
		return []string{fmt.Sprintf("driver %s has no %s: its controller service lacks the capability", d.Name, kind)}
	}
	return c.componentCauses(d.component(kind))
}

// consumerCauses returns why no node is selected for a claim that waits for its first consumer.
func (c *Cluster) consumerCauses(claim *corev1.PersistentVolumeClaim, class string, asked *corev1.Pod) []string {
	consumers := c.podsUsing(claim)
	if len(consumers) == 0 {
		return []string{fmt.Sprintf("storage class %s waits for the first consumer, and no pod uses the claim", class)}
	}
	var causes []string
	for _, pod := range consumers {
		if pod.Spec.NodeName != "" {
			causes = append(causes, fmt.Sprintf(
				"storage class %s waits for the scheduler, which ignores pod %s: its spec.nodeName is set", class, keyOfObject(pod)))
			continue
		}
		if asked != nil && asked.UID == pod.UID {
			continue
		}
		cause := fmt.Sprintf("storage class %s waits for the first consumer, pod %s, which has no node", class, keyOfObject(pod))
		if why := c.schedulingCauses(pod); len(why) > 0 {
			cause += " (" + strings.Join(why, "; ") + ")"
		}
		causes = append(causes, cause)
	}
	return causes
}

// podsUsing returns the pods that use a claim and have not completed.
func (c *Cluster) podsUsing(claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, o := range c.server.List("pods") {
		pod := o.(*corev1.Pod)
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !over && slices.Contains(podclaims.Keys(pod), keyOfObject(claim)) {
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(keyOfObject(a), keyOfObject(b)) })
	return pods
}

// namedVolumeCauses returns what is wrong with the volume that an unbound claim names.
func (c *Cluster) namedVolumeCauses(claim *corev1.PersistentVolumeClaim) []string {
	name := claim.Spec.VolumeName
	o, ok := c.server.Get("persistentvolumes", "", name)
	if !ok {
		return []string{fmt.Sprintf("volume %s, which the claim names, not found", name)}
	}
	volume := o.(*corev1.PersistentVolume)
	if why := unfit(volume, claim); why != "" {
		return []string{fmt.Sprintf("volume %s, which the claim names, %s", name, why)}
	}
	return nil
}

func (c *Cluster) hasVolumeOf(class string) bool {
	return slices.ContainsFunc(c.server.List("persistentvolumes"), func(o fake.Object) bool {
		return storagehelpers.GetPersistentVolumeClass(o.(*corev1.PersistentVolume)) == class
	})
}

// volumeCauses returns why no existing volume fits a claim.
func (c *Cluster) volumeCauses(claim *corev1.PersistentVolumeClaim) []string {
	var reasons []string
	volumes := c.server.List("persistentvolumes")
	for _, o := range volumes {
		why := unfit(o.(*corev1.PersistentVolume), claim)
		if why == "" {
			return nil
		}
		reasons = append(reasons, "volume "+o.GetName()+" "+why)
	}
	slices.Sort(reasons)
	switch more := len(reasons) - unfitMax; {
	case len(reasons) == 0:
		return []string{"no volume exists for it"}
	case more > 0:
		return []string{fmt.Sprintf("no volume fits: %s, and %d more", strings.Join(reasons[:unfitMax], ", "), more)}
	default:
		return []string{"no volume fits: " + strings.Join(reasons, ", ")}
	}
}

// unfit returns why a claim cannot be bound to a volume, "" if it can. It is only approximate: the
// PersistentVolume controller decides.
func unfit(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	class, wanted := storagehelpers.GetPersistentVolumeClass(volume), storagehelpers.GetPersistentVolumeClaimClass(claim)
	size, has := claim.Spec.Resources.Requests.Storage(), volume.Spec.Capacity.Storage()
	ref := volume.Spec.ClaimRef
	switch {
	case volume.DeletionTimestamp != nil:
		return "is being deleted"
	case ref != nil && (ref.Namespace != claim.Namespace || ref.Name != claim.Name || ref.UID != "" && ref.UID != claim.UID):
		if volume.Status.Phase == corev1.VolumeReleased {
			return "is Released"
		}
		return fmt.Sprintf("is reserved for claim %s", objectKey(ref.Namespace, ref.Name))
	case class != wanted && ref == nil:
		return fmt.Sprintf("has storage class %q instead of %q", class, wanted)
	case has.Cmp(*size) < 0:
		return fmt.Sprintf("has only %s of %s", has, size)
	case storagehelpers.CheckVolumeModeMismatches(&claim.Spec, &volume.Spec):
		return "has another volume mode"
	case !storagehelpers.CheckAccessModes(claim, volume):
		return fmt.Sprintf("lacks one of the access modes %v", claim.Spec.AccessModes)
	}
	selector, err := metav1.LabelSelectorAsSelector(claim.Spec.Selector)
	if claim.Spec.Selector != nil && err == nil && !selector.Matches(labels.Set(volume.Labels)) {
		return "does not match the selector"
	}
	return ""
}
