package definitions

import (
	"context"
	"errors"

	"github.com/volsim/volsim/fake"
)

// An Installer makes a server serve definitions.
type Installer struct {
	Paths     func(ctx context.Context, server *fake.Server, paths []string) error // in files and directories
	Documents func(ctx context.Context, server *fake.Server, text string) error    // in YAML
}

// installer is package fake/crd's. It is set while packages are initialized.
var installer *Installer

// errNotLinked means that the program does not import package fake/crd.
var errNotLinked = errors.New(`the program has no schema code; add: import _ "github.com/volsim/volsim/fake/crd"`)

// Register sets what Install and InstallText call.
func Register(by Installer) { installer = &by }

// Install makes the server serve the definitions in files, and in the files of directories.
func Install(ctx context.Context, server *fake.Server, paths []string) error {
	if installer == nil {
		return errNotLinked
	}
	return installer.Paths(ctx, server, paths)
}

// InstallText makes the server serve the definitions in a stream of YAML documents.
func InstallText(ctx context.Context, server *fake.Server, text string) error {
	if installer == nil {
		return errNotLinked
	}
	return installer.Documents(ctx, server, text)
}

// admission is package fake/admission's. It is set while packages are initialized.
var admission func(server *fake.Server)

// RegisterAdmission sets what ServeAdmission calls.
func RegisterAdmission(serve func(server *fake.Server)) { admission = serve }

// ServeAdmission makes a server call webhooks and evaluate policies, in a program that has package fake/admission.
func ServeAdmission(server *fake.Server) {
	if admission != nil {
		admission(server)
	}
}
