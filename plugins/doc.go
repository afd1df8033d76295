// Package plugins is the contract between the control plane and the kinds of volume it can serve, and the manager that
// finds the plugin of a volume.
//
// A [Plugin] names itself and says which volumes it supports. What else it offers (attaching, mounting a device once for
// a node, mounting for a pod) it offers by implementing a further small interface; the [Manager] finds that out once,
// when the plugin is registered, and hands out [Capabilities]. A call returns nil or an error of one of three classes:
// final (nothing happened, and nothing will), transient (nothing happened, the state is as before), uncertain (it may
// have happened, or may still).
//
// One value of a plugin serves one process: the attach/detach controller and each kubelet have their own. Plugins are
// called from strands of that process's component and suspend themselves at what leaves it.
//
// Not here yet: dynamic discovery, block volumes and expansion.
//
// Upstream: pkg/volume/plugins.go, pkg/volume/volume.go.
package plugins
