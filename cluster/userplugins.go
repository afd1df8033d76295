package cluster

import (
	"fmt"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
)

// A PluginHost is what volume plugins of the user's own get when their process starts; see
// Config.Plugins. Calls of a plugin that leave the process must be suspension points: requests of
// Client are, others go through Process.Call.
type PluginHost struct {
	ComponentContext
	Node string    // name of the kubelet's node; "": a controller
	Disk nodefs.FS // the node's disk; nil: a controller
	Root string    // the kubelet's directory on Disk
}

// userPlugins returns the user's own plugins of a process, which host describes besides p.
func (p ComponentContext) userPlugins(host PluginHost) ([]plugins.Plugin, error) {
	if p.cluster == nil || p.cluster.plugins == nil { // a component of a Remote
		return nil, nil
	}
	host.ComponentContext = p
	all, err := p.cluster.plugins(host)
	if err != nil {
		return nil, fmt.Errorf("Config.Plugins: %w", err)
	}
	return all, nil
}
