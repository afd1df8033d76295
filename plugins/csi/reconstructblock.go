package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// reconstructBlocks returns the volumes that were prepared as devices, or begun to be, from their
// records. It adds the pods for which they may still be mapped: those for which the driver may have
// published the device, and those for which the kubelet mapped it. Without a record the driver was
// never called.
func (p *Plugin) reconstructBlocks() ([]plugins.ReconstructedDevice, error) {
	names, err := readDirIfExists(p.cfg.FS, p.devicesDir())
	if err != nil {
		return nil, fmt.Errorf("find devices: %w", err)
	}
	var found []plugins.ReconstructedDevice
	for _, name := range names {
		if dir := p.blockDir(name); dir == filepath.Dir(p.stagingPath(name)) ||
			dir == filepath.Dir(p.publishDir(name)) {
			continue // not a volume: holds the directories of all of them
		}
		made, err := p.ReconstructBlock(name, "")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		device := plugins.ReconstructedDevice{Path: p.globalMapPath(name), Block: true}
		if err == nil {
			device.Spec = made.Spec
		}
		if device.Pods, err = p.podsOfBlock(name); err != nil {
			return nil, fmt.Errorf("find devices: %w", err)
		}
		found = append(found, device)
	}
	return found, nil
}

func (p *Plugin) podsOfBlock(specName string) ([]types.UID, error) {
	var pods []types.UID
	for _, dir := range []string{p.publishDir(specName), p.globalMapPath(specName)} {
		names, err := readDirIfExists(p.cfg.FS, dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			pods = append(pods, types.UID(name))
		}
	}
	slices.Sort(pods)
	return slices.Compact(pods), nil
}
