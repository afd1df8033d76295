package plugins

import "context"

// A Registration is what a plugin that registers with a kubelet through a socket reports of itself.
//
// Upstream: pluginregistration/v1 PluginInfo.
type Registration struct {
	Socket   string   // the registration socket
	Type     string   // the plugin type, such as "CSIPlugin"
	Name     string   // such as a CSI driver's name
	Endpoint string   // the socket at which the plugin serves
	Versions []string // supported versions of its interface
}

// A Registrar registers the plugins of one type. Its methods are called in tasks of one process.
// Several plugins may be registered concurrently, but not several of the same name.
//
// Upstream: pkg/kubelet/pluginmanager/cache PluginHandler (v1.36).
type Registrar interface {
	// ValidatePlugin returns the reason why a plugin cannot be registered. It makes no calls.
	ValidatePlugin(r Registration) error
	// RegisterPlugin registers a plugin. It replaces a plugin of the same name if ValidatePlugin
	// allows that. After an error no plugin of the name is registered.
	RegisterPlugin(ctx context.Context, r Registration) error
	// DeregisterPlugin undoes RegisterPlugin. The plugin cannot be found from the moment of the
	// call. A plugin that has replaced it stays. After an error the call may be repeated.
	DeregisterPlugin(ctx context.Context, r Registration) error
}
