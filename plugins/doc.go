// Package plugins is the contract between the control plane and the kinds of volume it can serve, and the manager that
// finds the plugin of a volume.
//
// A [Plugin] names itself and says which volumes it supports. What else it offers (attaching, mounting a device once for
// a node, mounting for a pod) it offers by implementing a further small interface; the [Manager] finds that out once,
// when the plugin is registered, and hands out [Capabilities]. A call returns nil or an error of one of three classes:
// final (nothing happened, and nothing will), transient (nothing happened, the state is as before), uncertain (it may
// have happened, or may still). Package plugintest checks whether a plugin keeps what the contracts promise.
//
// Who looks for a plugin finds one, or is told which of these it is: none ([ErrNoPlugin]), several ([ErrSeveralPlugins]), or
// one that does not offer what he looked for ([ErrUnsupported]). Plugins may come and go while the process runs; nobody who
// looks waits for that. Package prober finds them in a directory, and package
// flexvolume makes them of programs. A volume of an in-tree plugin whose volumes CSI drivers have by now is translated before
// a plugin is looked for ([Migration.Translate]).
//
// One value of a plugin serves one process: the attach/detach controller and each kubelet have their own. Plugins are
// called from strands of that process's component and suspend themselves at what leaves it.
//
// Not here yet, for want of a plugin that could do it: block volumes, expansion by the controller or on the node, mounting
// again what is mounted. Not here, for want of anybody who asks: the access modes that a plugin could serve.
//
// Upstream: pkg/volume/plugins.go, pkg/volume/volume.go.
package plugins
