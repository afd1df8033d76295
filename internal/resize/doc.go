// Package resize is what the status of a claim says while the claim's volume grows, and how that is written: by whoever grows
// volumes at their back end, and by kubelets, which grow them on nodes.
//
// The story goes: a user asks for more in the claim's spec. The status of the resource "storage" becomes
// ControllerResizeInProgress, and the size that is being made stands in allocatedResources. When the volume is larger, and so
// its object, a node has to follow (NodeResizePending), does (NodeResizeInProgress), and in the end the status is gone, and
// capacity says what is there. Who fails for good says so (ControllerResizeInfeasible, NodeResizeInfeasible). Conditions tell
// people the same.
//
// What is written is computed here, from one version of a claim to the next; who decides that it is to be written is not
// here.
//
// Upstream: pkg/volume/util resize_util.go (v1.36).
package resize
