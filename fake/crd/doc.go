// Package crd adds CustomResourceDefinitions, and the resources that they define, to a server of
// package fake.
//
//	server := fake.NewServer(fake.Config{})
//	crd.Serve(server)
//	client := server.Client(sim.DirectCaller())
//	err := crd.InstallFS(ctx, client, os.DirFS("config/crd"))
//	snapshots := client.Dynamic().Resource(schema.GroupVersionResource{…})
//
// [Serve] registers customresourcedefinitions of apiextensions.k8s.io/v1. Each write of a
// definition adds, changes or removes its resource before the write returns. [Install] and
// [InstallFS] create the definitions in YAML files, such as those of external-snapshotter.
//
// Definitions and custom objects are [*fake.CustomObject], which is unstructured, since package
// fake does not know schemas. A program that does not import package crd does not link the schema
// code.
//
// Schemas are handled by upstream's own code, k8s.io/apiextensions-apiserver: structural schemas
// with defaulting and pruning, OpenAPI and CEL validation with ratcheting, list types, embedded
// resources. This package implements what surrounds it: the strategies for definitions and objects,
// and the controllers of definitions.
//
// The real server's controllers act a moment after a write. Here they act in the write, or before
// it returns. There is no goroutine: the same requests always produce the same state.
//
// # What it does not do
//
//   - Conversion by webhooks. A definition that asks for it is refused. Between versions only
//     apiVersion changes.
//   - apiextensions.k8s.io/v1beta1, which Kubernetes removed in 1.22.
//
// Deviations are marked with "Differs:" where they are implemented.
//
// Upstream: k8s.io/apiextensions-apiserver (v1.36).
package crd
