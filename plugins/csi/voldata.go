package csi

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/volsim/volsim/plugins/nodefs"
)

// dataFile is the name of the file in which the plugin records what it needs to undo a mount.
const dataFile = "vol_data.json"

// volumeData is the content of a dataFile.
//
// Upstream: pkg/volume/csi volDataKey.
type volumeData struct {
	SpecVolID           string `json:"specVolID,omitempty"`
	VolumeHandle        string `json:"volumeHandle"`
	DriverName          string `json:"driverName"`
	NodeName            string `json:"nodeName,omitempty"`
	AttachmentID        string `json:"attachmentID,omitempty"`
	VolumeLifecycleMode string `json:"volumeLifecycleMode,omitempty"`
	SELinuxMountContext string `json:"seLinuxMountContext,omitempty"`
}

func saveData(fs nodefs.Writer, dir string, data volumeData) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("save volume data: %w", err)
	}
	if err := fs.WriteFile(filepath.Join(dir, dataFile), raw); err != nil {
		return fmt.Errorf("save volume data: %w", err)
	}
	return nil
}

// loadData reads the data file of a directory. The error matches fs.ErrNotExist if there is none.
func loadData(fs nodefs.Reader, dir string) (volumeData, error) {
	var data volumeData
	raw, err := fs.ReadFile(filepath.Join(dir, dataFile))
	if err != nil {
		return data, fmt.Errorf("load volume data: %w", err)
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		return data, fmt.Errorf("load volume data of %s: %w", dir, err)
	}
	if data.DriverName == "" || data.VolumeHandle == "" {
		return data, fmt.Errorf("load volume data of %s: driver or handle missing", dir)
	}
	return data, nil
}

// removeMount removes the directory a volume was mounted at, the data file next to it, and their
// directory. What does not exist is skipped. What is still mounted stays, and is an error.
//
// Upstream: pkg/volume/csi removeMountDir.
func removeMount(fs nodefs.Files, path string) error {
	dir := filepath.Dir(path)
	for _, p := range []string{path, filepath.Join(dir, dataFile), dir} {
		exists, err := fs.Exists(p)
		if err != nil {
			return fmt.Errorf("remove mount of %s: %w", path, err)
		}
		if !exists {
			continue
		}
		if err := fs.Remove(p); err != nil {
			return fmt.Errorf("remove mount of %s: %w", path, err)
		}
	}
	return nil
}
