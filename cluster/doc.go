// Package cluster builds simulated clusters: an API server, the control plane, nodes with their
// kubelets, and a CSI driver with its sidecars and devices.
//
//	c, err := cluster.New(cluster.Config{Nodes: 2})
//	defer c.Close()
//	err = c.Start(ctx)
//	_, err = c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("db", "data"), metav1.CreateOptions{})
//	err = c.WaitForPod(ctx, "default", "db", corev1.PodRunning)
//
// In a test, simtest.Start does the first three lines, closes the cluster when the test ends, and shows
// what happened if it fails. [Cluster.Client] and [Cluster.RESTConfig] are for any client;
// [Cluster.Apply] takes manifests. The Wait methods run the world until a condition holds, and fail
// with the likely cause: "claim default/data: storage class fast not found".
//
// A [Cluster] runs live by default. With [Config].Stepped a scheduler runs it one action at a time
// under a chooser; Start, Run and the Wait methods then drive it. Its devices are loop devices or
// volume groups of this machine, or a simulated array in memory; see [Devices].
//
// Each [Component] of the control plane is a process with its own client and its own caches. A
// [Reconciler] adds one of the user's own, whose reads come from its caches; module
// github.com/volsim/volsim/ctrlruntime adds a whole operator of controller-runtime. A [Remote] runs the
// same components against a real API server, without a simulated world around them.
//
// [Config].Plugins adds kinds of volume: each kubelet and the storage controllers get plugins of their
// own; see package plugins.
//
// # Custom resources
//
// [Config].CRDDirectoryPaths names the files of their definitions, as in controller-runtime's envtest.
// Package fake/crd has the code for schemas, so the program imports it. Definitions from elsewhere are
// created with crd.Serve and crd.Install, which takes [Cluster.Client]. [Cluster.Apply] and
// [Cluster.WaitFor] take custom objects, [Cluster.RESTConfig] configures their typed, dynamic and
// controller-runtime clients, and [ReconcilerConfig].For names their resource ("things.example.com").
// The garbage collector and the namespace controller see them, too.
//
// # Volumes of kubernetes.io/host-path
//
// The PersistentVolume controller has the plugins of kube-controller-manager that recycle. With
// [Config].HostPathProvisioning it also provisions; its machine is node-1. The kubelets do the work
// of recycler pods: on the disk of the pod's node, which in a world of several nodes need not be
// the disk on which the volume was provisioned.
//
// # NFS
//
// Volumes of kind nfs come from simulated servers, whose files are in [Cluster.NFSExports]. Pods of
// all nodes see the same files at once. [Cluster.StopNFSServer] makes a server unreachable. With
// [Config].RealNFS the kernel of this machine mounts from real servers.
//
// # What it does not do
//
// It makes no decisions. The components are in their own packages and see each other only through API
// objects; controlplane.go lists them. With Config.Containers the commands of containers run, as
// far as they are shell and small tools; see Cluster.Exec and Cluster.Logs. Otherwise nothing runs: a pod is Running and ready
// when its volumes are mounted. Two annotations let its containers be unready, and exit with a code:
// kubelet.ReadyAnnotation and kubelet.ExitCodesAnnotation.
package cluster
