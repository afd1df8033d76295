// Package kubelet is what a node does about volumes: it registers itself and its drivers, brings volumes to its pods, says that
// they run when all is mounted, and lets them go when all is unmounted. It runs no containers, but for what recycles a volume.
//
// The work with volumes is package volumemanager's. Here are the pods: what of them the API server says, and what it is told. A
// pod's containers start all at once, when its volumes are mounted and the parts of them are bound that containers name by
// subPath (containers.go). They end at once, and well, when the pod is deleted: before its volumes are taken away, and the pod
// goes when these are gone.
//
// Not here: admission, probes, restart policies, the grace period (containers end at once), addresses.
//
// Upstream: pkg/kubelet, as far as volumes need it.
package kubelet
