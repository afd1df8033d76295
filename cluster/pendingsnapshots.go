package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/csireq"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/invariant"
)

// snapshotResources are the resources of snapshots, by the words for their kinds.
var snapshotResources = map[string]string{
	"snapshot": snapshotapi.Snapshots.CommitName(), "snapshot content": snapshotapi.Contents.CommitName(),
	"group snapshot": snapshotapi.GroupSnapshots.CommitName(), "group snapshot content": snapshotapi.GroupContents.CommitName(),
}

// servesSnapshots reports whether the world has snapshots, and their resource has not been deleted since.
func (c *Cluster) servesSnapshots(resource string) bool {
	return c.snapshots && c.server.Serves(resource)
}

// storedObjects returns the objects of a kind that are stored, none in a world without snapshots.
func storedObjects[T any, P customresource.Object[T]](c *Cluster, kind customresource.Kind[T, P]) []P {
	if !c.servesSnapshots(kind.CommitName()) {
		return nil
	}
	var all []P
	for _, obj := range c.server.List(kind.CommitName()) {
		if typed, err := kind.Parse(obj); err == nil {
			all = append(all, typed)
		}
	}
	return all
}

// storedObject returns an object of a kind, nil if it does not exist.
func storedObject[T any, P customresource.Object[T]](c *Cluster, kind customresource.Kind[T, P], namespace, name string) P {
	if name == "" || !c.servesSnapshots(kind.CommitName()) {
		return nil
	}
	obj, ok := c.server.Get(kind.CommitName(), namespace, name)
	if !ok {
		return nil
	}
	typed, err := kind.Parse(obj)
	if err != nil {
		return nil
	}
	return typed
}

// pendingSnapshots returns what is left to do for snapshots: those that are not ready or are being deleted,
// contents with a request whose result is not known, claims that are still protected as a source, and
// claims that are made from a snapshot.
func (c *Cluster) pendingSnapshots() []invariant.PendingObject {
	if !c.snapshots {
		return nil
	}
	var pending []invariant.PendingObject
	add := func(kind string, obj metav1.Object, unfinished bool, why string) {
		if obj.GetDeletionTimestamp() != nil {
			unfinished, why = true, "is being deleted"
		}
		if unfinished {
			pending = append(pending, newPending(kind, obj, why))
		}
	}
	const notReady, requested = "is not ready to use", "has a request whose result is not known"
	for _, s := range storedObjects(c, snapshotapi.GroupSnapshots) {
		add("group snapshot", s, !s.IsReady(), notReady)
	}
	for _, content := range storedObjects(c, snapshotapi.GroupContents) {
		add("group snapshot content", content, metav1.HasAnnotation(content.ObjectMeta, snapshotapi.GroupBeingCreated), requested)
	}
	sources := map[string]bool{}
	for _, s := range storedObjects(c, snapshotapi.Snapshots) {
		add("snapshot", s, !s.IsReady(), notReady)
		if !s.IsReady() {
			sources[objectKey(s.Namespace, s.SourceClaim())] = true
		}
	}
	for _, content := range storedObjects(c, snapshotapi.Contents) {
		add("snapshot content", content, metav1.HasAnnotation(content.ObjectMeta, snapshotapi.BeingCreated), requested)
	}
	return append(pending, c.pendingSources(sources)...)
}

// pendingSources returns the claims that are protected although no snapshot of them is left to take, and
// those whose volumes are requested from a snapshot. sources are the claims with such a snapshot.
func (c *Cluster) pendingSources(sources map[string]bool) []invariant.PendingObject {
	var pending []invariant.PendingObject
	for _, obj := range c.server.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		source := snapshotapi.RestoredFrom(claim)
		switch {
		case claim.DeletionTimestamp != nil: // as PendingObjects says
		case slices.Contains(claim.Finalizers, snapshotapi.ClaimSourceFinalizer) && !sources[keyOfObject(claim)]:
			pending = append(pending, newPending("claim", claim, "is protected as the source of a snapshot that is taken"))
		case source != "" && claim.Status.Phase == corev1.ClaimPending && claim.Annotations[storagehelpers.AnnStorageProvisioner] != "":
			pending = append(pending, newPending("claim", claim, "is made from snapshot "+objectKey(claim.Namespace, source)))
		}
	}
	return pending
}

// clonedFrom returns the name of the claim of its namespace of which a claim is a clone, "" for none.
func clonedFrom(claim *corev1.PersistentVolumeClaim) string {
	if source := claim.Spec.DataSource; source != nil && source.Kind == "PersistentVolumeClaim" {
		return source.Name
	}
	return ""
}

// snapshotHandles returns the snapshots of drivers that contents name.
func (c *Cluster) snapshotHandles() []string {
	var handles []string
	add := func(handle *string) {
		if handle != nil && *handle != "" {
			handles = append(handles, *handle)
		}
	}
	for _, content := range storedObjects(c, snapshotapi.Contents) {
		add(content.Spec.Source.SnapshotHandle)
		if content.Status != nil {
			add(content.Status.SnapshotHandle)
		}
	}
	for _, content := range storedObjects(c, snapshotapi.GroupContents) {
		if existing := content.Spec.Source.GroupSnapshotHandles; existing != nil {
			handles = append(handles, existing.VolumeSnapshotHandles...)
		}
		if content.Status != nil {
			for _, member := range content.Status.VolumeSnapshotInfoList {
				add(&member.SnapshotHandle)
			}
		}
	}
	return handles
}

// withoutSnapshots returns what drivers hold without the snapshots that contents name.
func (c *Cluster) withoutSnapshots(leaks []string) []string {
	handles := c.snapshotHandles()
	return slices.DeleteFunc(leaks, func(leak string) bool {
		return slices.ContainsFunc(handles, func(handle string) bool {
			return strings.HasPrefix(leak+" ", "snapshot "+handle+" ") || strings.HasPrefix(filepath.Base(leak), handle+".") // a file of loop
		})
	})
}

// leakedSnapshots returns the snapshots that a driver of the user's own has.
func (d *csiDriver) leakedSnapshots(ctx context.Context) ([]string, error) {
	if d.builtIn || d.devices || !d.snapshots || d.stopped.Load() || !d.has.can(csispec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS) {
		return nil, nil
	}
	snapshots, err := csireq.ListSnapshots(ctx, csispec.NewControllerClient(d.controller))
	if err != nil {
		return nil, fmt.Errorf("driver %s: ListSnapshots: %w", d.Name, err)
	}
	var leaks []string
	for _, s := range snapshots {
		leaks = append(leaks, fmt.Sprintf("snapshot %s of driver %s", s.GetSnapshotId(), d.Name))
	}
	return leaks, nil
}
