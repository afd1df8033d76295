// Package subpath binds part of a volume for a container: the directory or file that a
// volumeMount's subPath names.
//
//	binder := subpath.Binder{Process: process, FS: disk}
//	part := subpath.Subpath{
//		PodDir: podDir, Volume: "data", VolumePath: mount, Container: "app", Path: "logs",
//	}
//	err := binder.Bind(part)
//	// The container sees part.Target().
//	err = binder.Clean(podDir, "data")
//
// The subpath is bound to a target of its own below the pod's directory before the container
// starts:
//
//	<pod>/volume-subpaths/<volume>/<container>/<index of the volumeMount>
//
// It stays bound as long as the pod has the volume, whatever happens to the path in the volume: a
// pod may replace parts of its volume by links at any time. [Binder.Bind] binds, and can be
// repeated. [Binder.Clean] removes everything that a pod has of a volume, before the volume itself
// is unmounted. Both work from what is on the disk and remember nothing. So a kubelet that crashed
// between any two steps, and a node that has rebooted, need no special case. Each step that changes
// the disk, except for creating an empty target, leaves the process.
//
// What it does not do: know which containers exist and what they mount (package kubelet), or when a
// volume is unmounted (package volumemanager).
//
// Upstream: pkg/volume/util/subpath (v1.36), as on Linux.
package subpath
