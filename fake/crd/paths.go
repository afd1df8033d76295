package crd

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
)

func init() { definitions.Register(definitions.Installer{Paths: installPaths, Documents: installText}) }

// installPaths serves definitions and creates those in the files, and in the files of the
// directories, in the given order.
//
// Differs: a missing path is always an error, and so is one without a definition.
func installPaths(ctx context.Context, server *fake.Server, paths []string) error {
	var all []definitionPath
	var key strings.Builder // paths are part of errors, and where one ends is
	for _, name := range paths {
		files, err := definitions.Files(name)
		if err != nil {
			return err
		}
		path := definitionPath{name: name, files: files}
		fmt.Fprintf(&key, "%q:\n", name)
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			path.texts = append(path.texts, text)
			fmt.Fprintf(&key, "%q:\n%s\n", file, text)
		}
		all = append(all, path)
	}
	return installShared(ctx, server, key.String(), func(ctx context.Context, c *fake.Clientset) error {
		for _, path := range all {
			if err := path.install(ctx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// A definitionPath is a file or a directory with definitions.
type definitionPath struct {
	name  string
	files []string
	texts [][]byte // of the files
}

// install creates the definitions.
func (p definitionPath) install(ctx context.Context, c *fake.Clientset) error {
	created := 0
	for i, text := range p.texts {
		n, err := install(ctx, c, bytes.NewReader(text))
		if err != nil {
			return fmt.Errorf("%s: %w", p.files[i], err)
		}
		created += n
	}
	if created == 0 {
		return fmt.Errorf("%s: no CustomResourceDefinition found", p.name)
	}
	return nil
}
