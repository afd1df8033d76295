package snapshotter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/snapshotapi"
)

// annotated is the value of the annotation of contents whose snapshot is requested.
const annotated = "yes"

// createSnapshot requests a snapshot and writes into the content's status what the driver reports.
//
// Upstream: external-snapshotter pkg/sidecar-controller createSnapshotWrapper (8.7.0).
func (c *Controller) createSnapshot(ctx context.Context, content *snapshotapi.VolumeSnapshotContent) error {
	class, secrets, err := c.createInput(ctx, content)
	if err != nil {
		return fmt.Errorf("failed to get input parameters to create snapshot for content %s: %q", content.Name, err)
	}
	content, err = c.contents.annotate(ctx, content, snapshotapi.BeingCreated, ptr.To(annotated))
	if err != nil {
		return fmt.Errorf("failed to add VolumeSnapshotBeingCreated annotation on the content %s: %q", content.Name, err)
	}
	parameters, err := snapshotapi.DriverParameters(class.Parameters)
	if err != nil {
		return fmt.Errorf("failed to remove CSI Parameters of prefixed keys: %w", err)
	}
	if c.cfg.ExtraCreateMetadata {
		parameters[snapshotapi.ReservedPrefix+"volumesnapshot/name"] = content.Spec.VolumeSnapshotRef.Name
		parameters[snapshotapi.ReservedPrefix+"volumesnapshot/namespace"] = content.Spec.VolumeSnapshotRef.Namespace
		parameters[snapshotapi.ReservedPrefix+"volumesnapshotcontent/name"] = content.Name
	}
	taken, err := c.requestSnapshot(ctx, content, parameters, secrets)
	if err != nil {
		if isFinal(err) {
			if _, err := c.contents.annotate(ctx, content, snapshotapi.BeingCreated, nil); err != nil {
				return fmt.Errorf("failed to remove VolumeSnapshotBeingCreated annotation from the content %s: %w", content.Name, err)
			}
		}
		return fmt.Errorf("failed to take snapshot of the volume %s: %q", *content.Spec.Source.VolumeHandle, err)
	}
	updated, err := c.writeStatus(ctx, content, taken)
	if err != nil {
		return fmt.Errorf("error updating status for volume snapshot content %s: %w", content.Name, err)
	}
	if _, err = c.contents.annotate(ctx, updated, snapshotapi.BeingCreated, nil); err != nil {
		return fmt.Errorf("failed to remove VolumeSnapshotBeingCreated annotation on the content %s: %q", content.Name, err)
	}
	return nil
}

// createInput returns the class and the secrets of a request for a snapshot.
//
// Upstream: external-snapshotter pkg/sidecar-controller getCSISnapshotInput (8.7.0).
func (c *Controller) createInput(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent,
) (*snapshotapi.VolumeSnapshotClass, map[string]string, error) {
	name := content.Spec.VolumeSnapshotClassName
	if name == nil {
		return nil, nil, fmt.Errorf("failed to take snapshot %s without a snapshot class", content.Name)
	}
	class, err := c.class(*name)
	if err != nil {
		return nil, nil, err
	}
	secrets, err := c.annotatedSecrets(ctx, content)
	return class, secrets, err
}

// class returns a class.
func (c *Controller) class(name string) (*snapshotapi.VolumeSnapshotClass, error) {
	class := c.classes.Get("", name)
	if class == nil {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: snapshotapi.Group, Resource: "volumesnapshotclass"}, name)
	}
	return class, nil
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// requestSnapshot calls the driver. The same content makes the same request.
//
// Upstream: external-snapshotter pkg/sidecar-controller csiHandler.CreateSnapshot (8.7.0).
func (c *Controller) requestSnapshot(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, parameters, secrets map[string]string,
) (snapshot, error) {
	uid := content.Spec.VolumeSnapshotRef.UID
	if uid == "" {
		return snapshot{}, fmt.Errorf("cannot create snapshot. Snapshot content %s not bound to a snapshot", content.Name)
	}
	response, err := c.driver.CreateSnapshot(ctx, &csispec.CreateSnapshotRequest{
		SourceVolumeId: *content.Spec.Source.VolumeHandle, Parameters: parameters, Secrets: secrets,
		Name: requestName(c.cfg.NamePrefix, uid, c.cfg.NameUUIDLength),
	})
	if err != nil {
		return snapshot{}, err
	}
	taken := reported(response.GetSnapshot())
	taken.group = "" // that of a request of its own
	return taken, nil
}

// requestName returns the name by which a driver knows a request.
//
// Upstream: external-snapshotter pkg/sidecar-controller makeSnapshotName (8.7.0).
func requestName(prefix string, uid types.UID, length int) string {
	if length == 0 {
		return prefix + "-" + string(uid)
	}
	short := strings.ReplaceAll(string(uid), "-", "")
	return prefix + "-" + short[:min(length, len(short))]
}

// isFinal reports whether a driver has finished with an error: the snapshot does not exist and is not
// being taken.
//
// Upstream: external-snapshotter pkg/sidecar-controller isCSIFinalError (8.7.0).
func isFinal(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return false // the driver was not reached, and an earlier call may still run
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	default:
		return true
	}
}

// A snapshot is what a driver reports of one.
type snapshot struct {
	handle  string
	created time.Time // zero: not reported
	size    int64     // 0: not reported
	ready   bool
	group   string // handle, "": none
}

func reported(s *csispec.Snapshot) snapshot {
	return snapshot{
		handle: s.GetSnapshotId(), created: s.GetCreationTime().AsTime(), size: s.GetSizeBytes(),
		ready: s.GetReadyToUse(), group: s.GetGroupSnapshotId(),
	}
}

// listSnapshot looks up a snapshot that exists, and writes into the content's status what the driver
// reports.
//
// Upstream: external-snapshotter pkg/sidecar-controller checkandUpdateContentStatusOperation (8.7.0).
func (c *Controller) listSnapshot(ctx context.Context, content *snapshotapi.VolumeSnapshotContent) error {
	secrets, err := c.listSecrets(ctx, content)
	if err != nil {
		return err
	}
	found, err := c.lookUp(ctx, content, secrets)
	if err != nil {
		return fmt.Errorf("failed to list snapshot for content %s: %q", content.Name, err)
	}
	if source := content.Spec.Source.SnapshotHandle; source != nil {
		found.handle = *source
	} else {
		found.handle = *content.Status.SnapshotHandle
	}
	_, err = c.writeStatus(ctx, content, found)
	return err
}

// lookUp asks the driver for a snapshot. A driver that cannot list snapshots is assumed to have it.
//
// Upstream: external-snapshotter pkg/snapshotter GetSnapshotStatus (8.7.0).
func (c *Controller) lookUp(
	ctx context.Context, content *snapshotapi.VolumeSnapshotContent, secrets map[string]string,
) (snapshot, error) {
	capabilities, err := c.driver.Capabilities(ctx)
	if err != nil {
		return snapshot{}, fmt.Errorf("failed to check if ListSnapshots is supported: %w", err)
	}
	if !capabilities[csispec.ControllerServiceCapability_RPC_LIST_SNAPSHOTS] {
		return snapshot{ready: true}, nil
	}
	handle := handleOf(content)
	response, err := c.driver.ListSnapshots(ctx, &csispec.ListSnapshotsRequest{SnapshotId: handle, Secrets: secrets})
	if err != nil {
		return snapshot{}, err
	}
	if len(response.GetEntries()) == 0 {
		return snapshot{}, errors.New("can not find snapshot for snapshotID " + handle)
	}
	return reported(response.GetEntries()[0].GetSnapshot()), nil
}

// handleOf returns the handle of a content's snapshot: as reported, else as an administrator has
// written it.
func handleOf(content *snapshotapi.VolumeSnapshotContent) string {
	if content.Status != nil && content.Status.SnapshotHandle != nil {
		return *content.Status.SnapshotHandle
	}
	return ptr.Deref(content.Spec.Source.SnapshotHandle, "")
}
