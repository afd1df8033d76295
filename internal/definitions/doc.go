// Package definitions is the way from clusters to packages that a program need not have: it installs custom resources
// from files with package fake/crd, and lets servers act by webhooks and policies with package fake/admission.
//
//	err := definitions.Install(ctx, server, []string{"config/crd/bases"})
//
// Both packages register themselves here when they are linked, as an image format does. Package cluster can therefore
// install definitions and still be built without the code for schemas and CEL.
package definitions
