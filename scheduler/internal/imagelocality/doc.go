// Package imagelocality prefers nodes that have the images of a pod already.
//
// Upstream: pkg/scheduler/framework/plugins/imagelocality (v1.36).
//
// Differs: the size of an image is that which the node reports. Upstream takes the size that the first node
// reported.
package imagelocality
