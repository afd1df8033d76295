// Package subpath makes part of a volume be there for a container: the directory, or the file, that a volumeMount's subPath
// names.
//
// What a container is to see is bound to a place of its own below the pod's directory,
//
//	<pod>/volume-subpaths/<volume>/<container>/<index of the volumeMount>
//
// before it starts, and stays bound to that as long as the pod has the volume, whatever becomes of the path in the volume: a
// pod may replace what is in its volume by links while somebody looks. [Binder.Bind] binds, and can be repeated;
// [Binder.Clean] takes away all that a pod has of a volume, before the volume itself is taken away. What is found is what is
// done: nothing is remembered, so that a kubelet that was killed between any two steps, and a node that has booted, need no
// other way. Each step that changes the disk, but for the making of an empty place, leaves the component.
//
// Not here: which containers there are and what they name (package kubelet), and when a volume goes (package volumemanager).
//
// Upstream: pkg/volume/util/subpath (v1.36), as on Linux.
package subpath
