package kubelet

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// removePodDir removes what is left of a pod's directory, all of it empty directories.
func (k *Kubelet) removePodDir(uid types.UID) error {
	pod := filepath.Join(k.cfg.Root, "pods", string(uid))
	volumes := filepath.Join(pod, "volumes")
	var dirs []string
	if exists, err := k.cfg.FS.Exists(volumes); err == nil && exists {
		names, err := k.cfg.FS.ReadDir(volumes)
		if err != nil {
			return fmt.Errorf("remove pod directory: %w", err)
		}
		for _, name := range names {
			dirs = append(dirs, filepath.Join(volumes, name))
		}
	}
	for _, dir := range append(dirs, volumes, pod) {
		exists, err := k.cfg.FS.Exists(dir)
		if err == nil && exists {
			err = k.cfg.FS.Remove(dir)
		}
		if err != nil {
			return fmt.Errorf("remove pod directory: %w", err)
		}
	}
	return nil
}
