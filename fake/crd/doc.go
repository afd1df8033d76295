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
// # Conversion webhooks
//
// A definition may have a conversion webhook, which upstream's own code calls by HTTPS. Objects are
// stored in the storage version, and converted at each read in another version: by clients, watches
// and informers. A request that needs a failing webhook fails and changes nothing. A reference to a
// Service is resolved to the Service's external name or to its first ready endpoint.
// fake.Config.Services has the Services that answer inside the process, without TLS. A handler may
// be the one of controller-runtime.
//
// Differs: in a stepped world, a webhook outside of the process is called while the world stands
// still. Its answer and its failures are not part of the schedule, so a replay calls it again. A
// Service inside the process is deterministic if its handler is.
//
// # What it does not do
//
//   - apiextensions.k8s.io/v1beta1, which Kubernetes removed in 1.22.
//
// Deviations are marked with "Differs:" where they are implemented.
//
// Upstream: k8s.io/apiextensions-apiserver (v1.36).
package crd
