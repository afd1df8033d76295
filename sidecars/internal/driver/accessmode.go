package driver

import (
	"errors"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
)

// AccessMode returns the CSI access mode of a volume with the given access modes. multiWriter
// states that the driver has SINGLE_NODE_MULTI_WRITER. Combinations that CSI cannot express are an
// error.
//
// Upstream: csi-lib-utils accessmodes ToCSIAccessMode (v0.24.0).
func AccessMode(
	modes []corev1.PersistentVolumeAccessMode, multiWriter bool,
) (csispec.VolumeCapability_AccessMode_Mode, error) {
	has := func(mode corev1.PersistentVolumeAccessMode) bool { return slices.Contains(modes, mode) }
	alone := len(slices.Compact(slices.Sorted(slices.Values(modes)))) == 1
	switch {
	case has(corev1.ReadWriteOncePod) && !alone:
		//lint:ignore ST1005 the text is upstream's
		return 0, errors.New("Kubernetes does not support use of ReadWriteOncePod " +
			"with other access modes on the same PersistentVolume")
	case has(corev1.ReadWriteOncePod) && multiWriter:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER, nil
	case has(corev1.ReadWriteOncePod):
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	case has(corev1.ReadWriteMany):
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER, nil
	case has(corev1.ReadOnlyMany) && has(corev1.ReadWriteOnce):
		return 0, errors.New("CSI does not support ReadOnlyMany and ReadWriteOnce on the same PersistentVolume")
	case has(corev1.ReadOnlyMany):
		return csispec.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY, nil
	case has(corev1.ReadWriteOnce) && multiWriter:
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER, nil
	case has(corev1.ReadWriteOnce):
		return csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER, nil
	default:
		return 0, fmt.Errorf("unsupported AccessMode combination: %+v", modes)
	}
}
