package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// A group is what a driver reports of one.
type group struct {
	handle  string
	created time.Time
	ready   bool
	members []*csispec.Snapshot
}

// createGroup requests the snapshots of a group, and writes into the content's status what the driver
// reports.
//
// Upstream: external-snapshotter pkg/sidecar-controller createGroupSnapshotWrapper (8.7.0).
func (c *Controller) createGroup(ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent) error {
	class, secrets, err := c.createGroupInput(ctx, content)
	if err != nil {
		return fmt.Errorf("failed to get input parameters to create group snapshot for group snapshot content %s: %q", content.Name, err)
	}
	content, err = c.groupContents.annotate(ctx, content, snapshotapi.GroupBeingCreated, ptr.To(annotated))
	if err != nil {
		return fmt.Errorf("failed to add VolumeGroupSnapshotBeingCreated annotation on the group snapshot content %s: %q", content.Name, err)
	}
	parameters, err := snapshotapi.DriverParameters(class.Parameters)
	if err != nil {
		return fmt.Errorf("failed to remove CSI Parameters of prefixed keys: %w", err)
	}
	if c.cfg.ExtraCreateMetadata {
		parameters[snapshotapi.ReservedPrefix+"volumegroupsnapshot/name"] = content.Spec.VolumeGroupSnapshotRef.Name
		parameters[snapshotapi.ReservedPrefix+"volumegroupsnapshot/namespace"] = content.Spec.VolumeGroupSnapshotRef.Namespace
		parameters[snapshotapi.ReservedPrefix+"volumegroupsnapshotcontent/name"] = content.Name
	}
	taken, err := c.requestGroup(ctx, content, parameters, secrets)
	if err != nil {
		if isFinal(err) {
			if _, err := c.groupContents.annotate(ctx, content, snapshotapi.GroupBeingCreated, nil); err != nil {
				return fmt.Errorf("failed to remove VolumeGroupSnapshotBeingCreated annotation from the group snapshot content %s: %w", content.Name, err)
			}
		}
		return fmt.Errorf("failed to take group snapshot of the volumes %s: %q", content.Spec.Source.VolumeHandles, err)
	}
	updated, err := c.writeGroupStatus(ctx, content, taken)
	if err != nil {
		return fmt.Errorf("error updating status for volume group snapshot content %s: %w", content.Name, err)
	}
	if _, err = c.groupContents.annotate(ctx, updated, snapshotapi.GroupBeingCreated, nil); err != nil {
		return fmt.Errorf("failed to remove VolumeGroupSnapshotBeingCreated annotation on the groupSnapshotContent %s: %q", content.Name, err)
	}
	return nil
}

// createGroupInput returns the class and the secrets of a request for the snapshots of a group.
//
// Upstream: external-snapshotter pkg/sidecar-controller getCSIGroupSnapshotInput (8.7.0).
func (c *Controller) createGroupInput(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent,
) (*snapshotapi.VolumeGroupSnapshotClass, map[string]string, error) {
	name := content.Spec.VolumeGroupSnapshotClassName
	if name == nil {
		return nil, nil, fmt.Errorf("failed to take group snapshot %s without a group snapshot class", content.Name)
	}
	class, err := c.groupClass(*name)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := c.annotatedGroupSecrets(ctx, content)
	return class, secrets, err
}

// groupClass returns the class of groups of a name.
func (c *Controller) groupClass(name string) (*snapshotapi.VolumeGroupSnapshotClass, error) {
	class := c.groupClasses.Get("", name)
	if class == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: snapshotapi.GroupGroup, Resource: "volumegroupsnapshotclass"}, name)
	}
	return class, nil
}

// annotatedGroupSecrets is annotatedSecrets for the content of a group.
//
// Upstream: external-snapshotter pkg/sidecar-controller GetCredentialsFromAnnotationForGroupSnapshot
// (8.7.0).
func (c *Controller) annotatedGroupSecrets(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent,
) (map[string]string, error) {
	secrets, err := c.secretsIn(ctx, content, snapshotapi.GroupSecretName, snapshotapi.GroupSecretNamespace)
	switch {
	case errors.Is(err, errUnnamed):
		return nil, fmt.Errorf("cannot retrieve secrets for group snapshot content %q, err: %w", content.Name, err)
	case err != nil:
		return nil, fmt.Errorf("cannot get credentials for group snapshot content %q", content.Name)
	}
	return secrets, nil
}

// requestGroup calls the driver. The same content makes the same request.
//
// Upstream: external-snapshotter pkg/sidecar-controller csiHandler.CreateGroupSnapshot (8.7.0).
func (c *Controller) requestGroup(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent, parameters, secrets map[string]string,
) (group, error) {
	uid := content.Spec.VolumeGroupSnapshotRef.UID
	if uid == "" {
		return group{}, fmt.Errorf("cannot create group snapshot. Group snapshot content %s not bound to a group snapshot", content.Name)
	}
	response, err := c.group.CreateVolumeGroupSnapshot(ctx, &csispec.CreateVolumeGroupSnapshotRequest{
		SourceVolumeIds: content.Spec.Source.VolumeHandles, Parameters: parameters, Secrets: secrets,
		Name: requestName(c.cfg.GroupNamePrefix, uid, c.cfg.GroupNameUUIDLength),
	})
	if err != nil {
		return group{}, err
	}
	taken := response.GetGroupSnapshot()
	return group{
		handle: taken.GetGroupSnapshotId(), created: taken.GetCreationTime().AsTime(), ready: taken.GetReadyToUse(),
		members: taken.GetSnapshots(),
	}, nil
}

// getGroup looks up a group that exists, and writes into the content's status what the driver reports.
//
// Upstream: external-snapshotter pkg/sidecar-controller
// checkandUpdateGroupSnapshotContentStatusOperation (8.7.0).
func (c *Controller) getGroup(ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent) error {
	secrets, err := c.getGroupSecrets(ctx, content)
	if err != nil {
		return err
	}
	source := content.Spec.Source.GroupSnapshotHandles
	if len(source.VolumeSnapshotHandles) == 0 {
		return fmt.Errorf("cannot list group snapshot %s. No snapshots found in the group snapshot content", content.Name)
	}
	response, err := c.group.GetVolumeGroupSnapshot(ctx, &csispec.GetVolumeGroupSnapshotRequest{
		GroupSnapshotId: groupHandleOf(content), SnapshotIds: source.VolumeSnapshotHandles, Secrets: secrets,
	})
	if err != nil {
		return fmt.Errorf("failed to list group snapshot for group snapshot content %s: %q", content.Name, err)
	}
	found := response.GetGroupSnapshot()
	_, err = c.writeGroupStatus(ctx, content, group{
		handle: source.VolumeGroupSnapshotHandle, created: found.GetCreationTime().AsTime(), ready: found.GetReadyToUse(),
	})
	return err
}

// getGroupSecrets returns the secrets for looking up a group, which the class names.
func (c *Controller) getGroupSecrets(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent,
) (map[string]string, error) {
	name := content.Spec.VolumeGroupSnapshotClassName
	if name == nil {
		return nil, nil
	}
	class, err := c.groupClass(*name)
	if err != nil {
		return nil, fmt.Errorf("failed to get group snapshot class %s for group snapshot content %s: %w", *name, content.Name, err)
	}
	values := map[string]string{"volumegroupsnapshotcontent.name": content.Name}
	ref, err := snapshotapi.GroupGetSecret.Reference(class.Parameters, values, values)
	if err != nil {
		return nil, fmt.Errorf("failed to get secret reference for group snapshot content %s: %w", content.Name, err)
	}
	secrets, err := c.secrets(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("failed to get credentials for group snapshot content %s: %w", content.Name, err)
	}
	return secrets, nil
}

// groupHandleOf is handleOf for the content of a group.
func groupHandleOf(content *snapshotapi.VolumeGroupSnapshotContent) string {
	if content.Status != nil && content.Status.VolumeGroupSnapshotHandle != nil {
		return *content.Status.VolumeGroupSnapshotHandle
	}
	if source := content.Spec.Source.GroupSnapshotHandles; source != nil {
		return source.VolumeGroupSnapshotHandle
	}
	return ""
}

// writeGroupStatus writes into a content's status what a driver has reported, if it is news.
//
// Upstream: external-snapshotter pkg/sidecar-controller updateGroupSnapshotContentStatus (8.7.0).
func (c *Controller) writeGroupStatus(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent, found group,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	stored, err := c.groupContents.read(ctx, content.Name)
	if err != nil {
		return nil, fmt.Errorf("error get group snapshot content %s from api server: %w", content.Name, err)
	}
	status, changed := withGroup(stored.Status, found)
	if !changed {
		return stored, nil
	}
	return c.groupContents.patchStatus(ctx, stored, stored.Status, status)
}

// withGroup is withSnapshot for the content of a group.
func withGroup(was *snapshotapi.GroupContentStatus, found group) (is *snapshotapi.GroupContentStatus, changed bool) {
	is = &snapshotapi.GroupContentStatus{}
	if was != nil {
		*is = *was
	}
	changed = was == nil
	if is.VolumeGroupSnapshotHandle == nil {
		is.VolumeGroupSnapshotHandle, changed = &found.handle, true
	}
	if is.ReadyToUse == nil || *is.ReadyToUse != found.ready {
		is.ReadyToUse, changed = &found.ready, true
		if found.ready {
			is.Error = nil
		}
	}
	if is.CreationTime == nil {
		is.CreationTime, changed = ptr.To(metav1.NewTime(found.created)), true
	}
	if len(is.VolumeSnapshotInfoList) == 0 && len(found.members) > 0 {
		changed = true
		for _, member := range found.members {
			is.VolumeSnapshotInfoList = append(is.VolumeSnapshotInfoList, memberInfo(member))
		}
	}
	return is, changed
}

// memberInfo returns what a driver has reported of a member of a group.
//
// Upstream: external-snapshotter pkg/utils CSITimestampToKubernetes, CSISizeToKubernetes (8.7.0).
func memberInfo(member *csispec.Snapshot) snapshotapi.SnapshotInfo {
	info := snapshotapi.SnapshotInfo{
		VolumeHandle: member.GetSourceVolumeId(), SnapshotHandle: member.GetSnapshotId(),
		ReadyToUse: ptr.To(member.GetReadyToUse()),
	}
	if created := member.GetCreationTime(); created != nil {
		info.CreationTime = ptr.To(created.AsTime().UnixNano())
	}
	if size := member.GetSizeBytes(); size != 0 {
		info.RestoreSize = &size
	}
	return info
}

// removeGroup removes the snapshots of a group if the policy of its content says so, and the content's
// finalizer.
//
// Upstream: external-snapshotter pkg/sidecar-controller syncGroupSnapshotContent (8.7.0).
func (c *Controller) removeGroup(ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent) error {
	status := content.Status
	if content.Spec.DeletionPolicy == snapshotapi.Delete && status != nil && status.VolumeGroupSnapshotHandle != nil {
		var err error
		if content, err = c.deleteGroup(ctx, content); err != nil {
			return err
		}
	}
	return c.groupContents.release(ctx, content, snapshotapi.GroupContentFinalizer)
}

// deleteGroup calls the driver, and forgets the group in the content's status.
//
// Upstream: external-snapshotter pkg/sidecar-controller deleteCSIGroupSnapshotOperation,
// clearGroupSnapshotContentStatus (8.7.0).
func (c *Controller) deleteGroup(
	ctx context.Context, content *snapshotapi.VolumeGroupSnapshotContent,
) (*snapshotapi.VolumeGroupSnapshotContent, error) {
	secrets, err := c.annotatedGroupSecrets(ctx, content)
	if err != nil {
		c.groupContents.warn(content, reasonGroupDelete, "Failed to get snapshot credentials")
		return nil, fmt.Errorf("failed to get input parameters to delete group snapshot for group snapshot content %s: %q", content.Name, err)
	}
	members := membersOf(content)
	if len(members) == 0 {
		err = fmt.Errorf("cannot delete group snapshot content %s. No snapshots found in the group snapshot", content.Name)
	} else {
		_, err = c.group.DeleteVolumeGroupSnapshot(ctx, &csispec.DeleteVolumeGroupSnapshotRequest{
			GroupSnapshotId: groupHandleOf(content), SnapshotIds: members, Secrets: secrets,
		})
	}
	if err != nil {
		c.groupContents.warn(content, reasonGroupDelete, "Failed to delete group snapshot")
		return nil, fmt.Errorf("failed to delete group snapshot %q, err: %w", content.Name, err)
	}
	cleared := *content.Status
	cleared.VolumeGroupSnapshotHandle, cleared.ReadyToUse, cleared.CreationTime, cleared.Error = nil, nil, nil, nil
	updated, err := c.groupContents.patchStatus(ctx, content, content.Status, cleared)
	if err != nil {
		c.groupContents.warn(content, reasonGroupDelete, "Failed to clear content status")
		return nil, err
	}
	return updated, nil
}

// membersOf returns the handles of the members of a group: as reported, else as an administrator has
// written them.
func membersOf(content *snapshotapi.VolumeGroupSnapshotContent) []string {
	var handles []string
	for _, info := range content.Status.VolumeSnapshotInfoList {
		handles = append(handles, info.SnapshotHandle)
	}
	if source := content.Spec.Source.GroupSnapshotHandles; len(handles) == 0 && source != nil {
		handles = slices.Clone(source.VolumeSnapshotHandles)
	}
	return handles
}
