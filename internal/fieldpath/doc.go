// Package fieldpath reads the fields of a pod that its containers and volumes may show.
//
// Upstream: pkg/fieldpath, pkg/api/v1/resource helpers.go (v1.36).
package fieldpath
