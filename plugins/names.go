package plugins

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// UniqueVolumeName returns the name of a volume that the pods of a node share: "<plugin>/<volume
// name>".
//
// Upstream: pkg/volume/util GetUniqueVolumeName.
func UniqueVolumeName(plugin, volumeName string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(plugin + "/" + volumeName)
}

// UniquePodVolumeName returns the name of a volume that exists once per pod: "<plugin>/<pod
// uid>-<spec name>".
//
// Upstream: pkg/volume/util GetUniqueVolumeNameFromSpecWithPod.
func UniquePodVolumeName(plugin, specName string, pod types.UID) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(fmt.Sprintf("%s/%s-%s", plugin, pod, specName))
}

// SplitUniqueName splits a unique name at its second slash; the first is part of the plugin's name.
//
// Upstream: pkg/volume/util SplitUniqueName.
func SplitUniqueName(name corev1.UniqueVolumeName) (plugin, volumeName string, err error) {
	parts := strings.SplitN(string(name), "/", 3)
	if len(parts) != 3 {
		return "", "", fmt.Errorf("cannot split volume unique name %s to plugin/volume components", name)
	}
	return parts[0] + "/" + parts[1], parts[2], nil
}

// MultiAttachAllowed reports whether a volume may be attached to several nodes at once. It may if
// it is unknown (nil) or has no access modes. An inline volume may unless it is an Azure or Cinder
// disk.
//
// Upstream: pkg/volume/util IsMultiAttachAllowed.
func MultiAttachAllowed(spec *Spec) bool {
	if spec == nil {
		return true
	}
	if v := spec.Volume; v != nil {
		return v.AzureDisk == nil && v.Cinder == nil
	}
	if len(spec.AccessModes()) == 0 {
		return true
	}
	return slices.ContainsFunc(spec.AccessModes(), func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}
