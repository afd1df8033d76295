// Package envtest runs the test suite of an operator on a simulated cluster, in the shape of
// package envtest of controller-runtime.
//
//	testEnv := &envtest.Environment{
//		CRDDirectoryPaths:     []string{filepath.Join("..", "..", "config", "crd", "bases")},
//		ErrorIfCRDPathMissing: true,
//	}
//	cfg, err := testEnv.Start()
//	k8sClient, err := client.New(cfg, client.Options{Scheme: scheme.Scheme})
//	err = testEnv.Stop()
//
// A suite_test.go that kubebuilder generated works when it imports this package instead of
// sigs.k8s.io/controller-runtime/pkg/envtest. No binaries are downloaded and no processes start.
// This package does not import controller-runtime, so the suite chooses its version.
//
// # More than an API server
//
// Envtest of controller-runtime runs an API server without controllers. Behind this [Environment]
// is a live [cluster.Cluster] with all its components. Claims bind and are provisioned. Pods are
// scheduled and become Running when their volumes are mounted. Finalizers of claims and volumes
// clear. The namespace controller empties and removes deleted namespaces. The garbage collector
// deletes what has no owner any more, and it honours foreground deletion.
//
// [Environment].ClusterConfig chooses nodes, devices and components, and [Environment.Cluster]
// waits for claims and pods and reads files of volumes. Volumes are in memory unless
// ClusterConfig.Devices asks for others, so neither root nor Linux is needed.
//
// A suite may play a component itself: it sets the phase of a pod, or binds a claim. Then two
// writers compete, and one may get a conflict. With an empty, non-nil list ClusterConfig.Components
// no component runs, as in controller-runtime's envtest.
//
// WebhookInstallOptions installs admission webhooks, which the suite's manager answers by TLS on
// loopback. ClusterConfig.API.Services has webhooks that are answered in memory.
//
// # Differences
//
//   - Differs: the configuration of [Environment.Start] is answered in memory. Its host names no
//     server. [AuthenticatedUser.KubeConfig] is for other processes.
//   - Differs: there is no field KubeConfig, and no field ControlPlane with flags of an API server;
//     a suite that uses them does not compile. ClusterConfig.API configures the API server.
//   - Differs: kinds whose Go types convert (Hub, ConvertTo, ConvertFrom) are converted by these
//     types, so no manager needs to serve a conversion webhook.
//   - Differs: [Environment.Stop] ends everything, so CRDInstallOptions.CleanUpAfterUse has no
//     effect.
//   - Differs: definitions are installed in the order of paths and files; upstream's order is
//     random.
//
// Upstream: sigs.k8s.io/controller-runtime/pkg/envtest (v0.23).
package envtest
