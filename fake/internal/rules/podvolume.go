package rules

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	fileModeMsg = "must be a number between 0 and 0777 (octal), both inclusive"
	fileModeMax = 0o777
)

// validatePodVolumeSource validates that a volume of a pod has one source, and validates the
// source.
//
// Upstream: pkg/apis/core/validation validateVolumeSource.
func validatePodVolumeSource(source *corev1.VolumeSource, account string, at *field.Path) field.ErrorList {
	names := sources(reflect.ValueOf(source).Elem())
	if len(names) == 0 {
		return field.ErrorList{field.Required(at, "must specify a volume type")}
	}
	var errs field.ErrorList
	switch {
	case source.EmptyDir != nil:
		if limit := source.EmptyDir.SizeLimit; limit != nil && limit.Sign() < 0 {
			errs = append(errs, field.Forbidden(at.Child("emptyDir", "sizeLimit"),
				"SizeLimit field must be a valid resource quantity"))
		}
	case source.HostPath != nil:
		errs = validateHostPath(source.HostPath, at.Child("hostPath"))
	case source.GitRepo != nil:
		errs = require(at.Child("gitRepo"), named{"repository", source.GitRepo.Repository})
		errs = append(errs, relativePath(source.GitRepo.Directory, at.Child("gitRepo", "directory"))...)
	case source.PersistentVolumeClaim != nil:
		errs = require(at.Child("persistentVolumeClaim"), named{"claimName", source.PersistentVolumeClaim.ClaimName})
	case source.Ephemeral != nil:
		errs = validateEphemeral(source.Ephemeral, at.Child("ephemeral"))
	case source.NFS != nil:
		errs = validateNFS(source.NFS, at.Child("nfs"))
	case source.CSI != nil:
		errs = validateDriverName(source.CSI.Driver, at.Child("csi", "driver"))
		if ref := source.CSI.NodePublishSecretRef; ref != nil {
			errs = append(errs, require(at.Child("csi", "nodePublishSecretRef"), named{"name", ref.Name})...)
		}
	case source.Secret != nil || source.ConfigMap != nil || source.DownwardAPI != nil || source.Projected != nil:
		errs = validateFiles(source, account, at)
	case source.Image != nil:
		errs = require(at.Child("image"), named{"reference", source.Image.Reference})
		errs = append(errs, oneOf(source.Image.PullPolicy, at.Child("image", "pullPolicy"), corev1.PullAlways,
			corev1.PullIfNotPresent, corev1.PullNever)...)
	default:
		errs = validateLegacySource(source, at)
	}
	for _, name := range names[1:] {
		errs = append(errs, field.Forbidden(at.Child(name), oneSourceMsg))
	}
	return errs
}

// validateLegacySource validates the sources that CSI drivers replaced.
func validateLegacySource(source *corev1.VolumeSource, at *field.Path) field.ErrorList {
	switch {
	case source.Glusterfs != nil:
		g := source.Glusterfs
		return require(at.Child("glusterfs"), named{"endpoints", g.EndpointsName}, named{"path", g.Path})
	case source.RBD != nil:
		errs := requireSome(at.Child("rbd", "monitors"), len(source.RBD.CephMonitors))
		return append(errs, require(at.Child("rbd"), named{"image", source.RBD.RBDImage})...)
	case source.CephFS != nil:
		return requireSome(at.Child("cephfs", "monitors"), len(source.CephFS.Monitors))
	case source.ISCSI != nil:
		v := source.ISCSI
		var secret *corev1.SecretReference
		if v.SecretRef != nil {
			secret = &corev1.SecretReference{Name: "any"} // its name is not validated
		}
		return iscsi{
			v.TargetPortal, v.IQN, v.Lun, v.DiscoveryCHAPAuth ||
				v.SessionCHAPAuth, secret, v.InitiatorName, iscsiPrefixMsg,
		}.validate(at.Child("iscsi"))
	case source.Cinder != nil:
		errs := require(at.Child("cinder"), named{"volumeID", source.Cinder.VolumeID})
		if ref := source.Cinder.SecretRef; ref != nil {
			errs = append(errs, require(at.Child("cinder", "secretRef"), named{"name", ref.Name})...)
		}
		return errs
	case source.FlexVolume != nil:
		return validateFlex(source.FlexVolume.Driver, source.FlexVolume.Options, at.Child("flexVolume"))
	case source.AzureFile != nil:
		f := source.AzureFile
		return require(at.Child("azureFile"), named{"secretName", f.SecretName}, named{"shareName", f.ShareName})
	case source.ScaleIO != nil:
		s := source.ScaleIO
		return require(at.Child("scaleIO"), named{"gateway", s.Gateway}, named{"system", s.System},
			named{"volumeName", s.VolumeName})
	case source.StorageOS != nil:
		errs := validateStorageOS(source.StorageOS.VolumeName, source.StorageOS.VolumeNamespace, at.Child("storageos"))
		if ref := source.StorageOS.SecretRef; ref != nil {
			errs = append(errs, require(at.Child("storageos", "secretRef"), named{"name", ref.Name})...)
		}
		return errs
	}
	return validateLegacyShared(legacySource{
		source.GCEPersistentDisk, source.AWSElasticBlockStore, source.Flocker, source.Quobyte, source.FC,
		source.VsphereVolume, source.PhotonPersistentDisk, source.PortworxVolume, source.AzureDisk,
	}, at)
}

// A legacySource has the legacy sources that have the same type in a pod and in a volume.
type legacySource struct {
	gce      *corev1.GCEPersistentDiskVolumeSource
	aws      *corev1.AWSElasticBlockStoreVolumeSource
	flocker  *corev1.FlockerVolumeSource
	quobyte  *corev1.QuobyteVolumeSource
	fc       *corev1.FCVolumeSource
	vsphere  *corev1.VsphereVirtualDiskVolumeSource
	photon   *corev1.PhotonPersistentDiskVolumeSource
	portworx *corev1.PortworxVolumeSource
	azure    *corev1.AzureDiskVolumeSource
}

func validateLegacyShared(s legacySource, at *field.Path) field.ErrorList {
	switch {
	case s.gce != nil:
		return validateDisk(named{"pdName", s.gce.PDName}, s.gce.Partition,
			at.Child("persistentDisk")) // the path is upstream's
	case s.aws != nil:
		return validateDisk(named{"volumeID", s.aws.VolumeID}, s.aws.Partition, at.Child("awsElasticBlockStore"))
	case s.flocker != nil:
		return validateFlocker(s.flocker, at.Child("flocker"))
	case s.quobyte != nil:
		return validateQuobyte(s.quobyte, at.Child("quobyte"))
	case s.fc != nil:
		return validateFC(s.fc, at.Child("fc"))
	case s.vsphere != nil:
		return require(at.Child("vsphereVolume"), named{"volumePath", s.vsphere.VolumePath})
	case s.photon != nil:
		return require(at.Child("photonPersistentDisk"), named{"pdID", s.photon.PdID})
	case s.portworx != nil:
		return require(at.Child("portworxVolume"), named{"volumeID", s.portworx.VolumeID})
	case s.azure != nil:
		return validateAzureDisk(s.azure, at.Child("azureDisk"))
	}
	return nil
}

// validateEphemeral validates the claim template of an ephemeral volume.
func validateEphemeral(e *corev1.EphemeralVolumeSource, at *field.Path) field.ErrorList {
	at = at.Child("volumeClaimTemplate")
	t := e.VolumeClaimTemplate
	if t == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	meta := at.Child("metadata")
	errs := validation.ValidateAnnotations(t.Annotations, meta.Child("annotations"))
	errs = append(errs, metav1validation.ValidateLabels(t.Labels, meta.Child("labels"))...)
	rest := t.ObjectMeta
	rest.Annotations, rest.Labels = nil, nil
	errs = append(errs, validateNoMetadata(rest, meta)...)
	paths := pathsAt(at.Child("spec"))
	return append(errs, validateClaimSpec(&t.Spec, &paths)...)
}

// validateNoMetadata validates that no field of the metadata is set.
func validateNoMetadata(m metav1.ObjectMeta, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	v := reflect.ValueOf(m)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			errs = append(errs, field.Forbidden(at.Child(name), "cannot be set"))
		}
	}
	return errs
}

// relativePath validates that a path is relative and has no element "..".
func relativePath(p string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(at, p, "must be a relative path"))
	}
	return append(errs, noBacksteps(p, at)...)
}

// relativeFilePath validates the path of a file in a volume.
func relativeFilePath(p string, at *field.Path) field.ErrorList {
	errs := relativePath(p, at)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(at, p, "must not start with '..'"))
	}
	return errs
}

func validateFileMode(mode *int32, at *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > fileModeMax) {
		return field.ErrorList{field.Invalid(at, *mode, fileModeMsg)}
	}
	return nil
}

// validateFiles validates the sources that are files made from API objects.
func validateFiles(source *corev1.VolumeSource, account string, at *field.Path) field.ErrorList {
	switch {
	case source.Secret != nil:
		at = at.Child("secret")
		errs := require(at, named{"secretName", source.Secret.SecretName})
		errs = append(errs, validateFileMode(source.Secret.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateKeys(source.Secret.Items, at.Child("items"))...)
	case source.ConfigMap != nil:
		at = at.Child("configMap")
		errs := require(at, named{"name", source.ConfigMap.Name})
		errs = append(errs, validateFileMode(source.ConfigMap.DefaultMode, at.Child("defaultMode"))...)
		return append(errs, validateKeys(source.ConfigMap.Items, at.Child("items"))...)
	case source.DownwardAPI != nil:
		at = at.Child("downwardAPI")
		errs := validateFileMode(source.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		for _, file := range source.DownwardAPI.Items {
			errs = append(errs, validateDownwardFile(file, at)...)
		}
		return errs
	}
	return validateProjected(source.Projected, account, at.Child("projected"))
}

func validateKeys(items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, item := range items {
		at := at.Index(i)
		errs = append(errs, require(at, named{"key", item.Key}, named{"path", item.Path})...)
		errs = append(errs, relativeFilePath(item.Path, at.Child("path"))...)
		errs = append(errs, validateFileMode(item.Mode, at.Child("mode"))...)
	}
	return errs
}

// downwardFields are the fields of a pod that a file may contain. Single labels and annotations are
// possible, too.
var downwardFields = []string{
	"metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations",
	"metadata.uid",
}

// validateDownwardFile validates a file that has a field of its pod.
//
// Differs: the key of a label or annotation, the resource and its divisor are not validated.
func validateDownwardFile(file corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	errs := require(at, named{"path", file.Path})
	errs = append(errs, relativeFilePath(file.Path, at.Child("path"))...)
	switch ref := file.FieldRef; {
	case ref != nil:
		at := at.Child("fieldRef", "fieldPath")
		name, _, _ := strings.Cut(ref.FieldPath, "[")
		switch {
		case ref.FieldPath == "":
			errs = append(errs, field.Required(at, ""))
		case !slices.Contains(downwardFields, name):
			errs = append(errs, field.Invalid(at, ref.FieldPath,
				fmt.Sprintf("error converting fieldPath: field label not supported: %s", ref.FieldPath)))
		}
	case file.ResourceFieldRef != nil:
		errs = append(errs, require(at.Child("resourceFieldRef"),
			named{"containerName", file.ResourceFieldRef.ContainerName},
			named{"resource", file.ResourceFieldRef.Resource})...)
	default:
		errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
	}
	return append(errs, validateFileMode(file.Mode, at.Child("mode"))...)
}

// validateProjected validates the sources of a projected volume.
//
// Differs: trust bundles and certificates are not validated. Two sources may have files of the same
// path.
func validateProjected(p *corev1.ProjectedVolumeSource, account string, at *field.Path) field.ErrorList {
	errs := validateFileMode(p.DefaultMode, at.Child("defaultMode"))
	for i, source := range p.Sources {
		at := at.Child("sources").Index(i)
		if s := source.Secret; s != nil {
			errs = append(errs, require(at.Child("secret"), named{"name", s.Name})...)
			errs = append(errs, validateKeys(s.Items, at.Child("secret", "items"))...)
		}
		if c := source.ConfigMap; c != nil {
			errs = append(errs, require(at.Child("configMap"), named{"name", c.Name})...)
			errs = append(errs, validateKeys(c.Items, at.Child("configMap", "items"))...)
		}
		if d := source.DownwardAPI; d != nil {
			for _, file := range d.Items {
				errs = append(errs, validateDownwardFile(file, at.Child("downwardAPI"))...)
			}
		}
		if t := source.ServiceAccountToken; t != nil {
			errs = append(errs, validateTokenFile(t, account, at.Child("serviceAccountToken"))...)
		}
		if given := sources(reflect.ValueOf(source)); len(given) > 1 {
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

func validateTokenFile(t *corev1.ServiceAccountTokenProjection, account string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s := t.ExpirationSeconds; s != nil {
		errs = append(errs, ValidateTokenSeconds(*s, at.Child("expirationSeconds"))...)
	}
	errs = append(errs, require(at, named{"path", t.Path})...)
	if account == "" {
		errs = append(errs, field.Forbidden(at, "must not be specified when serviceAccountName is not set"))
	}
	return errs
}
