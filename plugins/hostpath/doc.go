// Package hostpath is the volume plugin "kubernetes.io/host-path", as kube-controller-manager has it: a volume is a directory
// of a machine.
//
// [Plugin] makes directories for claims, if it is allowed to, deletes them, and recycles them by a pod (package recycler). The
// machine is a [Machine]: a directory of a nodefs.FS that stands for its root. Upstream's plugin works on the machine on which
// the controller happens to run, and a pod gets the directory of that name of the machine on which the pod runs. In a cluster
// of one node that is the same; in a larger one a volume is another for each node, and recycling empties that of one of them.
// That is so here too: the plugin is for tests and for learning, as upstream's is.
//
// Each call that touches the disk leaves the component as one effect, is recorded as a driver call on
// "kubernetes.io/host-path/NAME", with the directory in its details, and can be made to fail.
//
// Not here: mounting for a pod, types of paths, SELinux labels.
//
// Upstream: pkg/volume/hostpath (v1.36).
package hostpath
