// Package upstreamad runs kube-controller-manager's attach/detach controller, k8s.io/kubernetes
// 1.36.3, over any client, for comparisons and benchmarks.
//
//	wait, err := upstreamad.Start(ctx, upstreamad.Config{Client: client})
//	if err == nil {
//		cancel()
//		wait()
//	}
//
// What it does not do: it does not run the rest of kube-controller-manager.
package upstreamad
