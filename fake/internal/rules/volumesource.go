package rules

import (
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file validates the sources that persistent volumes and pod volumes have in common. The
// caller validates the differences, mostly whether a secret reference has a namespace.
//
// Upstream: pkg/apis/core/validation, the functions validate*VolumeSource.

const (
	uint8Max       = 255                                    // limit of partitions and logical units
	partitionMsg   = "must be between 1 and 255, inclusive" // upstream's, although 0 is accepted
	iscsiFormatMsg = "must be valid format"
	iscsiPrefixMsg = "must be valid format starting with iqn, eui, or naa"
)

// A named is a named string field.
type named struct{ name, value string }

// require validates that fields are not empty.
func require(path *field.Path, fields ...named) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		}
	}
	return errs
}

// requireSome validates that a list is not empty.
func requireSome(path *field.Path, n int) field.ErrorList {
	if n == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	return nil
}

func validateDisk(name named, partition int32, path *field.Path) field.ErrorList {
	errs := require(path, name)
	if partition < 0 || partition > uint8Max {
		errs = append(errs, field.Invalid(path.Child("partition"), partition, partitionMsg))
	}
	return errs
}

// An iscsi has what the two forms of an iSCSI volume have in common.
type iscsi struct {
	portal, iqn string
	lun         int32
	chap        bool
	secret      *corev1.SecretReference
	initiator   *string
	formatMsg   string // message for an unknown prefix
}

// Upstream: pkg/apis/core/validation, the same three formats.
var iscsiNames = map[string]*regexp.Regexp{
	"iqn": regexp.MustCompile(`iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`),
	"eui": regexp.MustCompile(`^eui.[[:alnum:]]{16}$`),
	"naa": regexp.MustCompile(`^naa.[[:alnum:]]{32}$`),
}

func (v iscsi) name(name string, path *field.Path) field.ErrorList {
	form, ok := iscsiNames[name[:min(3, len(name))]]
	switch {
	case !ok:
		return field.ErrorList{field.Invalid(path, name, v.formatMsg)}
	case !form.MatchString(name):
		return field.ErrorList{field.Invalid(path, name, iscsiFormatMsg)}
	}
	return nil
}

func (v iscsi) validate(path *field.Path) field.ErrorList {
	errs := require(path, named{"targetPortal", v.portal})
	if v.iqn == "" {
		errs = append(errs, field.Required(path.Child("iqn"), ""))
	} else {
		errs = append(errs, v.name(v.iqn, path.Child("iqn"))...)
	}
	if v.lun < 0 || v.lun > uint8Max {
		errs = append(errs, field.Invalid(path.Child("lun"), v.lun, utilvalidation.InclusiveRangeError(0, uint8Max)))
	}
	if v.chap && v.secret == nil {
		errs = append(errs, field.Required(path.Child("secretRef"), ""))
	}
	if v.secret != nil {
		errs = append(errs, require(path.Child("secretRef"), named{"name", v.secret.Name})...)
	}
	if v.initiator != nil {
		errs = append(errs, v.name(*v.initiator, path.Child("initiatorname"))...)
	}
	return errs
}

func validateFC(fc *corev1.FCVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := path.Child("targetWWNs")
	if len(fc.TargetWWNs) == 0 && len(fc.WWIDs) == 0 {
		errs = append(errs, field.Required(names, "must specify either targetWWNs or wwids, but not both"))
	}
	if len(fc.TargetWWNs) != 0 && len(fc.WWIDs) != 0 {
		errs = append(errs, field.Invalid(names, fc.TargetWWNs,
			"targetWWNs and wwids can not be specified simultaneously"))
	}
	switch {
	case len(fc.TargetWWNs) == 0:
	case fc.Lun == nil:
		errs = append(errs, field.Required(path.Child("lun"), "lun is required if targetWWNs is specified"))
	case *fc.Lun < 0 || *fc.Lun > uint8Max:
		errs = append(errs, field.Invalid(path.Child("lun"), fc.Lun, utilvalidation.InclusiveRangeError(0, uint8Max)))
	}
	return errs
}

func validateQuobyte(q *corev1.QuobyteVolumeSource, path *field.Path) field.ErrorList {
	const pairsMsg = "must be a host:port pair or multiple pairs separated by commas"
	var errs field.ErrorList
	switch {
	case q.Registry == "":
		errs = append(errs, field.Required(path.Child("registry"), pairsMsg))
	case len(q.Tenant) > 64:
		errs = append(errs, field.Required(path.Child("tenant"),
			"must be a UUID and may not exceed a length of 64 characters"))
	default:
		for pair := range strings.SplitSeq(q.Registry, ",") {
			if _, _, err := net.SplitHostPort(pair); err != nil {
				errs = append(errs, field.Invalid(path.Child("registry"), q.Registry, pairsMsg))
			}
		}
	}
	return append(errs, require(path, named{"volume", q.Volume})...)
}

func validateFlocker(f *corev1.FlockerVolumeSource, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if f.DatasetName == "" && f.DatasetUUID == "" {
		errs = append(errs, field.Required(path, "one of datasetName and datasetUUID is required"))
	}
	if f.DatasetName != "" && f.DatasetUUID != "" {
		errs = append(errs, field.Invalid(path, "resource",
			"datasetName and datasetUUID can not be specified simultaneously"))
	}
	if strings.Contains(f.DatasetName, "/") {
		errs = append(errs, field.Invalid(path.Child("datasetName"), f.DatasetName, "must not contain '/'"))
	}
	return errs
}

func validateFlex(driver string, options map[string]string, path *field.Path) field.ErrorList {
	errs := require(path, named{"driver", driver})
	for _, key := range slices.Sorted(maps.Keys(options)) {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			errs = append(errs, field.Invalid(path.Child("options").Key(key), key,
				"kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

func validateAzureDisk(disk *corev1.AzureDiskVolumeSource, path *field.Path) field.ErrorList {
	errs := require(path, named{"diskName", disk.DiskName}, named{"diskURI", disk.DataDiskURI})
	if disk.CachingMode != nil {
		errs = append(errs, oneOf(*disk.CachingMode, path.Child("cachingMode"), corev1.AzureDataDiskCachingNone,
			corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite)...)
	}
	if disk.Kind == nil {
		return errs
	}
	errs = append(errs, oneOf(*disk.Kind, path.Child("kind"), corev1.AzureSharedBlobDisk, corev1.AzureDedicatedBlobDisk,
		corev1.AzureManagedDisk)...)
	uri := path.Child("diskURI")
	switch managed := *disk.Kind == corev1.AzureManagedDisk; {
	case managed && !strings.HasPrefix(disk.DataDiskURI, "/subscriptions/"):
		errs = append(errs, field.NotSupported(uri, disk.DataDiskURI, []string{
			"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
		}))
	case !managed && !strings.HasPrefix(disk.DataDiskURI, "https://"):
		errs = append(errs, field.NotSupported(uri, disk.DataDiskURI, []string{
			"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
		}))
	}
	return errs
}

func validateStorageOS(name, namespace string, path *field.Path) field.ErrorList {
	errs := require(path, named{"volumeName", name})
	if name != "" {
		errs = append(errs, validateLabel(name, path.Child("volumeName"))...)
	}
	if namespace != "" {
		errs = append(errs, validateLabel(namespace, path.Child("volumeNamespace"))...)
	}
	return errs
}

// validateSecretRef validates a reference to a secret with its namespace.
func validateSecretRef(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	errs := require(path, named{"name", ref.Name})
	if ref.Name != "" {
		errs = validateName(ref.Name, path.Child("name"))
	}
	if ref.Namespace == "" {
		return append(errs, field.Required(path.Child("namespace"), ""))
	}
	return append(errs, validateLabel(ref.Namespace, path.Child("namespace"))...)
}

// isValidCSIVolume reports whether validateCSIVolume finds nothing. It needs no paths. A source with
// secrets may be valid, too.
func isValidCSIVolume(csi *corev1.CSIPersistentVolumeSource) bool {
	return len(validateDriverName(csi.Driver, nil)) == 0 && csi.VolumeHandle != "" && csi.ControllerPublishSecretRef == nil &&
		csi.ControllerExpandSecretRef == nil && csi.NodePublishSecretRef == nil && csi.NodeExpandSecretRef == nil
}

func validateCSIVolume(csi *corev1.CSIPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := validateDriverName(csi.Driver, path.Child("driver"))
	errs = append(errs, require(path, named{"volumeHandle", csi.VolumeHandle})...)
	errs = append(errs, validateSecretRef(csi.ControllerPublishSecretRef, path.Child("controllerPublishSecretRef"))...)
	errs = append(errs, validateSecretRef(csi.ControllerExpandSecretRef, path.Child("controllerExpandSecretRef"))...)
	errs = append(errs, validateSecretRef(csi.NodePublishSecretRef, path.Child("nodePublishSecretRef"))...)
	return append(errs, validateSecretRef(csi.NodeExpandSecretRef, path.Child("nodeExpandSecretRef"))...)
}

func validateGlusterfs(g *corev1.GlusterfsPersistentVolumeSource, path *field.Path) field.ErrorList {
	errs := require(path, named{"endpoints", g.EndpointsName}, named{"path", g.Path})
	switch ns := g.EndpointsNamespace; {
	case ns == nil:
	case *ns == "":
		errs = append(errs, field.Invalid(path.Child("endpointsNamespace"), *ns,
			"if the endpointnamespace is set, it must be a valid namespace name"))
	default:
		for _, msg := range validation.ValidateNamespaceName(*ns, false) {
			errs = append(errs, field.Invalid(path.Child("endpointsNamespace"), *ns, msg))
		}
	}
	return errs
}

// validatePersistentSource validates the sources that only persistent volumes have in this form.
func validatePersistentSource(spec *corev1.PersistentVolumeSpec, name string, path *field.Path) field.ErrorList {
	switch {
	case spec.Glusterfs != nil:
		return validateGlusterfs(spec.Glusterfs, path.Child("glusterfs"))
	case spec.RBD != nil:
		errs := requireSome(path.Child("rbd", "monitors"), len(spec.RBD.CephMonitors))
		return append(errs, require(path.Child("rbd"), named{"image", spec.RBD.RBDImage})...)
	case spec.CephFS != nil:
		return requireSome(path.Child("cephfs", "monitors"), len(spec.CephFS.Monitors))
	case spec.ISCSI != nil:
		return validateISCSIVolume(spec.ISCSI, name, path.Child("iscsi"))
	case spec.Cinder != nil:
		errs := require(path.Child("cinder"), named{"volumeID", spec.Cinder.VolumeID})
		return append(errs, requireSecret(spec.Cinder.SecretRef, path.Child("cinder", "secretRef"))...)
	case spec.FlexVolume != nil:
		return validateFlex(spec.FlexVolume.Driver, spec.FlexVolume.Options, path.Child("flexVolume"))
	case spec.AzureFile != nil:
		file := spec.AzureFile
		errs := require(path.Child("azureFile"), named{"secretName", file.SecretName},
			named{"shareName", file.ShareName})
		if file.SecretNamespace != nil {
			errs = append(errs, require(path.Child("azureFile"), named{"secretNamespace", *file.SecretNamespace})...)
		}
		return errs
	case spec.ScaleIO != nil:
		return require(path.Child("scaleIO"), named{"gateway", spec.ScaleIO.Gateway},
			named{"system", spec.ScaleIO.System},
			named{"volumeName", spec.ScaleIO.VolumeName})
	case spec.StorageOS != nil:
		os := spec.StorageOS
		errs := validateStorageOS(os.VolumeName, os.VolumeNamespace, path.Child("storageos"))
		if os.SecretRef != nil {
			errs = append(errs, require(path.Child("storageos", "secretRef"), named{"name", os.SecretRef.Name},
				named{"namespace", os.SecretRef.Namespace})...)
		}
		return errs
	case spec.CSI != nil && !isValidCSIVolume(spec.CSI):
		return validateCSIVolume(spec.CSI, path.Child("csi"))
	}
	return nil
}

func requireSecret(ref *corev1.SecretReference, path *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return require(path, named{"name", ref.Name}, named{"namespace", ref.Namespace})
}

func validateISCSIVolume(v *corev1.ISCSIPersistentVolumeSource, name string, path *field.Path) field.ErrorList {
	errs := iscsi{
		v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth ||
			v.SessionCHAPAuth, v.SecretRef, v.InitiatorName, iscsiFormatMsg,
	}.validate(path)
	if v.InitiatorName != nil && len(name+":"+v.TargetPortal) > 64 {
		errs = append(errs, field.Invalid(path.Child("targetportal"), v.TargetPortal,
			"Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified."))
	}
	return errs
}
