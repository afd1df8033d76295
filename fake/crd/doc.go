// Package crd makes a server of package fake serve CustomResourceDefinitions, and the resources they define.
//
// [Serve] is the one call. From then on the server has customresourcedefinitions of apiextensions.k8s.io/v1, and each one
// that is written brings its resource, changes it, or takes it away, before the write returns. [Install] creates the
// definitions of a YAML file, such as those that external-snapshotter ships.
//
// Definitions, and the objects of what they define, are [*fake.Custom]: unstructured, for package fake knows nothing of
// schemas. Who does not import this package compiles none of the machinery.
//
// Schemas are upstream's own code, k8s.io/apiextensions-apiserver: structural schemas with their defaulting and pruning,
// the OpenAPI and CEL validation with its ratcheting, list types, embedded resources. What is here is what goes round it:
// what the real server's strategies do to definitions and objects, and what its controllers do to definitions.
//
// What the controllers of the real server do a moment after a write is done in the write or, by the server's own hand,
// before it returns: there is no goroutine, and two servers that are told the same are the same.
//
// # What it does not do
//
//   - Conversion by webhooks: a definition that wants one is refused. Between versions only apiVersion changes.
//   - apiextensions.k8s.io/v1beta1, which the real server ceased to serve in 1.22.
//
// Where it does something otherwise than the real server, the place says so in a line that begins with "Differs:".
package crd
