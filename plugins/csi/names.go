package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"
)

// PluginName is the name of the volume plugin.
const PluginName = "kubernetes.io/csi"

// separator separates driver and handle in a volume's name. A driver's name never contains it.
const separator = "^"

// AttachmentName returns the name of the VolumeAttachment of a volume on a node.
//
// Upstream: pkg/volume/csi getAttachmentName.
func AttachmentName(handle, driver string, node types.NodeName) string {
	const prefix = "csi-"
	var buf [256]byte // long enough for nearly all, so nothing is allocated
	sum := sha256.Sum256(append(append(append(buf[:0], handle...), driver...), node...))
	name := [len(prefix) + 2*sha256.Size]byte{}
	copy(name[:], prefix)
	hex.Encode(name[len(prefix):], sum[:])
	return string(name[:])
}

// VolumeName returns the plugin's name of a volume: driver^handle.
func VolumeName(driver, handle string) string { return driver + separator + handle }

// splitVolumeName splits a volume's name.
//
// Differs: upstream rejects handles that contain the separator, which then can never be detached.
// Here the first one separates.
func splitVolumeName(name string) (driver, handle string, err error) {
	driver, handle, ok := strings.Cut(name, separator)
	if !ok || driver == "" || handle == "" {
		return "", "", fmt.Errorf("volume name %q: want driver%shandle", name, separator)
	}
	return driver, handle, nil
}

// globalMountPath returns where a driver stages a volume, below the kubelet's root.
func globalMountPath(root, driver, handle string) string {
	return filepath.Join(root, "plugins", PluginName, driver, digest(handle), globalMountDir)
}

// podVolumeDir returns the directory of a pod's volume, below the kubelet's root. It contains the
// mount.
func podVolumeDir(root string, pod types.UID, specName string) string {
	return filepath.Join(root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(PluginName), specName)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}
