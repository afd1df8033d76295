// Package vmdiff compares our kubelet's volume manager with upstream's, k8s.io/kubernetes 1.36.3.
// Its tests draw histories, execute each in two worlds, and compare the worlds.
//
// A [history] is a list of steps. Pods are created, terminate, are removed before or after that,
// and are created again. Claims are bound late, volumes are created late or bound to another claim.
// The attach/detach controller stops, another client clears the volumes in use in the Node, and the
// kubelet restarts. A history may begin with a kubelet that attaches volumes itself, on a node
// whose name determines its behaviour, or with volumes that are devices. In addition, one kind of
// request of the kubelet or one kind of plugin call may fail for a while.
//
// Upstream's manager uses upstream's fake plugin. The names of its volumes determine their
// behaviour: they time out, fail, or succeed once. Our plugin behaves in the same way. The parts of
// a kubelet around upstream's manager add pods, report volumes in use once a second, and update the
// Node at once. Both worlds run on virtual clocks at the same rate, ours on a stepped host,
// upstream's in a bubble of testing/synctest.
//
// After each step both worlds come to rest, and these must be equal: the mounted volumes of each
// pod, whether the manager has volumes of the pod, the volumes in use and attached in the Node's
// status, the set of events so far, and the plugin's calls for each volume.
//
// Upstream processes the pods of a volume in map order. Calls for different pods commute, so calls
// are compared in a canonical order; see calls. Failures for a volume that pods share are not
// attributed to a pod. Only the choice of the pod that gets a volume for one pod remains; then
// upstream executes the history again. Deliberate differences are listed in deliberate. A history
// ends at the first one, and only one history in twenty may.
//
// What it does not do: it compares neither times nor the number of attempts, nor the reconstruction
// of devices, which upstream's fakes do not support.
//
// The histories are the same in each run. "go test -rapid.seed=0 -rapid.checks=1000" draws others,
// and more.
package vmdiff
