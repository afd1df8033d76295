package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
)

// ErrNotMounted is matched by errors about a volume that is not mounted for a pod.
var ErrNotMounted = errors.New("not mounted")

// MountPath returns where a volume of a running pod, named as in the pod, is mounted: a path on
// this machine for Loop and LVM, on the node's simulated disk for Array. The error matches
// fs.ErrNotExist if the pod, volume or claim does not exist, and ErrNotMounted if the volume is not
// mounted.
func (c *Cluster) MountPath(namespace, pod, volume string) (string, error) {
	_, path, err := c.volumeMount(namespace, pod, volume)
	return path, err
}

// DevicePath returns where a raw block volume of a running pod, named as in the pod, is: a link on
// this machine for Loop and LVM, on the node's simulated disk for Array, where devices have no
// bytes. Errors are those of MountPath.
func (c *Cluster) DevicePath(namespace, pod, volume string) (string, error) {
	at, err := c.findVolume(namespace, pod, volume)
	if err != nil {
		return "", err
	}
	path, err := at.node.kubelet.Load().DevicePath(at.spec, at.pod)
	if err != nil {
		return "", fmt.Errorf("pod %s/%s: device %s: %w: %w", namespace, pod, volume, ErrNotMounted, err)
	}
	if there, err := at.node.fs.Exists(path); err != nil || !there {
		return "", fmt.Errorf("pod %s/%s: device %s: %w", namespace, pod, volume, ErrNotMounted)
	}
	return path, nil
}

// ContainerPath returns what a container of a running pod has at one of its mount paths: where the
// volume is mounted for the pod or, for a subPath, where that is bound. Errors are those of
// MountPath. For an unknown container or mount path the error matches fs.ErrNotExist.
func (c *Cluster) ContainerPath(namespace, pod, container, mountPath string) (string, error) {
	_, path, err := c.containerMount(namespace, pod, func(in string, m *corev1.VolumeMount) bool {
		return in == container && m.MountPath == mountPath
	})
	return path, err
}

// WriteFile writes a file into a volume of a running pod. The path is that of the pod's first
// container that may write to the volume, possibly only a subPath of it. Errors are those of MountPath
// and of the file system. The error matches nodefs.ErrReadOnly if all containers mount the volume
// read-only, as they do a volume of a config map, a secret, the downward API or projected sources.
func (c *Cluster) WriteFile(namespace, pod, volume, name string, data []byte) error {
	n, path, err := c.podMount(namespace, pod, volume, true)
	if err != nil {
		return err
	}
	return n.fs.WriteFile(filepath.Join(path, name), data)
}

// WriteZeros writes a file of zero bytes into a volume of a running pod, which fills the volume; see
// WriteFile. It takes no memory on Array, and on Loop and LVM no time. If a real file system has too
// little space, the error matches syscall.ENOSPC, and the volume is full. Volumes of Array can hold more
// than their size.
func (c *Cluster) WriteZeros(namespace, pod, volume, name string, size int64) error {
	n, path, err := c.podMount(namespace, pod, volume, true)
	if err != nil {
		return err
	}
	return n.fs.WriteZeros(filepath.Join(path, name), size)
}

// ReadFile reads a file of a volume of a running pod. The path is that of the pod's first container that
// mounts the volume; see WriteFile.
func (c *Cluster) ReadFile(namespace, pod, volume, name string) ([]byte, error) {
	n, path, err := c.podMount(namespace, pod, volume, false)
	if err != nil {
		return nil, err
	}
	return n.fs.ReadFile(filepath.Join(path, name))
}

// HostPath returns the machine on which the PersistentVolume controller provisions volumes of
// kubernetes.io/host-path. It is node-1, so that in a world of one node its pods can use them. In a
// world without kubelets it is a separate machine.
func (c *Cluster) HostPath() hostpath.Machine { return c.machine }

// Machine returns a node's disk, for what hostPath and local volumes of its pods refer to, and for
// FlexVolume drivers. "" is the machine of the attach/detach controller, which is no node and has
// nothing else on its disk. The error says that there is no such node.
func (c *Cluster) Machine(node string) (hostpath.Machine, error) {
	if node == "" {
		return c.controlPlane, nil
	}
	n, err := c.node(node)
	if err != nil {
		return hostpath.Machine{}, err
	}
	return hostpath.Machine{FS: n.fs, Root: n.root}, nil
}

func (c *Cluster) volumeMount(namespace, podName, volume string) (*node, string, error) {
	at, err := c.findVolume(namespace, podName, volume)
	if err != nil {
		return nil, "", err
	}
	path, err := at.node.kubelet.Load().MountPath(at.spec, at.pod)
	if err != nil {
		return nil, "", fmt.Errorf("pod %s/%s: volume %s: %w: %w", namespace, podName, volume, ErrNotMounted, err)
	}
	there := at.node.fs.Exists
	if isMounted(at.spec) { // the directory may exist before the mount
		there = at.node.fs.IsMountPoint
	}
	if mounted, err := there(path); err != nil || !mounted {
		return nil, "", fmt.Errorf("pod %s/%s: volume %s: %w", namespace, podName, volume, ErrNotMounted)
	}
	return at.node, path, nil
}

// podMount returns where the first container of a pod that mounts a volume has it, or the first one that may
// write to it.
func (c *Cluster) podMount(namespace, pod, volume string, writes bool) (*node, string, error) {
	mounts, readOnly := false, c.isOfFiles(namespace, pod, volume)
	n, path, err := c.containerMount(namespace, pod, func(_ string, m *corev1.VolumeMount) bool {
		if m.Name != volume {
			return false
		}
		mounts = true
		return !writes || !readOnly && !m.ReadOnly
	})
	switch {
	case !errors.Is(err, errNoMount):
		return n, path, err
	case mounts:
		return nil, "", fmt.Errorf("pod %s/%s: its containers mount volume %s read-only: %w", namespace, pod, volume, nodefs.ErrReadOnly)
	default: // the pod or its volume does not exist, or no container mounts it
		return c.volumeMount(namespace, pod, volume)
	}
}

// isOfFiles reports whether a volume has files of API objects, which kubelets mount read-only.
func (c *Cluster) isOfFiles(namespace, podName, volume string) bool {
	pod, ok := c.pod(namespace, podName)
	return ok && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Name == volume && (v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil)
	})
}

// errNoMount says that no container of a pod has the requested mount.
var errNoMount = errors.New("no container mounts the volume")

// containerMount returns what a container of a pod has by the first volumeMount that matches.
func (c *Cluster) containerMount(namespace, podName string,
	meant func(container string, m *corev1.VolumeMount) bool,
) (*node, string, error) {
	pod, ok := c.pod(namespace, podName)
	if !ok {
		return nil, "", fmt.Errorf("pod %s/%s: %w: %w", namespace, podName, errNoMount, fs.ErrNotExist)
	}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for i := range container.VolumeMounts {
			m := &container.VolumeMounts[i]
			if !meant(container.Name, m) {
				continue
			}
			if m.SubPath+m.SubPathExpr == "" {
				return c.volumeMount(namespace, podName, m.Name)
			}
			return c.subPath(namespace, podName, container.Name, i, m.Name)
		}
	}
	return nil, "", fmt.Errorf("pod %s/%s: %w: %w", namespace, podName, errNoMount, fs.ErrNotExist)
}

// subPath returns where a container has part of a volume by its i-th volumeMount.
func (c *Cluster) subPath(namespace, podName, container string, i int, volume string) (*node, string, error) {
	at, err := c.findVolume(namespace, podName, volume)
	if err != nil {
		return nil, "", err
	}
	path := subpath.Subpath{
		PodDir: filepath.Join(at.node.root, "pods", string(at.pod)), Volume: at.spec.Name(), Container: container, Index: i,
	}.Target()
	if mounted, err := at.node.fs.IsMountPoint(path); err != nil || !mounted {
		return nil, "", fmt.Errorf("pod %s/%s: volume %s of container %s: %w", namespace, podName,
			volume, container, ErrNotMounted)
	}
	return at.node, path, nil
}

// A volumeUse is a volume of a pod on its node.
type volumeUse struct {
	node *node
	spec *plugins.Spec
	pod  types.UID
}

func (c *Cluster) findVolume(namespace, podName, volume string) (volumeUse, error) {
	pod, ok := c.pod(namespace, podName)
	if !ok {
		return volumeUse{}, fmt.Errorf("pod %s/%s: %w", namespace, podName, fs.ErrNotExist)
	}
	spec, err := c.volumeOf(pod, volume)
	if err != nil {
		return volumeUse{}, fmt.Errorf("pod %s/%s: %w", namespace, podName, err)
	}
	at := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == pod.Spec.NodeName })
	if at < 0 {
		return volumeUse{}, fmt.Errorf("pod %s/%s has no node: volume %s: %w", namespace,
			podName, volume, ErrNotMounted)
	}
	return volumeUse{node: c.nodes[at], spec: spec, pod: pod.UID}, nil
}

// migrated translates the in-tree plugins whose volumes CSI drivers mount.
var migrated = plugins.Migrated()

// volumeOf returns a volume of a pod, as kubelets see it: the PersistentVolume behind its claim, or
// the volume itself.
func (c *Cluster) volumeOf(pod *corev1.Pod, volume string) (*plugins.Spec, error) {
	i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volume })
	if i < 0 {
		return nil, fmt.Errorf("no volume %q: %w", volume, fs.ErrNotExist)
	}
	v := &pod.Spec.Volumes[i]
	name := podclaims.Name(pod, v)
	if name == "" {
		return migrated.Translate(&plugins.Spec{Volume: v}, pod.Namespace)
	}
	claim, ok := c.claim(pod.Namespace, name)
	if !ok {
		return nil, fmt.Errorf("claim %s: %w", name, fs.ErrNotExist)
	}
	if claim.Spec.VolumeName == "" {
		return nil, fmt.Errorf("claim %s is not bound: %w", claim.Name, ErrNotMounted)
	}
	o, ok := c.server.Get("persistentvolumes", "", claim.Spec.VolumeName)
	if !ok {
		return nil, fmt.Errorf("claim %s: volume %s: %w", claim.Name, claim.Spec.VolumeName, fs.ErrNotExist)
	}
	return migrated.Translate(&plugins.Spec{PersistentVolume: o.(*corev1.PersistentVolume)}, pod.Namespace)
}

// isMounted reports whether a volume is mounted where its pod has it. Other volumes are files of the
// node.
func isMounted(spec *plugins.Spec) bool {
	if spec.PersistentVolume != nil {
		return spec.PersistentVolume.Spec.HostPath == nil
	}
	inline := &spec.Volume.VolumeSource
	inMemory := inline.EmptyDir != nil && inline.EmptyDir.Medium == corev1.StorageMediumMemory
	return inline.CSI != nil || inline.FlexVolume != nil || inline.NFS != nil ||
		inline.Secret != nil || inline.Projected != nil || inMemory
}
