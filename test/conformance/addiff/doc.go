// Package addiff compares our attach/detach controller with upstream's, k8s.io/kubernetes 1.36.3
// with its CSI plugin. Its tests draw histories, execute each in two worlds, and compare the
// worlds.
//
// A [history] is a list of steps. Pods are created, terminate and are deleted. Nodes are created
// and deleted, fail, are tainted or become managed. Kubelets stop or never unmount. The attacher
// fails, hangs or is slow. Claims and volumes are created late or deleted too early, the driver
// stops requiring attach, other clients delete attachments, and the controller restarts. In
// addition, one kind of request of the controller may fail for a while.
//
// Both worlds run on virtual clocks at the same rate, ours on a stepped host, upstream's in a
// bubble of testing/synctest, so six minutes cost nothing. Attacher and kubelets act every five
// seconds. Each step is followed by a pause. Short pauses end before the world is at rest, and
// nothing is compared. After the others these must be equal: the VolumeAttachments, the nodes'
// volumesAttached, the set of events so far, and for each volume the order of attach and detach
// requests without repetitions. Ours must also never request a second attachment of a single-node
// volume.
//
// Upstream decides in map order, so that one history may have several results. Upstream executes a
// history with a different result again, and ours executes it with its tasks in other orders, until
// the results are equal once. Deliberate differences are listed in deliberate, each with a story
// that shows it. A history ends at the first one, and only one history in twenty may.
//
// What it does not do: it compares neither times nor the number of attempts, nor, except in the
// stories, what upstream does while its caches are stale.
//
// The histories are the same in each run. "go test -rapid.seed=0 -rapid.checks=1000" draws others,
// and more.
package addiff
