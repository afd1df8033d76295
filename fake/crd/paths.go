package crd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/sim"
)

func init() { definitions.Register(definitions.Installer{Paths: installPaths, Documents: installText}) }

// extensions are those of the files that are read in a directory.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/envtest readCRDs.
var extensions = []string{".yaml", ".yml", ".json"}

// installPaths serves definitions and creates those in the files, and in the files of the
// directories, in the given order.
//
// Differs: a missing path is always an error, and so is one without a definition.
func installPaths(ctx context.Context, server *fake.Server, paths []string) error {
	Serve(server)
	client := server.Client(sim.DirectCaller())
	for _, path := range paths {
		files, err := filesAt(path)
		if err != nil {
			return err
		}
		created := 0
		for _, name := range files {
			n, err := installFile(ctx, client, os.DirFS(filepath.Dir(name)), filepath.Base(name))
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			created += n
		}
		if created == 0 {
			return fmt.Errorf("%s: no CustomResourceDefinition found", path)
		}
	}
	return nil
}

// filesAt returns a file itself, and the files of a directory by name.
func filesAt(path string) ([]string, error) {
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
		if !e.IsDir() && slices.Contains(extensions, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	return files, nil
}
