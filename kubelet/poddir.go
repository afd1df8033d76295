package kubelet

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// removePodDir removes what is left of a pod's directory, all of it empty directories.
func (k *Kubelet) removePodDir(uid types.UID) error {
	pod := filepath.Join(k.cfg.Root, "pods", string(uid))
	var dirs []string
	for _, of := range []string{"volumes", "volumeDevices"} {
		of = filepath.Join(pod, of)
		if exists, err := k.cfg.FS.Exists(of); err != nil || !exists {
			continue
		}
		names, err := k.cfg.FS.ReadDir(of)
		if err != nil {
			return fmt.Errorf("remove pod directory: %w", err)
		}
		for _, name := range names {
			dirs = append(dirs, filepath.Join(of, name))
		}
		dirs = append(dirs, of)
	}
	for _, dir := range append(dirs, pod) {
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
