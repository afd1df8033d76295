package rules

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	attacherPath       = specPath.Child("attacher")
	sourcePath         = specPath.Child("source")
	nodeNamePath       = specPath.Child("nodeName")
	attachErrorPath    = field.NewPath("status", "attachError")
	detachErrorPath    = field.NewPath("status", "detachError")
	attachedVolumePath = field.NewPath("spec.source.persistentVolumeName")
)

// This file validates the group storage.k8s.io.
//
// Upstream: pkg/apis/storage/validation.

const (
	parametersMax     = 512       // count
	parametersMaxSize = 256 << 10 // total size in bytes
	errorMaxLen       = 1024      // of the message of a VolumeError, in bytes
	nodeIDMaxLen      = 256
)

func validateClass(class, _ *storagev1.StorageClass) field.ErrorList {
	errs := validateProvisioner(class.Provisioner, field.NewPath("provisioner"))
	errs = append(errs, validateParameters(class.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, oneOf(*class.ReclaimPolicy, field.NewPath("reclaimPolicy"),
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain)...)
	errs = append(errs, oneOf(*class.VolumeBindingMode, field.NewPath("volumeBindingMode"),
		storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer)...)
	return append(errs, validateTopologies(class.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func validateParameters(parameters map[string]string, path *field.Path) field.ErrorList {
	if len(parameters) > parametersMax {
		return field.ErrorList{field.TooLong(path, "", parametersMax)}
	}
	var errs field.ErrorList
	size := 0
	for k, v := range parameters {
		size += len(k) + len(v)
	}
	if _, ok := parameters[""]; ok {
		errs = append(errs, field.Invalid(path, "", "field can not be empty."))
	}
	if size > parametersMaxSize {
		errs = append(errs, field.TooLong(path, "", parametersMaxSize))
	}
	return errs
}

func validateClassUpdate(class, old *storagev1.StorageClass) field.ErrorList {
	errs := validateClass(class, nil)
	errs = append(errs, immutable(class.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, immutable(class.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, immutable(class.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, immutable(class.VolumeBindingMode, old.VolumeBindingMode,
		field.NewPath("volumeBindingMode"))...)
}

func validateAttachment(attachment, _ *storagev1.VolumeAttachment) field.ErrorList {
	spec, status := &attachment.Spec, &attachment.Status
	errs := validateDriverName(spec.Attacher, attacherPath)
	path := sourcePath
	switch name, inline := spec.Source.PersistentVolumeName, spec.Source.InlineVolumeSpec; {
	case name == nil && inline == nil:
		errs = append(errs,
			field.Required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil && inline != nil:
		errs = append(errs,
			field.Forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name != nil:
		errs = append(errs, require(path, named{"persistentVolumeName", *name})...)
		if *name == "" {
			errs[len(errs)-1].Detail = "must specify non empty persistentVolumeName"
		}
	default:
		errs = append(errs, validateInline(inline, path.Child("inlineVolumeSpec"))...)
	}
	errs = append(errs, validateName(spec.NodeName, nodeNamePath)...)
	errs = append(errs, validateVolumeError(status.AttachError, attachErrorPath)...)
	errs = append(errs, validateVolumeError(status.DetachError, detachErrorPath)...)
	if name := spec.Source.PersistentVolumeName; name != nil {
		errs = append(errs, validateName(*name, attachedVolumePath)...)
	}
	return errs
}

// validateInline validates the inline volume of an attachment.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeSpec, of inline volumes.
func validateInline(spec *corev1.PersistentVolumeSpec, path *field.Path) field.ErrorList {
	const msg = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	forbid := func(set bool, name, msg string) {
		if set {
			errs = append(errs, field.Forbidden(path.Child(name), msg))
		}
	}
	forbid(spec.ClaimRef != nil, "claimRef", msg)
	forbid(len(spec.Capacity) > 0, "capacity", msg)
	if spec.CSI == nil {
		errs = append(errs, field.Required(path.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	errs = append(errs, validateAccessModes(spec.AccessModes, path.Child("accessModes"), "")...)
	policy := spec.PersistentVolumeReclaimPolicy
	forbid(policy != "" && policy != corev1.PersistentVolumeReclaimRetain, "persistentVolumeReclaimPolicy",
		"may only be Retain in the context of inline volumes")
	forbid(spec.NodeAffinity != nil, "nodeAffinity", msg)
	errs = append(errs, validateVolumeSource(&corev1.PersistentVolume{Spec: *spec}, path)...)
	forbid(spec.StorageClassName != "", "storageClassName", msg)
	forbid(spec.VolumeMode != nil && *spec.VolumeMode != corev1.PersistentVolumeFilesystem, "volumeMode",
		"may not specify volumeMode other than Filesystem in the context of inline volumes")
	return errs
}

func validateVolumeError(e *storagev1.VolumeError, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if e != nil && len(e.Message) > errorMaxLen {
		errs = append(errs,
			field.TooLong(path.Child("message"), "", parametersMaxSize)) // upstream also names the wrong limit
	}
	if e != nil && e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(path.Child("errorCode"), *e.ErrorCode,
			"must be between 0 and 2147483647, inclusive"))
	}
	return errs
}

func validateAttachmentUpdate(attachment, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := validateAttachment(attachment, nil)
	if !equal(&attachment.Spec, &old.Spec) {
		errs = append(errs, immutable(attachment.Spec, old.Spec, specPath)...)
	}
	return errs
}

func validateDriver(driver, _ *storagev1.CSIDriver) field.ErrorList {
	spec := &driver.Spec
	errs := oneOf(*spec.FSGroupPolicy, specPath.Child("fsGroupPolicy"),
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy, storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy)
	errs = append(errs, validateTokenRequests(spec.TokenRequests, specPath.Child("tokenRequests"))...)
	for _, mode := range spec.VolumeLifecycleModes {
		if mode != storagev1.VolumeLifecyclePersistent && mode != storagev1.VolumeLifecycleEphemeral {
			errs = append(errs, field.NotSupported(specPath.Child("volumeLifecycleModes"), mode,
				[]storagev1.VolumeLifecycleMode{
					storagev1.VolumeLifecyclePersistent,
					storagev1.VolumeLifecycleEphemeral,
				}))
		}
	}
	if s := spec.NodeAllocatableUpdatePeriodSeconds; s != nil && *s < 10 {
		errs = append(errs, field.Invalid(specPath.Child("nodeAllocatableUpdatePeriodSeconds"), *s,
			"must be greater than or equal to 10 seconds"))
	}
	if spec.ServiceAccountTokenInSecrets != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(specPath.Child("serviceAccountTokenInSecrets"),
			spec.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

func validateTokenRequests(requests []storagev1.TokenRequest, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, r := range requests {
		path := path.Index(i)
		if seen[r.Audience] {
			errs = append(errs, field.Duplicate(path.Child("audience"), r.Audience))
			continue
		}
		seen[r.Audience] = true
		if s := r.ExpirationSeconds; s != nil {
			errs = append(errs, ValidateTokenSeconds(*s, path.Child("expirationSeconds"))...)
		}
	}
	return errs
}

func validateDriverUpdate(driver, old *storagev1.CSIDriver) field.ErrorList {
	errs := validateDriver(driver, nil)
	// The path is upstream's.
	errs = append(errs, immutable(driver.Spec.AttachRequired, old.Spec.AttachRequired,
		specPath.Child("attachedRequired"))...)
	return append(errs, immutable(driver.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes,
		specPath.Child("volumeLifecycleModes"))...)
}

func validateCSINode(node, _ *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, driver := range node.Spec.Drivers {
		path := specPath.Child("drivers").Index(i)
		errs = append(errs, validateNodeDriver(driver, path)...)
		if seen[driver.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), driver.Name))
		}
		seen[driver.Name] = true
	}
	return errs
}

func validateNodeDriver(driver storagev1.CSINodeDriver, path *field.Path) field.ErrorList {
	errs := validateDriverName(driver.Name, path.Child("name"))
	switch id := path.Child("nodeID"); {
	case driver.NodeID == "":
		errs = append(errs, field.Required(id, ""))
	case len(driver.NodeID) > nodeIDMaxLen:
		errs = append(errs, field.Invalid(id, driver.NodeID,
			fmt.Sprintf("must be %d characters or less", nodeIDMaxLen)))
	}
	if a := driver.Allocatable; a != nil && a.Count != nil && *a.Count < 0 {
		errs = append(errs, field.Invalid(path.Child("allocatable", "count"), int64(*a.Count), NegativeMsg))
	}
	seen := map[string]bool{}
	for _, key := range driver.TopologyKeys {
		if key == "" {
			errs = append(errs, field.Required(path, key))
		}
		if seen[key] {
			errs = append(errs, field.Duplicate(path, key))
		}
		seen[key] = true
		errs = append(errs, validateQualified(key, path)...)
	}
	return errs
}

func validateCSINodeUpdate(node, old *storagev1.CSINode) field.ErrorList {
	errs := validateCSINode(node, nil)
	for _, oldDriver := range old.Spec.Drivers {
		for _, driver := range node.Spec.Drivers {
			if driver.Name == oldDriver.Name {
				driver.Allocatable, oldDriver.Allocatable = nil, nil
				errs = append(errs, immutable(driver, oldDriver, specPath.Child("drivers"))...)
			}
		}
	}
	return errs
}
