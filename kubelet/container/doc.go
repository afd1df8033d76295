// Package container is the contract between a kubelet and what runs the containers of its pods, a [Runtime].
//
// A kubelet without a Runtime runs none: its containers are running as soon as their volumes are mounted, and exit
// as annotations of the pod say. With one, each run of a container is started, stopped and observed through
// the Runtime. A Runtime belongs to a node: it outlives the kubelet and its restarts, and ends with the node's boot.
//
// Runs are numbered: a [Run] is the pod, the container's name and how often it was restarted before. The
// kubelet decides from the pod's status which run is next, so it may ask for the same run again; a run is started
// once.
//
// Upstream: k8s.io/cri-api RuntimeService, pkg/kubelet/container Runtime (v1.36).
package container
