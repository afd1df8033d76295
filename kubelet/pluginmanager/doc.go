// Package pluginmanager registers the plugins of a kubelet, such as CSI drivers. A plugin registers
// through a socket in the kubelet's registration directory, and is deregistered when its socket
// disappears.
//
//	manager := pluginmanager.New(pluginmanager.Config{
//		Process: process, Sockets: &pluginmanager.Unix{},
//		Dir: "/var/lib/kubelet/plugins_registry",
//		Handlers: map[string]plugins.Registrar{"CSIPlugin": plugin},
//	})
//	err := manager.Watch(ctx)
//
// A [Manager] belongs to the kubelet's process. When notified of a possible change
// ([Manager.Notify]) it brings the registrations in line with the sockets that exist by then. It
// relies on what it reads, so the order of notifications does not matter. A recreated socket is
// another one: the plugin of the old one is deregistered first. Each socket is handled in a task of
// its own, so a plugin that hangs delays only itself. What fails is retried with back-off. A
// [plugins.Registrar] implements the registration of one type of plugin.
//
// [Sockets] lists and connects sockets: those of this machine ([Unix]), or in memory ([Memory]),
// which a stepped world needs. [Manager.Watch] watches a directory of this machine, on a goroutine
// of its own.
//
// What it does not do: serve the registration protocol, which package sidecars/registrar does.
//
// Upstream: pkg/kubelet/pluginmanager, its pluginwatcher, reconciler and operationexecutor (v1.36).
package pluginmanager
