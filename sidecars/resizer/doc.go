// Package resizer is the external-resizer of one CSI driver: when a user asks for more in a bound claim, it grows the volume at
// the driver's controller, writes the new size to the PersistentVolume, and leaves the rest to the kubelets that use the volume,
// if the driver says that they have to follow.
//
// How far it is stands in the claim's status (package resize), so that a resizer that begins anew, or another size that is
// asked for meanwhile, goes on from there: what was begun is ended first, unless it failed for good.
//
// Not here: changing volumes in other ways, telling volumes that are in use from others, volumes of in-tree plugins,
// leader election, and the time limit of a driver call.
//
// Upstream: external-resizer 2.3.0.
package resizer
