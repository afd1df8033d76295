package definitions

import (
	"context"
	"errors"

	"github.com/volsim/volsim/fake"
)

// installer is package fake/crd's. It is set while packages are initialized.
var installer func(ctx context.Context, server *fake.Server, paths []string) error

// errNotLinked means that the program does not import package fake/crd.
var errNotLinked = errors.New(`the program has no schema code; add: import _ "github.com/volsim/volsim/fake/crd"`)

// Register sets the function that Install calls.
func Register(f func(ctx context.Context, server *fake.Server, paths []string) error) { installer = f }

// Install makes the server serve the definitions in files, and in the files of directories.
func Install(ctx context.Context, server *fake.Server, paths []string) error {
	if installer == nil {
		return errNotLinked
	}
	return installer(ctx, server, paths)
}
