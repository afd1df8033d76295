package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim/trace"
)

// notReadyCauses returns why a snapshot, a group of snapshots or a content is not ready to use; none for
// an object of another resource.
func (c *Cluster) notReadyCauses(resource string, obj fake.Object) []string {
	switch resource {
	case snapshotapi.Snapshots.CommitName():
		if s, err := snapshotapi.Snapshots.Parse(obj); err == nil {
			return c.orLastWarning(c.snapshotCauses(s), obj, s.IsReady())
		}
	case snapshotapi.GroupSnapshots.CommitName():
		if s, err := snapshotapi.GroupSnapshots.Parse(obj); err == nil {
			return c.orLastWarning(c.groupSnapshotCauses(s), obj, s.IsReady())
		}
	case snapshotapi.Contents.CommitName():
		if content, err := snapshotapi.Contents.Parse(obj); err == nil && content.Status != nil {
			return append(errorOf(content.Status.Error), c.snapshotterCauses(content.Spec.Driver)...)
		}
	case snapshotapi.GroupContents.CommitName():
		if content, err := snapshotapi.GroupContents.Parse(obj); err == nil && content.Status != nil {
			return append(errorOf(content.Status.Error), c.snapshotterCauses(content.Spec.Driver)...)
		}
	}
	return nil
}

// snapshotCauses returns why a snapshot is not ready to use.
func (c *Cluster) snapshotCauses(s *snapshotapi.VolumeSnapshot) []string {
	if s.IsReady() {
		return nil
	}
	var causes []string
	if name := s.SourceClaim(); name != "" {
		causes = c.sourceClaimCauses(s.Namespace, name)
	} else if name := s.Spec.Source.VolumeSnapshotContentName; name != nil && storedObject(c, snapshotapi.Contents, "", *name) == nil {
		causes = []string{fmt.Sprintf("snapshot content %s not found", *name)}
	}
	if len(causes) == 0 && s.Status != nil {
		causes = errorOf(s.Status.Error)
	}
	causes = append(causes, c.componentCauses(snapshotControllerName)...)
	if content := storedObject(c, snapshotapi.Contents, "", s.BoundContent()); content != nil {
		causes = append(causes, c.snapshotterCauses(content.Spec.Driver)...)
	}
	return causes
}

// groupSnapshotCauses returns why a group of snapshots is not ready to use.
func (c *Cluster) groupSnapshotCauses(s *snapshotapi.VolumeGroupSnapshot) []string {
	if s.IsReady() {
		return nil
	}
	var causes []string
	if name := s.Spec.Source.VolumeGroupSnapshotContentName; name != nil && storedObject(c, snapshotapi.GroupContents, "", *name) == nil {
		causes = []string{fmt.Sprintf("group snapshot content %s not found", *name)}
	}
	if len(causes) == 0 && s.Status != nil {
		causes = errorOf(s.Status.Error)
	}
	causes = append(causes, c.componentCauses(snapshotControllerName)...)
	if content := storedObject(c, snapshotapi.GroupContents, "", s.BoundContent()); content != nil {
		causes = append(causes, c.snapshotterCauses(content.Spec.Driver)...)
	}
	return causes
}

// errorOf returns the error of a status as a cause.
func errorOf(err *snapshotapi.Error) []string {
	if err == nil || err.Message == nil {
		return nil
	}
	return []string{shortened(*err.Message)}
}

// snapshotterCauses returns why the snapshotter of a driver does not act.
func (c *Cluster) snapshotterCauses(driver string) []string {
	if d := c.installed(driver); d != nil {
		return c.sidecarCauses(d, snapshotterName)
	}
	return []string{fmt.Sprintf("driver %s, which takes the snapshot, is not installed", driver)}
}

// sourceClaimCauses returns what is wrong with the claim of which a snapshot or a clone is made.
func (c *Cluster) sourceClaimCauses(namespace, name string) []string {
	claim, ok := c.claim(namespace, name)
	switch {
	case !ok:
		return []string{fmt.Sprintf("claim %s, its source, not found", objectKey(namespace, name))}
	case claim.Status.Phase != corev1.ClaimBound:
		return []string{fmt.Sprintf("claim %s, its source, is %s", keyOfObject(claim), claim.Status.Phase)}
	}
	return nil
}

// sourceCauses returns what keeps a volume from being made from the data source of a claim.
//
// Upstream: external-provisioner pkg/controller getSnapshotSource, getPVCSource (6.3.0), for what is
// checked.
func (c *Cluster) sourceCauses(claim *corev1.PersistentVolumeClaim) []string {
	if name := clonedFrom(claim); name != "" {
		return c.sourceClaimCauses(claim.Namespace, name)
	}
	name := snapshotapi.RestoredFrom(claim)
	if name == "" {
		return nil
	}
	noun := "snapshot " + objectKey(claim.Namespace, name)
	if !c.snapshots {
		return []string{noun + ", its source, is not served (see Config.Snapshots)"}
	}
	s := storedObject(c, snapshotapi.Snapshots, claim.Namespace, name)
	switch {
	case s == nil:
		return []string{noun + ", its source, not found"}
	case s.DeletionTimestamp != nil:
		return []string{noun + ", its source, is being deleted"}
	case !s.IsReady():
		cause := noun + " is not ready"
		if why := c.snapshotCauses(s); len(why) > 0 {
			cause += " (" + strings.Join(why, "; ") + ")"
		}
		return []string{cause}
	}
	requested := claim.Spec.Resources.Requests.Storage()
	if least := s.Status.RestoreSize; least != nil && requested.Cmp(*least) < 0 {
		return []string{fmt.Sprintf("it requests %s, and %s needs %s", requested, noun, least)}
	}
	return nil
}

// snapshotFinalizerCauses returns what still needs an object that has a finalizer of snapshots.
func (c *Cluster) snapshotFinalizerCauses(finalizer string, obj fake.Object) []string {
	var causes []string
	switch finalizer {
	case snapshotapi.ClaimSourceFinalizer:
		for _, s := range storedObjects(c, snapshotapi.Snapshots) {
			if s.Namespace == obj.GetNamespace() && s.SourceClaim() == obj.GetName() && !s.IsReady() {
				causes = append(causes, "snapshot "+keyOfObject(s)+" of the claim is not ready to use")
			}
		}
	case snapshotapi.SourceFinalizer, snapshotapi.ProvisionerFinalizer:
		causes = c.restoringCauses(obj)
	case snapshotapi.CloneFinalizer:
		for _, claim := range c.unboundClaims(obj.GetNamespace()) {
			if clonedFrom(claim) == obj.GetName() {
				causes = append(causes, "claim "+keyOfObject(claim)+" is made from it")
			}
		}
	case snapshotapi.InGroupFinalizer:
		causes = c.groupCauses(obj)
	case snapshotapi.BoundFinalizer:
		if s, err := snapshotapi.Snapshots.Parse(obj); err == nil {
			causes = c.contentCauses(snapshotapi.Contents.CommitName(), s.BoundContent())
		}
	case snapshotapi.GroupBoundFinalizer:
		if s, err := snapshotapi.GroupSnapshots.Parse(obj); err == nil {
			causes = c.contentCauses(snapshotapi.GroupContents.CommitName(), s.BoundContent())
		}
	case snapshotapi.ContentFinalizer, snapshotapi.GroupContentFinalizer:
		causes = c.heldContentCauses(obj)
	}
	return causes
}

// contentCauses returns why the content of a deleted snapshot exists, as one cause; none if it does not exist.
func (c *Cluster) contentCauses(resource, name string) []string {
	if !c.servesSnapshots(resource) {
		return nil
	}
	content, ok := c.server.Get(resource, "", name)
	if !ok {
		return nil
	}
	cause := trace.ObjectName(resource+"/"+name) + " exists"
	if content.GetDeletionTimestamp() != nil {
		cause += ": " + strings.Join(c.goneCauses(resource, content), "; ")
	}
	return []string{cause}
}

// heldContentCauses returns why a csi-snapshotter does not let a deleted content go.
//
// Upstream: external-snapshotter pkg/sidecar-controller shouldDelete (8.7.0).
func (c *Cluster) heldContentCauses(obj fake.Object) []string {
	annotations := obj.GetAnnotations()
	var causes []string
	if content, err := snapshotapi.Contents.Parse(obj); err == nil && annotations[snapshotapi.BeingDeleted] == "" {
		ref := content.Spec.VolumeSnapshotRef
		if s := storedObject(c, snapshotapi.Snapshots, ref.Namespace, ref.Name); s != nil && content.PointsTo(s) {
			causes = append(causes, "snapshot "+keyOfObject(s)+" is bound to it")
		}
	}
	if annotations[snapshotapi.BeingCreated]+annotations[snapshotapi.GroupBeingCreated] != "" {
		causes = append(causes, "the result of its last request to the driver is not known")
	}
	return c.orLastWarning(causes, obj, false)
}

// unboundClaims returns the claims of a namespace that have no volume.
func (c *Cluster) unboundClaims(namespace string) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, obj := range c.server.List("persistentvolumeclaims") {
		if claim := obj.(*corev1.PersistentVolumeClaim); claim.Namespace == namespace && claim.Status.Phase != corev1.ClaimBound {
			claims = append(claims, claim)
		}
	}
	return claims
}

// restoringCauses returns the claims that are made from a snapshot.
func (c *Cluster) restoringCauses(snapshot metav1.Object) []string {
	var causes []string
	for _, claim := range c.unboundClaims(snapshot.GetNamespace()) {
		if snapshotapi.RestoredFrom(claim) == snapshot.GetName() {
			causes = append(causes, "claim "+keyOfObject(claim)+" is made from it")
		}
	}
	return causes
}

// groupCauses returns the group of which a snapshot is a member, if it exists.
func (c *Cluster) groupCauses(obj fake.Object) []string {
	s, err := snapshotapi.Snapshots.Parse(obj)
	if err != nil {
		return nil
	}
	name, _ := s.OwningGroup()
	if name == "" {
		name = s.GroupName()
	}
	if storedObject(c, snapshotapi.GroupSnapshots, s.Namespace, name) == nil {
		return nil
	}
	return []string{"it is a member of group snapshot " + objectKey(s.Namespace, name)}
}

// snapshotSidecar returns the driver and the kind of the sidecar that removes a finalizer of an object of
// snapshots; kind is "" for another finalizer.
func (c *Cluster) snapshotSidecar(finalizer string, obj fake.Object) (driver, kind string) {
	switch finalizer {
	case snapshotapi.ContentFinalizer:
		if content, err := snapshotapi.Contents.Parse(obj); err == nil {
			return content.Spec.Driver, snapshotterName
		}
	case snapshotapi.GroupContentFinalizer:
		if content, err := snapshotapi.GroupContents.Parse(obj); err == nil {
			return content.Spec.Driver, snapshotterName
		}
	case snapshotapi.ProvisionerFinalizer:
		if s, err := snapshotapi.Snapshots.Parse(obj); err == nil {
			if content := storedObject(c, snapshotapi.Contents, "", s.BoundContent()); content != nil {
				return content.Spec.Driver, "provisioner"
			}
		}
	case snapshotapi.CloneFinalizer:
		if claim, is := obj.(*corev1.PersistentVolumeClaim); is {
			if v, ok := c.server.Get("persistentvolumes", "", claim.Spec.VolumeName); ok && v.(*corev1.PersistentVolume).Spec.CSI != nil {
				return v.(*corev1.PersistentVolume).Spec.CSI.Driver, "provisioner"
			}
		}
	}
	return "", ""
}
