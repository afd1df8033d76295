// Package localpath is a provisioner whose volumes are directories of nodes, which pods make and remove.
//
//	c, err := cluster.New(cluster.Config{
//		Containers: cluster.ShellContainers, Extra: []cluster.Component{localpath.Component(localpath.Local)},
//	})
//	err = c.Apply(ctx, localpath.Manifest)
//	err = c.Apply(ctx, "… kind: PersistentVolumeClaim … storageClassName: local-path")
//
// No program of it runs on a node. When a pod with the claim has a node, the provisioner creates a helper pod there. The helper
// mounts the directory of all volumes as a hostPath, and its container executes mkdir. When it has succeeded, the
// provisioner creates the PersistentVolume, with an affinity to the node, and deletes the helper. A helper with rm -rf follows
// when the volume is Released.
//
// All that the provisioner knows is in the API: the helper carries the PersistentVolume in an annotation, so a claim that
// is deleted meanwhile leaves no directory behind.
//
// What it does not do: it gives no claim back to the scheduler whose node is gone, and limits no directory to the size of its claim.
//
// Upstream: rancher/local-path-provisioner (v0.0.32), which keeps the commands and paths in a ConfigMap.
package localpath
