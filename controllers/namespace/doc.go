// Package namespace empties namespaces that are being deleted, and lets them go.
//
// The pods go first, and only when they are gone the rest: resource by resource in the order of discovery, by one deletion
// of the collection each. What is left is told in the namespace's conditions, by resource and by finalizer. Then the
// controller waits: it is told when something of what is left goes or changes, and looks again, at first only at the
// resources that had something left. When nothing is left in any resource, custom ones included, the finalizer kubernetes
// is taken off, and the namespace is gone.
//
// Upstream: pkg/controller/namespace (v1.36.3).
package namespace
