package provisioner

import (
	"errors"
	"maps"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sidecars/internal/driver"
)

const (
	// provisionedFinalizer keeps a PersistentVolume until its volume is deleted.
	provisionedFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

	identityKey = "storage.kubernetes.io/csiProvisionerIdentity"

	deletionSecretNameAnnotation      = "volume.kubernetes.io/provisioner-deletion-secret-name"
	deletionSecretNamespaceAnnotation = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
	modifySecretNameAnnotation        = "volume.kubernetes.io/controller-modify-secret-name"
	modifySecretNamespaceAnnotation   = "volume.kubernetes.io/controller-modify-secret-namespace"

	// Parameters for a driver that wants to know for whom it creates a volume.
	claimNameParameter      = reservedPrefix + "pvc/name"
	claimNamespaceParameter = reservedPrefix + "pvc/namespace"
	volumeNameParameter     = reservedPrefix + "pv/name"
)

// An attempt is the provisioning of a volume for a claim. Once its placement is known it never
// changes, so that a repeated call is the same call.
type attempt struct {
	key      claimKey
	claim    *corev1.PersistentVolumeClaim // at the start of the attempt
	claimRef *corev1.ObjectReference
	class    *storagev1.StorageClass
	fsType   string
	request  *csispec.CreateVolumeRequest
	secrets  volumeSecrets
}

// node returns the node selected for the claim's first consumer, or "".
func (a *attempt) node() string { return a.claim.Annotations[storagehelpers.AnnSelectedNode] }

// newAttempt builds the request to the driver. An error is final: only another claim or class
// avoids it.
//
// Upstream: external-provisioner pkg/controller prepareProvision (6.3.0).
func (cfg Config) newAttempt(
	claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass, capabilities driver.Capabilities,
) (*attempt, error) {
	if err := checkSource(claim, cfg.CrossNamespaceSources, capabilities); err != nil {
		return nil, err
	}
	if err := checkSupported(claim, capabilities); err != nil {
		return nil, err
	}
	params, err := parse(class)
	if err != nil {
		return nil, err
	}
	claimRef, err := reference.GetReference(scheme.Scheme, claim)
	if err != nil {
		return nil, err
	}
	capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	request := &csispec.CreateVolumeRequest{
		Name:          volumeName(claim.UID),
		CapacityRange: &csispec.CapacityRange{RequiredBytes: capacity.Value()},
		Parameters:    params.forDriver,
	}
	for _, mode := range claim.Spec.AccessModes {
		capability, err := capabilities.VolumeCapability(driver.VolumeUse{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, VolumeMode: claim.Spec.VolumeMode,
			FSType: params.fsType, MountOptions: class.MountOptions,
		})
		if err != nil {
			return nil, err
		}
		request.VolumeCapabilities = append(request.VolumeCapabilities, capability)
	}
	if cfg.ExtraCreateMetadata {
		request.Parameters[claimNameParameter] = claim.Name
		request.Parameters[claimNamespaceParameter] = claim.Namespace
		request.Parameters[volumeNameParameter] = request.GetName()
	}
	return &attempt{
		key: keyOf(claim), claim: claim, claimRef: claimRef, class: class, fsType: params.fsType, request: request,
	}, nil
}

// attributesClass returns the name of a claim's VolumeAttributesClass, or "".
func attributesClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

// errPopulator is returned for a claim whose volume a populator provisions.
var errPopulator = errors.New("assuming an external populator will provision the volume")

// checkSupported returns an error for claims that request unsupported features.
func checkSupported(claim *corev1.PersistentVolumeClaim, capabilities driver.Capabilities) error {
	switch {
	case attributesClass(claim) != "" && !capabilities[csispec.ControllerServiceCapability_RPC_MODIFY_VOLUME]:
		return errors.New("CSI driver does not support VolumeAttributesClass: " +
			"controller MODIFY_VOLUME capability is not reported")
	case !capabilities[csispec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME]:
		return errors.New("CSI driver does not support dynamic provisioning: " +
			"controller CREATE_DELETE_VOLUME capability is not reported")
	case claim.Spec.Selector != nil:
		return errors.New("claim Selector is not supported")
	default:
		return nil
	}
}

// newVolume returns the PersistentVolume for a volume that the driver created. If Topology is set,
// the volume has a node affinity.
//
// Upstream: external-provisioner pkg/controller Provision (6.3.0),
// sig-storage-lib-external-provisioner provisionClaimOperation (v13.0.0).
//
// Differs: the provisioner's identity, upstream a time and a random number, is the same in every
// run.
func (cfg *Config) newVolume(a *attempt, created *csispec.Volume) *corev1.PersistentVolume {
	attributes := map[string]string{identityKey: "volsim-" + cfg.DriverName}
	if cfg.NodeDeployment != nil {
		attributes[identityKey] += "-" + cfg.NodeDeployment.Node
	}
	maps.Copy(attributes, created.GetVolumeContext())
	sizeBytes := created.GetCapacityBytes()
	if sizeBytes == 0 { // unknown to the driver
		sizeBytes = a.request.GetCapacityRange().GetRequiredBytes()
	}
	capacity := resource.NewQuantity(sizeBytes, resource.BinarySI)
	source := &corev1.CSIPersistentVolumeSource{
		Driver: cfg.DriverName, VolumeHandle: created.GetVolumeId(), VolumeAttributes: attributes,
		ControllerPublishSecretRef: a.secrets.controllerPublish,
		NodeStageSecretRef:         a.secrets.nodeStage,
		NodePublishSecretRef:       a.secrets.nodePublish,
		ControllerExpandSecretRef:  a.secrets.controllerExpansion,
		NodeExpandSecretRef:        a.secrets.nodeExpansion,
	}
	if !driver.IsBlock(a.claim.Spec.VolumeMode) {
		source.FSType = a.fsType
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name: a.request.GetName(),
			Annotations: map[string]string{
				storagehelpers.AnnDynamicallyProvisioned: a.class.Provisioner,
				deletionSecretNameAnnotation:             "",
				deletionSecretNamespaceAnnotation:        "",
			},
			Finalizers: []string{provisionedFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:            a.claim.Spec.AccessModes,
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: *capacity},
			ClaimRef:               a.claimRef,
			MountOptions:           a.class.MountOptions,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: source},
			StorageClassName:       storagehelpers.GetPersistentVolumeClaimClass(a.claim),
			VolumeMode:             a.claim.Spec.VolumeMode,
		},
	}
	if ref := a.secrets.provisioner; ref != nil {
		volume.Annotations[deletionSecretNameAnnotation], volume.Annotations[deletionSecretNamespaceAnnotation] = ref.Name, ref.Namespace
	}
	if ref := a.secrets.controllerModify; ref != nil {
		volume.Annotations[modifySecretNameAnnotation], volume.Annotations[modifySecretNamespaceAnnotation] = ref.Name, ref.Namespace
	}
	if cfg.Topology {
		volume.Spec.NodeAffinity = nodeAffinity(created.GetAccessibleTopology())
	}
	if a.class.ReclaimPolicy != nil {
		volume.Spec.PersistentVolumeReclaimPolicy = *a.class.ReclaimPolicy
	}
	if attributesClass(a.claim) != "" {
		volume.Spec.VolumeAttributesClassName = a.claim.Spec.VolumeAttributesClassName
	}
	return volume.DeepCopy() // shares nothing with the cached claim and class
}
