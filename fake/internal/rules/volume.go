package rules

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const oneSourceMsg = "may not specify more than 1 volume type"

// volumePaths are the paths that every volume's validation needs.
var volumePaths = struct{ modes, capacity, policy, class, mode *field.Path }{
	modes: specPath.Child("accessModes"), capacity: specPath.Child("capacity"),
	policy: specPath.Child("persistentVolumeReclaimPolicy"), class: specPath.Child("storageClassName"),
	mode: specPath.Child("volumeMode"),
}

// validateVolume validates a volume.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeSpec.
func validateVolume(volume, _ *corev1.PersistentVolume) field.ErrorList {
	spec, at := &volume.Spec, volumePaths
	errs := validateAccessModes(spec.AccessModes, at.modes, "")
	errs = append(errs, validateCapacity(spec.Capacity, at.capacity)...)
	errs = append(errs, oneOf(spec.PersistentVolumeReclaimPolicy, at.policy,
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle,
		corev1.PersistentVolumeReclaimRetain)...)
	if spec.NodeAffinity != nil {
		errs = append(errs, validateNodeAffinity(spec.NodeAffinity, specPath.Child("nodeAffinity"))...)
	}
	errs = append(errs, validateVolumeSource(volume, specPath)...)
	if spec.HostPath != nil && path.Clean(spec.HostPath.Path) == "/" &&
		spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(specPath.Child("persistentVolumeReclaimPolicy"),
			"may not be 'recycle' for a hostPath mount of '/'"))
	}
	if spec.StorageClassName != "" {
		errs = append(errs, validateName(spec.StorageClassName, at.class)...)
	}
	errs = append(errs, validateVolumeMode(spec.VolumeMode, at.mode)...)
	if c := spec.VolumeAttributesClassName; c != nil {
		if *c == "" {
			errs = append(errs, field.Required(specPath.Child("volumeAttributesClassName"),
				"an empty string is disallowed"))
		} else {
			errs = append(errs, validateName(*c, specPath.Child("volumeAttributesClassName"))...)
		}
		if spec.CSI == nil {
			errs = append(errs, field.Required(specPath.Child("csi"),
				"has to be specified when using volumeAttributesClassName"))
		}
	}
	return errs
}

func validateCapacity(capacity corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(capacity) == 0 {
		errs = append(errs, field.Required(path, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		errs = append(errs, field.NotSupported(path, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	if someNotPositive(capacity) {
		for _, name := range slices.Sorted(maps.Keys(capacity)) {
			errs = append(errs, quantity(capacity[name], path.Key(string(name)))...)
			errs = append(errs, positive(capacity[name], path.Key(string(name)))...)
		}
	}
	return errs
}

func someNotPositive(list corev1.ResourceList) bool {
	for _, q := range list {
		if q.Sign() <= 0 {
			return true
		}
	}
	return false
}

// validateVolumeSource validates that a volume has one source, and validates the source.
func validateVolumeSource(volume *corev1.PersistentVolume, path *field.Path) field.ErrorList {
	spec := &volume.Spec
	names := sources(reflect.ValueOf(&spec.PersistentVolumeSource).Elem())
	if len(names) == 0 {
		return field.ErrorList{field.Required(path, "must specify a volume type")}
	}
	var errs field.ErrorList
	switch {
	case spec.HostPath != nil:
		errs = validateHostPath(spec.HostPath, path.Child("hostPath"))
	case spec.NFS != nil:
		errs = validateNFS(spec.NFS, path.Child("nfs"))
	case spec.Local != nil:
		at := path.Child("local", "path")
		errs = requireSome(at, len(spec.Local.Path))
		errs = append(errs, noBacksteps(spec.Local.Path, at)...)
		if spec.NodeAffinity == nil {
			errs = append(errs, field.Required(path.Child("nodeAffinity"), "Local volume requires node affinity"))
		}
	default:
		errs = validateLegacyShared(legacySource{
			spec.GCEPersistentDisk, spec.AWSElasticBlockStore, spec.Flocker, spec.Quobyte, spec.FC, spec.VsphereVolume,
			spec.PhotonPersistentDisk, spec.PortworxVolume, spec.AzureDisk,
		}, path)
		errs = append(errs, validatePersistentSource(spec, volume.Name, path)...)
	}
	for _, name := range names[1:] {
		errs = append(errs, field.Forbidden(path.Child(name), oneSourceMsg))
	}
	if _, ok := volume.Annotations[corev1.MountOptionAnnotation]; ok && slices.Contains(withoutMountOptions, names[0]) {
		errs = append(errs, field.Forbidden(metaPath.Child("annotations", corev1.MountOptionAnnotation),
			"may not specify mount options for this volume type"))
	}
	return errs
}

// withoutMountOptions are the sources that do not support the annotation for mount options.
//
// Upstream: pkg/volume/validation checkMountOption.
var withoutMountOptions = []string{
	"hostPath", "local", "fc", "flocker", "flexVolume", "portworxVolume", "scaleIO", "storageos", "csi",
}

// sources returns the JSON names of the fields of a struct of pointers that are set.
func sources(v reflect.Value) []string {
	var names []string
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			names = append(names, jsonNames(v.Type())[i])
		}
	}
	return names
}

// jsonNames returns the JSON names of the fields of a struct. They are read once for each type.
func jsonNames(t reflect.Type) []string {
	if known, ok := jsonNamesByType.Load(t); ok {
		return known.([]string)
	}
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	jsonNamesByType.Store(t, names)
	return names
}

var jsonNamesByType sync.Map // reflect.Type: []string

func validateHostPath(h *corev1.HostPathVolumeSource, path *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(path.Child("path"), "")}
	}
	errs := noBacksteps(h.Path, path.Child("path"))
	if h.Type != nil {
		errs = append(errs, oneOf(*h.Type, path.Child("type"), corev1.HostPathUnset, corev1.HostPathBlockDev,
			corev1.HostPathCharDev,
			corev1.HostPathDirectory, corev1.HostPathDirectoryOrCreate, corev1.HostPathFile,
			corev1.HostPathFileOrCreate, corev1.HostPathSocket)...)
	}
	return errs
}

func validateNFS(nfs *corev1.NFSVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if nfs.Server == "" {
		errs = append(errs, field.Required(at.Child("server"), ""))
	}
	if nfs.Path == "" {
		errs = append(errs, field.Required(at.Child("path"), ""))
	}
	if !path.IsAbs(nfs.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), nfs.Path, "must be an absolute path"))
	}
	return errs
}

// validateNodeAffinity validates the terms that select the nodes with access to a volume.
func validateNodeAffinity(a *corev1.VolumeNodeAffinity, path *field.Path) field.ErrorList {
	path = path.Child("required")
	if a.Required == nil {
		return field.ErrorList{field.Required(path, "must specify required node constraints")}
	}
	path = path.Child("nodeSelectorTerms")
	if len(a.Required.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(path, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i, term := range a.Required.NodeSelectorTerms {
		for j, r := range term.MatchExpressions {
			errs = append(errs, validateNodeSelector(r, path.Index(i).Child("matchExpressions").Index(j))...)
		}
		for j, r := range term.MatchFields {
			errs = append(errs, validateNodeField(r, path.Index(i).Child("matchFields").Index(j))...)
		}
	}
	return errs
}

// validateNodeField validates a node selector requirement on a field. Only metadata.name is
// supported.
func validateNodeField(r corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(path.Child("values"),
				"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	if r.Key != metav1.ObjectNameField {
		return append(errs, field.Invalid(path.Child("key"), r.Key, "not a valid field selector key"))
	}
	for i, name := range r.Values {
		errs = append(errs, validateName(name, path.Child("values").Index(i))...)
	}
	return errs
}

func validateNodeSelector(r corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	values := path.Child("values")
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			errs = append(errs, field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			errs = append(errs, field.Forbidden(values,
				"may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			errs = append(errs, field.Required(values,
				"must be specified single value when `operator` is 'Lt' or 'Gt'"))
		}
	default:
		errs = append(errs, field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	errs = append(errs, metav1validation.ValidateLabelName(r.Key, path.Child("key"))...)
	for i, value := range r.Values {
		for _, msg := range utilvalidation.IsValidLabelValue(value) {
			errs = append(errs, field.Invalid(values.Index(i), value, msg))
		}
	}
	return errs
}

// validateVolumeUpdate validates an update of a volume. Its source, its mode and its node affinity
// are immutable. Node affinity may be set once, and its beta labels may become their successors.
//
// Upstream: pkg/apis/core/validation ValidatePersistentVolumeUpdate.
func validateVolumeUpdate(volume, old *corev1.PersistentVolume) field.ErrorList {
	if Same(&volume.Spec, &old.Spec) {
		return nil
	}
	errs := validateVolume(volume, nil)
	source, oldSource := volume.Spec.PersistentVolumeSource, old.Spec.PersistentVolumeSource
	if source.CSI != nil && oldSource.CSI != nil && oldSource.CSI.ControllerExpandSecretRef == nil {
		csi := *source.CSI
		csi.ControllerExpandSecretRef = nil
		source.CSI = &csi
	}
	if !equal(&source, &oldSource) {
		errs = append(errs, field.Forbidden(specPath.Child("persistentvolumesource"), fmt.Sprintf(
			"spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(oldSource, source))))
	}
	if !equalPointers(volume.Spec.VolumeMode, old.Spec.VolumeMode) {
		errs = append(errs, immutable(volume.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	}
	if a := old.Spec.NodeAffinity; a != nil && !sameAffinity(volume.Spec.NodeAffinity, a) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), goFields{volume.Spec.NodeAffinity},
			immutableMsg+", except for updating from beta label to GA"))
	}
	if old.Spec.VolumeAttributesClassName != nil && volume.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(specPath.Child("volumeAttributesClassName"),
			"update from non-nil value to nil is forbidden"))
	}
	return errs
}

// successorLabels are the successors of deprecated node labels.
var successorLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
}

// sameAffinity reports whether two node affinities are equal, apart from deprecated labels that
// were replaced by their successors.
func sameAffinity(affinity, old *corev1.VolumeNodeAffinity) bool {
	if affinity == nil || affinity.Required == nil || old.Required == nil {
		return equality.Semantic.DeepEqual(affinity, old)
	}
	old = old.DeepCopy()
	for i, term := range old.Required.NodeSelectorTerms {
		if i >= len(affinity.Required.NodeSelectorTerms) {
			break
		}
		for j := range min(len(term.MatchExpressions), len(affinity.Required.NodeSelectorTerms[i].MatchExpressions)) {
			old, now := &term.MatchExpressions[j], affinity.Required.NodeSelectorTerms[i].MatchExpressions[j]
			if now.Key == successorLabels[old.Key] {
				old.Key = now.Key
			}
		}
	}
	return equality.Semantic.DeepEqual(affinity, old)
}
