package localprovisioner

import (
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// mountConfig is the form of a class in YAML. The directory within a container and the command that
// cleans devices have no effect.
//
// Upstream: pkg/common MountConfig.
type mountConfig struct {
	HostDir             string   `json:"hostDir"`
	MountDir            string   `json:"mountDir"`
	BlockCleanerCommand []string `json:"blockCleanerCommand"`
	VolumeMode          string   `json:"volumeMode"`
	FSType              string   `json:"fsType"`
	NamePattern         string   `json:"namePattern"`
}

// ParseClasses parses classes in YAML, as in storageClassMap of the provisioner's ConfigMap, and
// returns them by name. Without text there are none.
//
// Upstream: pkg/common ConfigMapDataToVolumeConfig.
func ParseClasses(text string) ([]Class, error) {
	if text == "" {
		return nil, nil
	}
	var byName map[string]mountConfig
	if err := yaml.UnmarshalStrict([]byte(text), &byName); err != nil {
		return nil, fmt.Errorf("classes of local disks: %w", err)
	}
	var classes []Class
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		config := byName[name]
		class := Class{
			Name: name, Dir: config.HostDir, VolumeMode: corev1.PersistentVolumeMode(config.VolumeMode),
			FSType: config.FSType, NamePattern: config.NamePattern,
		}
		switch class.VolumeMode {
		case "", corev1.PersistentVolumeFilesystem, corev1.PersistentVolumeBlock:
		default:
			return nil, fmt.Errorf("class %s: unsupported volume mode %s", name, class.VolumeMode)
		}
		if !path.IsAbs(class.Dir) {
			return nil, fmt.Errorf("class %s: hostDir %q: want an absolute path", name, class.Dir)
		}
		if _, err := path.Match(class.NamePattern, ""); err != nil {
			return nil, fmt.Errorf("class %s: namePattern %q: %w", name, class.NamePattern, err)
		}
		classes = append(classes, class)
	}
	return classes, nil
}
