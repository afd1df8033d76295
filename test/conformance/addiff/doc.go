// Package addiff compares our attach/detach controller with upstream's own, k8s.io/kubernetes 1.36.3 with its CSI plugin: its
// tests draw histories, let both live through each in a world of their own, and compare the two worlds.
//
// A [history] is a list of steps: pods that come, end and go, nodes that come and go, fail, are tainted or become managed,
// kubelets that stop or never unmount, an attacher that fails, hangs or takes its time, claims and volumes that come late or
// go too early, a driver that needs attaching no more, attachments that somebody else deletes, a controller that starts
// anew; and beside it a kind of request of the controller that goes wrong for a while. Both worlds run by virtual clocks that
// go at the same pace, ours on a stepped host, upstream's in a bubble of testing/synctest: six minutes cost nothing. Attacher
// and kubelets look at their world every five seconds. After a step comes a pause. Short ones end before all is at rest, and
// nothing is compared; after the others the worlds must be the same: the VolumeAttachments, what the nodes' statuses say is
// attached, the set of events that were ever told, and for each volume the order in which attachments of it were asked for
// and taken back, however often each was tried. Besides, ours must never ask for a second attachment of a volume for one node.
//
// Upstream decides by the order of maps, so that the same history may end in several ways: it lives through one that ended
// otherwise again and again, and ours with its strands moved in other orders, until they once did the same. Differences that
// are there on purpose are listed by deliberates, each with a story that shows it; a history ends where it meets one, and
// only one history in twenty may.
//
// Not compared: when something happens, and how often it is tried; what upstream does while its caches are behind, but for
// the stories.
//
// The histories are the same each time. "go test -rapid.seed=0 -rapid.checks=1000" draws others, and more.
package addiff
