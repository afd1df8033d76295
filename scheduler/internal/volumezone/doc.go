// Package volumezone is the plugin VolumeZone: a pod whose volumes have labels of a zone or region goes to
// a node of that zone or region.
//
// The label of a volume may list several zones: "a__b". A node without any such label can use every
// volume. The names of labels from before Kubernetes 1.17 count as well.
//
// Upstream: pkg/scheduler/framework/plugins/volumezone (v1.36).
package volumezone
