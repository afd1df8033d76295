// Package volumemanager is the part of a kubelet that brings volumes to pods and takes them away again.
//
// A [Manager] is told which pods run on its node, and of each change of the node's own Node object. It keeps two states
// of world, both about one node (the attach/detach controller has two of the same names, about all nodes): the desired
// one, which says what each pod needs, and the actual one, which says what is attached and mounted here, or may be. Two
// queues do the work: one by pod, which finds out what the volumes of a pod are; one by volume, which compares desired
// with actual and starts operations: unmount what no pod wants, mount what a pod wants, unmount the device nobody uses,
// forget the volume.
//
// The order that keeps data safe: a volume is reported in node.status.volumesInUse before it is mounted, mounted only
// when the Node, read after that report, lists it in volumesAttached, and reported until its device is unmounted.
//
// Differs: upstream looks at everything every 100 ms; here what changed is looked at when it changed. Upstream asks for
// the Node from the API server before each mount; here the watched Node serves, as long as it is not older than the
// report. Both are seen in the trace only.
//
// A kubelet that begins takes nothing away before it knows what its pods need, and never what a pod may need whose volumes
// could not all be processed (ready.go). What the one before it left, it finds on the disk (reconstruct.go), and holds for
// mounted until it has mounted it again or taken it away.
//
// Upstream: pkg/kubelet/volumemanager.
package volumemanager
