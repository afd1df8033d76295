// Package vmdiff compares our kubelet's volume manager with upstream's own, k8s.io/kubernetes 1.36.3: its tests draw histories, let
// both live through each in a world of their own, and compare the two worlds (see package histories).
//
// A history may begin with a kubelet that attaches by itself, on a node that behaves by its name, or with volumes that are devices.
// It has pods that come, whose containers end, that are deleted before or after that, and that come again; claims that are
// bound late, volumes that are made late or are another claim's; an attach/detach controller that is down; a Node that somebody
// writes to; requests of the kubelet that go wrong for a while, and calls of the plugin that do; and kubelets that restart. Upstream's manager is on
// upstream's fake plugin, whose volumes behave by their names: they time out, fail, or succeed once. Ours is on a plugin that
// behaves the same by the same names. Both worlds run by virtual clocks that go at the same pace, ours on a stepped host, upstream's
// in a bubble of testing/synctest.
//
// Around upstream's manager stands as much of a kubelet as it needs: it tells of pods, reports volumes in use once a second, and
// knows its Node at once. After each step both worlds come to rest, and must be the same: which volumes pods have mounted, and
// whether anything is held for them; what the Node's status says is in use and attached; the events that were ever told; and for each
// volume the plugin's calls in their order, those that succeeded each, those that failed once between two that succeeded.
//
// Upstream takes the pods of a volume in the order of a map. What is done for one pod commutes with what is done for another, so
// calls are compared as the one order that stands for all of those (calls), and what failed for a volume that pods share is no
// single pod's. What is left is which of several pods gets a volume that is for one: then upstream lives again, a few times.
//
// Differences that are there on purpose are listed by deliberates; a history ends where it meets one.
//
// Not compared: when something happens and how often it is tried; what a kubelet that begins finds of devices, which upstream's
// fakes cannot tell.
//
// The histories are the same each time. "go test -rapid.seed=0 -rapid.checks=1000" draws others, and more.
package vmdiff
