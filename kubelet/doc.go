// Package kubelet is the part of a kubelet that concerns volumes: it registers the node and its
// drivers, and mounts and unmounts the volumes of the node's pods.
//
//	k, err := kubelet.New(kubelet.Config{
//		Process: process, Client: client, Informers: informers,
//		Node: "node-1", Root: "/var/lib/kubelet", FS: disk, BootID: "boot-1",
//		NFS: servers, Sockets: sockets, Dial: dial,
//	})
//
// Package volumemanager handles the volumes. This package handles the pods: it reads them from the
// API server and reports their status. A pod's containers start all at once, when its volumes are
// mounted and its subPath mounts are bound (containers.go). With [Config].Containers their commands run
// (runs.go, poststart.go, probes.go) and are asked to end when the pod is deleted, sidecar containers last (stopruns.go).
// Otherwise nothing runs, and they end at once, and successfully. Then the pod's volumes are unmounted, and the kubelet
// removes the pod when that is done. Annotations of a pod say that its containers are not ready ([ReadyAnnotation]) or exit
// earlier ([ExitCodesAnnotation]), or that its init containers fail: these run one after the other
// before the containers start. Ephemeral containers start whenever a user adds them (ephemeralcontainers.go). They are restarted as the restart policy says, and the pod ends as
// Succeeded or Failed when none is. With [Config].NodeLease the kubelet also renews the Lease of its node.
//
// What it does not do: it has no admission, networks or limits of resources, and no probes by HTTP, gRPC and TCP. Of images it
// checks the names; addresses of pods are names too, at which nothing answers. The work of recycler pods is its own.
//
// Upstream: pkg/kubelet, as far as volumes need it.
package kubelet
