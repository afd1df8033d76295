package invariant

import (
	"io/fs"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins/nodefs"
)

// Rules about volumes that are directories of a node's disk.
var podFilesRules = []builtIn{
	{"I41", "a file lost from an emptyDir or a directory of its node", nodeRule(beginDirectoriesKeep)},
	{"I42", "a pod that reads a mixture of two versions of an object", nodeRule(beginWholeVersions)},
}

// A diskReader is a Devices that also reads the disks of the nodes.
type diskReader interface {
	// Disk returns a node's disk and the directory on it that is both the machine's root and the
	// kubelet's directory; nil for an unknown node.
	Disk(node string) (disk nodefs.Reader, root string)
}

// diskOf returns a node's disk; nil if there is none.
func (c *Checker) diskOf(node string) (nodefs.Reader, string) {
	if in, ok := c.Devices.(diskReader); ok {
		return in.Disk(node)
	}
	return nil, ""
}

// ownPlugin returns the plugin that keeps a volume in the directory of its pod; "" for another
// volume. memory reports whether the plugin mounts a file system in memory there.
func ownPlugin(v *corev1.Volume) (plugin string, memory bool) {
	switch {
	case v.EmptyDir != nil:
		return "kubernetes.io/empty-dir", v.EmptyDir.Medium == corev1.StorageMediumMemory
	case v.ConfigMap != nil:
		return "kubernetes.io/configmap", false
	case v.Secret != nil:
		return "kubernetes.io/secret", true
	case v.DownwardAPI != nil:
		return "kubernetes.io/downward-api", false
	case v.Projected != nil:
		return "kubernetes.io/projected", true
	default:
		return "", false
	}
}

// ownPath returns the directory of a volume in the directory of its pod.
func ownPath(root string, pod types.UID, plugin, volume string) string {
	return path.Join(root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(plugin), volume)
}

// checkOwnVolumes reports the missing volumes of a running pod that are in its directory.
func (c *Checker) checkOwnVolumes(pod *corev1.Pod, report func(format string, a ...any)) {
	disk, root := c.diskOf(pod.Spec.NodeName)
	if disk == nil {
		return
	}
	mounted := map[string]bool{}
	for _, m := range c.Devices.Mounts(pod.Spec.NodeName) {
		mounted[m.Path] = true
	}
	volumes := withMounts(pod).Spec.Volumes
	for i := range volumes {
		plugin, memory := ownPlugin(&volumes[i])
		if plugin == "" {
			continue
		}
		at := ownPath(root, pod.UID, plugin, volumes[i].Name)
		if there, err := disk.Exists(at); err != nil || !there || memory && !mounted[at] {
			report("pod %s/%s runs on node %s, and its volume %s is not mounted", pod.Namespace, pod.Name,
				pod.Spec.NodeName, volumes[i].Name)
		}
	}
}

// hasDirectory reports whether a volume of a pod is a directory of the node's disk: in the pod's
// directory, or where a hostPath leads.
func (c *Checker) hasDirectory(node string, at podMount) bool {
	disk, root := c.diskOf(node)
	if disk == nil {
		return false
	}
	dir := path.Join(root, "pods", at.uid, "volumes")
	plugins, err := disk.ReadDir(dir)
	if err == nil && slices.ContainsFunc(plugins, func(plugin string) bool {
		there, err := disk.Exists(path.Join(dir, plugin, at.volume))
		return plugin != "kubernetes.io~csi" && err == nil && there
	}) {
		return true
	}
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if string(pod.UID) != at.uid {
			continue
		}
		return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.HostPath != nil && v.Name == at.volume || c.hostPathNamed(at.volume) != nil
		})
	}
	return false
}

// hostPathNamed returns a PersistentVolume that is a directory of any node; nil if there is none.
func (c *Checker) hostPathNamed(name string) *corev1.PersistentVolume {
	if v := c.volumeNamed(name); v != nil && v.Spec.HostPath != nil {
		return v
	}
	return nil
}

// readFiles adds the files below a directory to all, by path; nothing if there is none.
func readFiles(disk nodefs.Reader, dir, relative string, all map[string]string) {
	names, err := disk.ReadDir(dir)
	if err != nil {
		return
	}
	for _, name := range names {
		full, inner := path.Join(dir, name), path.Join(relative, name)
		switch info, err := disk.Stat(full); {
		case err != nil || info.Mode&fs.ModeSymlink != 0:
		case info.Mode.IsDir():
			readFiles(disk, full, inner, all)
		default:
			data, err := disk.ReadFile(full)
			if err == nil {
				all[inner] = string(data)
			}
		}
	}
}
