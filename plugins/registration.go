package plugins

import "context"

// Registration is what a plugin says of itself that announces itself to a kubelet at a socket.
//
// Upstream: pluginregistration/v1 PluginInfo.
type Registration struct {
	Socket   string   // at which it announced itself
	Type     string   // what it is, such as "CSIPlugin"
	Name     string   // such as a CSI driver's
	Endpoint string   // the socket at which it serves
	Versions []string // of its interface, that it speaks
}

// Registrar takes in the plugins of one type that announce themselves. Its methods are for the strands of one component, and
// several plugins may be on their way at the same time; of one name, one comes or goes after the other.
//
// Upstream: pkg/kubelet/pluginmanager/cache PluginHandler (v1.36).
type Registrar interface {
	// ValidatePlugin tells why a plugin cannot be registered. It asks nobody.
	ValidatePlugin(r Registration) error
	// RegisterPlugin takes a plugin in, in the place of one of its name where ValidatePlugin lets it. After an error there is
	// no plugin of the name.
	RegisterPlugin(ctx context.Context, r Registration) error
	// DeregisterPlugin undoes RegisterPlugin: nobody finds the plugin from the moment at which it is called. Another of the name
	// that has taken its place stays. After an error it may be called again.
	DeregisterPlugin(ctx context.Context, r Registration) error
}
