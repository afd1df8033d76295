// Package definitions installs custom resources from files, in programs that have package fake/crd.
//
//	err := definitions.Install(ctx, server, []string{"config/crd/bases"})
//
// Package fake/crd registers itself here when it is linked, as an image format does. Package
// cluster can therefore install definitions and still be built without the schema code.
package definitions
