package kubelet

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins/subpath"
	"github.com/volsim/volsim/volumemanager"
)

// usesSubPaths reports whether a container of a pod mounts a subPath of a volume.
func usesSubPaths(pod *corev1.Pod) bool {
	uses := func(c corev1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts,
			func(m corev1.VolumeMount) bool { return m.SubPath != "" || m.SubPathExpr != "" })
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, uses) || slices.ContainsFunc(pod.Spec.Containers, uses)
}

// subPathOf returns the subPath that a container mounts; "" for the whole volume. It fails if the
// subPath is invalid.
//
// Upstream: pkg/kubelet makeMounts (v1.36).
func subPathOf(pod *corev1.Pod, c *corev1.Container, mount *corev1.VolumeMount) (string, error) {
	part := mount.SubPath
	if mount.SubPathExpr != "" {
		known, err := environment(pod, c, nil)
		if err != nil {
			return "", err
		}
		if part, err = expandSubPath(mount.SubPathExpr, known.values); err != nil {
			return "", err
		}
	}
	switch {
	case path.IsAbs(part):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", part)
	case slices.Contains(strings.Split(part, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: %w", part, errBacksteps)
	}
	return part, nil
}

// errBacksteps has upstream's text.
var errBacksteps = errors.New("must not contain '..'")

// bindSubPaths binds the subPaths that a container mounts, one after the other. Each is a
// suspension point; the pod's volumes must stay mounted meanwhile. It ends early when over returns
// true.
//
// Upstream: pkg/kubelet makeMounts (v1.36).
func (k *Kubelet) bindSubPaths(ctx context.Context, pod *corev1.Pod, c *corev1.Container, over func() bool) error {
	for i := range c.VolumeMounts {
		mount := &c.VolumeMounts[i]
		part, err := subPathOf(pod, c, mount)
		if err != nil {
			return err
		}
		if part == "" || over() {
			continue
		}
		volume, err := k.mountedVolume(pod, c, mount.Name, false)
		if err != nil {
			return err
		}
		if err := k.bindSubPath(ctx, mount.Name, k.subpath(pod, c, i, volume, part)); err != nil {
			return err
		}
	}
	return nil
}

// subpath returns a part of a volume for a volumeMount of a container.
func (k *Kubelet) subpath(pod *corev1.Pod, c *corev1.Container, mount int, volume volumemanager.MountedVolume, part string) subpath.Subpath {
	return subpath.Subpath{
		PodDir: filepath.Join(k.podsDir(), string(pod.UID)), Volume: volume.SpecName, VolumePath: volume.Path,
		Container: c.Name, Index: mount, Path: part,
	}
}

// mountedVolume returns a mounted volume of a pod by its name in the pod.
func (k *Kubelet) mountedVolume(pod *corev1.Pod, c *corev1.Container, name string, block bool) (volumemanager.MountedVolume, error) {
	mounted := k.volumes.MountedVolumes(pod.UID)
	at := slices.IndexFunc(mounted, func(v volumemanager.MountedVolume) bool { return v.Name == name && v.Block == block })
	if at < 0 {
		return volumemanager.MountedVolume{}, fmt.Errorf("cannot find volume %q to mount into container %q", name, c.Name)
	}
	return mounted[at], nil
}

// bindSubPath binds a subPath of a volume, named as in the pod, for a container. It creates a
// missing directory. Details of the node's disk are logged, and not part of the error.
func (k *Kubelet) bindSubPath(ctx context.Context, name string, part subpath.Subpath) error {
	disk := subpath.Binder{Process: k.cfg.Process, FS: k.cfg.FS}
	log := logr.FromContextOrDiscard(ctx).WithValues("containerName", part.Container, "volumeMountName", name)
	if disk.Missing(part) {
		root, err := k.cfg.FS.Stat(part.VolumePath)
		if err != nil {
			return err
		}
		if err := disk.MakeDir(part, root.Mode); err != nil {
			log.Error(err, "Failed to create subPath directory for volumeMount of the container")
			return fmt.Errorf("failed to create subPath directory for volumeMount %q of container %q", name,
				part.Container)
		}
	}
	if err := disk.Bind(part); err != nil {
		log.Error(err, "Failed to prepare subPath for volumeMount of the container")
		return fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", name, part.Container)
	}
	return nil
}
