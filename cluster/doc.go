// Package cluster puts a world together: an API server, the control plane, nodes with their kubelets, and a CSI driver
// with its sidecars and its devices.
//
//	c, err := cluster.New(cluster.Config{Nodes: 2})
//	defer c.Close()
//	c.Start(ctx)
//	c.Client() // a kubernetes.Interface
//
// A [Cluster] runs live by default. With [Config].Stepped it is moved one action at a time under a chooser, and whatever
// waits for it (Start, the Wait methods) moves it. Its devices are loop devices or volume groups of this machine, or the
// memory of the simulated array; see [Devices].
//
// The PersistentVolume controller has the plugins of kube-controller-manager that recycle, and with
// [Config].HostPathProvisioning makes volumes, too; its machine is node-1. The kubelets do what recycler pods would: on the
// disk of the node on which the pod runs, which in a world of several nodes need not be the disk on which the volume was
// made.
//
// A [Remote] is parts of the same list over a real API server, without the world around them.
//
// Not here: what decides anything. The parts are in their own packages, and see each other only through API objects; the
// list of them is in controlplane.go. Other pods run no containers: a pod is Running when
// its volumes are mounted. Volumes of kubernetes.io/host-path and kubernetes.io/nfs are not mounted for pods yet.
package cluster
