// Package plugins defines the contract between the control plane and the kinds of volume that it
// serves, and the manager that finds the plugin of a volume.
//
//	var manager plugins.Manager
//	err := manager.Register(hostpath.New(hostpath.Config{Caller: process, Machine: machine}))
//	caps, err := manager.FindBySpec(&plugins.Spec{PersistentVolume: volume})
//	if caps.Deleter != nil {
//		err = caps.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: volume})
//	}
//
// A [Plugin] has a name and reports which volumes it supports. It offers everything else by
// implementing further small interfaces: attaching ([Attacher]), mounting for a node
// ([DeviceMounter]) and for a pod ([Mounter]), block devices ([BlockMapper]), expansion
// ([NodeExpander]), provisioning ([Provisioner]) and others. The [Manager] determines the
// interfaces once, at registration, and returns them as [Capabilities]. A lookup that fails reports
// why: no plugin ([ErrNoPlugin]), several plugins ([ErrSeveralPlugins]), or a missing capability
// ([ErrUnsupported]).
//
// A call returns nil or an error of one of three classes. Final: it did not happen and will not.
// Transient: it did not begin and the state is as before. Uncertain: it may have happened, or may
// still happen. Package plugintest checks whether a plugin keeps this contract.
//
// Plugins may be added and removed while the process runs; lookups never block. Package prober
// finds plugins in a directory, and package flexvolume turns programs into plugins. A volume of an
// in-tree plugin that was migrated to CSI is translated before the lookup ([Migration.Translate]).
//
// One plugin value serves one process: the attach/detach controller and each kubelet have their
// own. Plugins are called in tasks of that process and suspend themselves at every call that leaves
// it.
//
// What it does not do: expansion by the controller (package sidecars/resizer does that), and the
// access modes that a plugin could serve, which nothing asks for.
//
// Upstream: pkg/volume/plugins.go, pkg/volume/volume.go.
package plugins
