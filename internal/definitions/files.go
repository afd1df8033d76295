package definitions

import (
	"os"
	"path/filepath"
	"slices"
)

// extensions are those of the files that are read in a directory.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/envtest readCRDs.
var extensions = []string{".yaml", ".yml", ".json"}

// IsFile reports whether a file has the extension of one with definitions.
func IsFile(name string) bool { return slices.Contains(extensions, filepath.Ext(name)) }

// Files returns a file itself, and the files of a directory by name.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && IsFile(e.Name()) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}
