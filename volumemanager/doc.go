// Package volumemanager is the part of a kubelet that mounts and unmounts the volumes of pods.
//
//	m := volumemanager.New(cfg)
//	err := m.MarkAllPodsAdded()
//	m.AddPod(pod)
//	err = m.WaitForAttachAndMount(ctx, pod)
//	m.RemovePod(pod.UID)
//
// A [Manager] is notified of the pods that run on its node, and of each change of the node's own
// Node object. It keeps two states of world, both of one node; the attach/detach controller has two
// of the same names, of all nodes. The desired state is what each pod needs. The actual state is
// what is attached and mounted here, or may be. Two queues do the work. The populator, keyed by
// pod, resolves the volumes of a pod. The reconciler, keyed by volume, compares desired with actual
// and starts operations: it unmounts what no pod wants, mounts what a pod wants, unmounts unused
// devices and forgets the volume.
//
// This order keeps data safe. A volume is reported in node.status.volumesInUse before it is
// mounted. It is mounted only if the Node, read after that report, lists it in volumesAttached. It
// stays reported until its device is unmounted.
//
// A kubelet that starts unmounts nothing before it knows what its pods need, and never what a pod
// may need whose volumes could not all be processed (ready.go). It finds on the disk what an
// earlier kubelet left (reconstruct.go), and treats it as uncertain until it has mounted or
// unmounted it.
//
// What it does not do: it runs no containers and reports no node status; package kubelet does both.
// It has no metrics.
//
// Differs: upstream polls everything every 100 ms; this manager reacts to changes. Upstream reads
// the Node from the API server before each mount; here the watched Node is used, as long as it is
// not older than the report. Both differences show in the trace only.
//
// Upstream: pkg/kubelet/volumemanager.
package volumemanager
