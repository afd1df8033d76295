package crd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/sim"
)

func init() { definitions.Register(definitions.Installer{Paths: installPaths, Documents: installText}) }

// installPaths serves definitions and creates those in the files, and in the files of the
// directories, in the given order.
//
// Differs: a missing path is always an error, and so is one without a definition.
func installPaths(ctx context.Context, server *fake.Server, paths []string) error {
	Serve(server)
	client := server.Client(sim.DirectCaller())
	for _, path := range paths {
		files, err := definitions.Files(path)
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
