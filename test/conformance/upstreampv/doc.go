// Package upstreampv runs kube-controller-manager's PersistentVolume controller, k8s.io/kubernetes
// 1.36.3, over any client, for comparisons.
//
//	wait, err := upstreampv.Start(ctx, upstreampv.Config{Client: client})
//	if err == nil {
//		cancel()
//		wait()
//	}
//
// What it does not do: it does not run the rest of kube-controller-manager.
package upstreampv
