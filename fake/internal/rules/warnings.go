package rules

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file has the warnings about deprecated fields and ineffective values.
//
// Upstream: pkg/api/persistentvolume, pkg/api/persistentvolumeclaim, pkg/api/pod, pkg/api/storage,
// pkg/api/node/util: the functions GetWarningsFor….

// legacySources has the warnings about sources that CSI drivers replaced, by JSON name.
var legacySources = map[string]string{
	"cephfs":               "deprecated in v1.28, non-functional in v1.31+",
	"gitRepo":              "deprecated in v1.11, and disabled by default in v1.33+",
	"glusterfs":            "deprecated in v1.25, non-functional in v1.26+",
	"photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
	"rbd":                  "deprecated in v1.28, non-functional in v1.31+",
	"scaleIO":              "deprecated in v1.16, non-functional in v1.22+",
	"storageos":            "deprecated in v1.22, non-functional in v1.25+",
}

// warnSource returns the warnings about a deprecated source.
func warnSource(source any, path *field.Path) []string {
	var out []string
	for _, name := range sources(reflect.ValueOf(source)) {
		msg, ok := legacySources[name]
		if name == "storageos" {
			name = "storageOS" // upstream's
		}
		if ok {
			out = append(out, fmt.Sprintf("%s: %s", path.Child(name), msg))
		}
	}
	return out
}

func warnVolume(volume, _ *corev1.PersistentVolume) []string {
	var out []string
	if a := volume.Annotations; a != nil {
		out = append(out, warnAnnotation(a, corev1.BetaStorageClassAnnotation,
			`deprecated since v1.8; use "storageClassName" attribute instead`)...)
		out = append(out, warnAnnotation(a, corev1.MountOptionAnnotation,
			`deprecated since v1.31; use "mountOptions" attribute instead`)...)
	}
	if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		out = append(out,
			"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended "+
				"approach is to use dynamic provisioning.")
	}
	if a := volume.Spec.NodeAffinity; a != nil && a.Required != nil {
		path := specPath.Child("nodeAffinity", "required", "nodeSelectorTerms")
		for i := range a.Required.NodeSelectorTerms {
			out = append(out, warnTerm(&a.Required.NodeSelectorTerms[i], path.Index(i))...)
		}
	}
	return append(out, warnSource(volume.Spec.PersistentVolumeSource, specPath)...)
}

func warnAnnotation(annotations map[string]string, key, msg string) []string {
	if _, ok := annotations[key]; !ok {
		return nil
	}
	return []string{fmt.Sprintf("%s: %s", metaPath.Child("annotations").Key(key), msg)}
}

// deprecatedLabels has the replacements of deprecated node labels.
var deprecatedLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
	corev1.LabelFailureDomainBetaRegion: `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
	corev1.LabelInstanceType:            `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
	"beta.kubernetes.io/os":             `deprecated since v1.14; use "kubernetes.io/os" instead`,
	"beta.kubernetes.io/arch":           `deprecated since v1.14; use "kubernetes.io/arch" instead`,
}

// warnTerm returns the warnings about the labels in a term.
func warnTerm(term *corev1.NodeSelectorTerm, path *field.Path) []string {
	var out []string
	for i, r := range term.MatchExpressions {
		if msg, ok := deprecatedLabels[r.Key]; ok {
			out = append(out, fmt.Sprintf("%s: %s is %s", path.Child("matchExpressions").Index(i).Child("key"), r.Key,
				msg))
		}
	}
	return out
}

func warnClass(class, _ *storagev1.StorageClass) []string {
	var out []string
	for i, term := range class.AllowedTopologies {
		path := field.NewPath("allowedTopologies").Index(i).Child("matchLabelExpressions")
		for j, r := range term.MatchLabelExpressions {
			if msg, ok := deprecatedLabels[r.Key]; ok {
				out = append(out, fmt.Sprintf("%s: %s", path.Index(j).Child("key"), msg))
			}
		}
	}
	return out
}

func warnClaim(claim, _ *corev1.PersistentVolumeClaim) []string {
	out := warnAnnotation(claim.Annotations, corev1.BetaStorageClassAnnotation,
		`deprecated since v1.8; use "storageClassName" attribute instead`)
	return append(out, warnClaimSpec(&claim.Spec, specPath)...)
}

func warnClaimSpec(spec *corev1.PersistentVolumeClaimSpec, path *field.Path) []string {
	var out []string
	for _, l := range []struct {
		name string
		list corev1.ResourceList
	}{{"requests", spec.Resources.Requests}, {"limits", spec.Resources.Limits}} {
		size, ok := l.list[corev1.ResourceStorage]
		if ok && size.MilliValue()%1000 != 0 {
			out = append(out, fmt.Sprintf("%s: fractional byte value %q is invalid, must be an integer",
				path.Child("resources", l.name).Key(string(corev1.ResourceStorage)), size.String()))
		}
	}
	return out
}

// warnPod returns the warnings about the sources of a pod's volumes.
//
// Differs: there are no other warnings about pods.
func warnPod(pod, old *corev1.Pod) []string {
	if old != nil && pod.Generation == old.Generation {
		return nil
	}
	return warnPodSpec(&pod.Spec, specPath)
}

func warnPodSpec(spec *corev1.PodSpec, path *field.Path) []string {
	var out []string
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.PersistentVolumeClaim == nil {
			out = append(out, warnSource(v.VolumeSource, path.Child("volumes").Index(i))...)
		}
	}
	return out
}

func warnDriver(driver, old *storagev1.CSIDriver) []string {
	if old != nil && equality.Semantic.DeepEqual(driver.Spec.TokenRequests, old.Spec.TokenRequests) {
		return nil
	}
	if len(driver.Spec.TokenRequests) > 0 && driver.Spec.ServiceAccountTokenInSecrets == nil {
		return []string{"spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent " +
			"possible logging of tokens in volume attributes"}
	}
	return nil
}

// warnEndpoints returns the warning that the kind is deprecated.
//
// Differs: the warning comes only with successful writes.
//
//lint:ignore SA1019 it is served
func warnEndpoints(_, _ *corev1.Endpoints) []string {
	return []string{"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}
}
