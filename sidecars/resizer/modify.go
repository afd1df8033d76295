package resizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/resize"
)

// The reasons of the events about modifications.
//
// Upstream: external-resizer pkg/util VolumeModify, VolumeModifyFailed, VolumeModifySuccess,
// VolumeModifyCancelled (2.3.0).
const (
	reasonModifying       = "VolumeModify"
	reasonModifyFailed    = "VolumeModifyFailed"
	reasonModifySucceeded = "VolumeModifySuccessful"
	reasonModifyCancelled = "VolumeModifyCanceled"
)

// The annotations of a volume that name the secret for ControllerModifyVolume.
//
// Upstream: external-resizer pkg/modifier modifySecretNameAnn, modifySecretNamespaceAnn (2.3.0).
const (
	modifySecretNameAnnotation      = "volume.kubernetes.io/controller-modify-secret-name"
	modifySecretNamespaceAnnotation = "volume.kubernetes.io/controller-modify-secret-namespace"
)

// The parameters of Config.ExtraModifyMetadata.
//
// Upstream: external-resizer pkg/modifycontroller pvcNameKey, pvcNamespaceKey, pvNameKey (2.3.0).
const (
	claimNameKey      = "csi.storage.k8s.io/pvc/name"
	claimNamespaceKey = "csi.storage.k8s.io/pvc/namespace"
	volumeNameKey     = "csi.storage.k8s.io/pv/name"
)

// modify gives the volume of a claim the attributes of its class, if necessary.
//
// Upstream: external-resizer pkg/modifycontroller syncPVC, modify (2.3.0).
func (m *modifier) modify(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	claim, err := m.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil || !needsModification(claim) {
		return nil //nolint:nilerr // deleted
	}
	volume, err := m.volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		//lint:ignore ST1005 the text is upstream's
		return fmt.Errorf("Get PV %q of pvc %q in PVInformer cache failed: %w", claim.Spec.VolumeName, key, err)
	}
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != m.cfg.DriverName || m.isDelayed(claim) {
		return nil
	}
	capabilities, err := m.driver.Capabilities(ctx)
	if err != nil || !capabilities[csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME] {
		return err
	}
	switch decideModification(claim, m.isSettled(claim)) {
	case modificationCancel:
		return m.cancel(ctx, claim)
	case modificationResume:
		return m.resume(ctx, claim, volume)
	case modificationBegin:
		return m.begin(ctx, claim, volume)
	default:
		return nil
	}
}

// A modification is what must be done next with a claim.
type modification int

const (
	modificationNone   modification = iota
	modificationCancel              // no class is requested: the last modification failed, or waits for its class
	modificationResume              // continue to the target in the status
	modificationBegin               // begin with the requested class
)

// decideModification returns what must be done next. settled states that the driver has finished
// with the target in the status, so that it may be given another one.
//
// Upstream: external-resizer pkg/modifycontroller modify (2.3.0).
func decideModification(claim *corev1.PersistentVolumeClaim, settled bool) modification {
	wanted := requestedClass(claim)
	switch {
	case claim.Status.ModifyVolumeStatus == nil && wanted == currentClass(claim):
		return modificationNone
	case wanted == "" && !isModifying(claim):
		return modificationCancel
	case isModifying(claim) && (wanted == "" || !settled):
		return modificationResume
	default:
		return modificationBegin
	}
}

// cancel removes the condition that a volume is being modified, if there is one.
//
// Upstream: external-resizer pkg/modifycontroller rolledBack (2.3.0).
func (m *modifier) cancel(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonModifyCancelled, "Cancelled modify.")
	_, err := resize.Patch(ctx, m.cfg.Client, claim, modificationCancelled(claim), true)
	return err
}

// begin modifies a volume to the class that its claim requests. Without the class the claim waits;
// see classAdded.
//
// Upstream: external-resizer pkg/modifycontroller validateVACAndModifyVolumeWithTarget (2.3.0).
func (m *modifier) begin(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
) error {
	class, err := m.class(claim, requestedClass(claim))
	if err != nil {
		_, err = resize.Patch(ctx, m.cfg.Client, claim, modificationPending(claim), false)
		return err
	}
	claim, err = resize.Patch(ctx, m.cfg.Client, claim, modificationBegun(claim, m.now()), false)
	if err != nil {
		return fmt.Errorf("mark PVC %q as modify volume failed, errored with: %w", claim.Name, err)
	}
	m.settled[claim.UID] = class.Name
	if _, again := m.infeasible[claim.UID]; !again {
		m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonModifying,
			fmt.Sprintf("external resizer is modifying volume %s with vac %s", claim.Name, class.Name))
	}
	return m.apply(ctx, claim, volume, class)
}

// resume continues a modification whose result is unknown. The requested class may have changed
// since.
func (m *modifier) resume(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
) error {
	class, err := m.class(claim, targetClass(claim))
	if err != nil {
		return err
	}
	return m.apply(ctx, claim, volume, class)
}

// class returns a VolumeAttributesClass, and reports if it does not exist.
//
// Upstream: external-resizer pkg/modifycontroller getTargetVAC (2.3.0).
func (m *modifier) class(claim *corev1.PersistentVolumeClaim, name string) (*storagev1.VolumeAttributesClass, error) {
	class, err := m.classes.Get(name)
	if err == nil {
		return class, nil
	}
	if apierrors.IsNotFound(err) {
		m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonModifyFailed, fmt.Sprintf("VAC %q does not exist.", name))
	}
	return nil, fmt.Errorf("get VAC with vac name %s in VACInformer cache failed: %w", name, err)
}

// apply calls the driver, and records the result.
//
// Upstream: external-resizer pkg/modifycontroller controllerModifyVolumeWithTarget (2.3.0).
func (m *modifier) apply(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
	class *storagev1.VolumeAttributesClass,
) error {
	request, err := m.request(ctx, claim, volume, class)
	if err != nil {
		return fmt.Errorf("cannot get error status from modify volume err: %w", err)
	}
	delete(m.settled, claim.UID)
	if _, err := m.driver.ControllerModifyVolume(ctx, request); err != nil {
		return m.fail(ctx, claim, class.Name, err)
	}
	m.settled[claim.UID] = class.Name
	delete(m.infeasible, claim.UID)
	if err := m.finish(ctx, claim, volume, class.Name); err != nil {
		return fmt.Errorf("modify volume failed to mark pvc %s modify volume completed: %w", claim.Name, err)
	}
	m.cfg.Recorder.Event(claim, corev1.EventTypeNormal, reasonModifySucceeded,
		fmt.Sprintf("external resizer modified volume %s with vac %s successfully", claim.Name, class.Name))
	return nil
}

// request returns the request for a class.
//
// Upstream: external-resizer pkg/modifycontroller callModifyVolumeOnPlugin, pkg/modifier Modify
// (2.3.0).
func (m *modifier) request(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume,
	class *storagev1.VolumeAttributesClass,
) (*csispec.ControllerModifyVolumeRequest, error) {
	if volume.Spec.CSI.VolumeHandle == "" {
		return nil, errors.New("empty volume handle")
	}
	secrets, err := m.secrets(ctx, modifySecret(volume))
	if err != nil {
		return nil, err
	}
	parameters := class.Parameters
	if m.cfg.ExtraModifyMetadata {
		parameters = map[string]string{}
		maps.Copy(parameters, class.Parameters)
		parameters[claimNameKey], parameters[claimNamespaceKey] = claim.Name, claim.Namespace
		parameters[volumeNameKey] = volume.Name
	}
	return &csispec.ControllerModifyVolumeRequest{
		VolumeId: volume.Spec.CSI.VolumeHandle, Secrets: secrets, MutableParameters: parameters,
	}, nil
}

// modifySecret returns the secret for ControllerModifyVolume; nil if there is none. Without one of
// its own it is the one for expansion.
//
// Upstream: external-resizer pkg/modifier getModifyCredentials (2.3.0).
func modifySecret(volume *corev1.PersistentVolume) *corev1.SecretReference {
	own := corev1.SecretReference{
		Name:      volume.Annotations[modifySecretNameAnnotation],
		Namespace: volume.Annotations[modifySecretNamespaceAnnotation],
	}
	if own.Name != "" && own.Namespace != "" {
		return &own
	}
	return volume.Spec.CSI.ControllerExpandSecretRef
}

// finish writes the class to the volume, then to the claim's status: a claim that says that it is
// modified has a volume that says so.
//
// Differs: upstream does not write a class to the volume that its cache of volumes, which may be
// stale, already shows there.
//
// Upstream: external-resizer pkg/modifycontroller markControllerModifyVolumeCompleted (2.3.0).
func (m *modifier) finish(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, class string,
) error {
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"volumeAttributesClassName": class}})
	if err != nil {
		return err
	}
	_, err = m.cfg.Client.CoreV1().PersistentVolumes().
		Patch(ctx, volume.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("update pv.Spec.VolumeAttributesClassName for PVC %q failed, errored with: %w", claim.Name, err)
	}
	_, err = resize.Patch(ctx, m.cfg.Client, claim, modificationFinished(claim, class), true)
	if err != nil {
		return fmt.Errorf("mark PVC %q as ModifyVolumeCompleted failed, errored with: %w", claim.Name, err)
	}
	return nil
}

// fail records an error of the driver. A driver that was not reached has no status to record.
func (m *modifier) fail(ctx context.Context, claim *corev1.PersistentVolumeClaim, class string, err error) error {
	if _, ok := status.FromError(err); !ok {
		return fmt.Errorf("cannot get error status from modify volume err: %w", err)
	}
	final, infeasible := classifyModifyError(err)
	text := err.Error()
	if final {
		m.settled[claim.UID] = class
	} else {
		text += ". Still modifying to VAC " + class
	}
	claim, patchErr := resize.Patch(ctx, m.cfg.Client, claim, modificationFailed(claim, m.now(), err), false)
	if patchErr != nil {
		return fmt.Errorf("mark PVC %q as modify volume failed, errored with: %w", claim.Name, patchErr)
	}
	isWanted := requestedClass(claim) == class // if not, the claim is looked at again soon
	if !infeasible || !isWanted || m.refuse(claim, text) {
		m.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonModifyFailed, text)
	}
	if infeasible && isWanted {
		return nil // see retry
	}
	delete(m.infeasible, claim.UID)
	return err
}

// classifyModifyError returns whether the driver has finished with an error, and whether a retry
// cannot succeed.
//
// Upstream: external-resizer pkg/util IsFinalError, pkg/modifycontroller
// controllerModifyVolumeWithTarget (2.3.0).
func classifyModifyError(err error) (final, infeasible bool) {
	final, _ = classifyError(err)
	return final, status.Code(err) == codes.InvalidArgument
}
