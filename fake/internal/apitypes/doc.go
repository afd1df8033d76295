// Package apitypes has the Go types of the built-in kinds.
//
//	obj, err := apitypes.New(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
//
// They are those of client-go's scheme, except that mutating admission policies of v1 have the Go types of v1beta1: k8s.io/api
// has others from v0.36 on only, and the fields are the same.
//
// Upstream: k8s.io/client-go/kubernetes/scheme.
package apitypes
