// Package nfs is the volume plugin "kubernetes.io/nfs" of kube-controller-manager: it recycles NFS
// exports.
//
//	pods := informers.Core().V1().Pods()
//	plugin := nfs.New(recycler.New(recycler.Config{Process: process, Client: client, Pods: pods}))
//	err := plugin.Recycle(ctx, plugins.RecycleOptions{
//		Volume: "export-a", Spec: spec, RecordEvent: func(eventType, message string) {},
//	})
//
// A [Plugin] recycles with a pod that mounts the export (package recycler).
//
// What it does not do: provision, delete and mount volumes.
//
// Upstream: pkg/volume/nfs (v1.36).
package nfs
