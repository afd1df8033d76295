package cluster

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/controllers/ephemeral"
	"github.com/volsim/volsim/controllers/expand"
	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/controllers/vacprotection"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/pvcontroller"
)

// assemble registers all components of the world, in order.
func (c *Cluster) assemble(cfg Config) error {
	if err := c.installDefinitions(cfg.CRDDirectoryPaths); err != nil {
		return err
	}
	if err := c.addNodeDisks(cfg); err != nil {
		return err
	}
	if err := c.installDrivers(cfg); err != nil {
		return err
	}
	if err := c.addDriverObjects(cfg); err != nil {
		return err
	}
	configuration, extenders, err := c.withExtenders(cfg)
	if err != nil {
		return err
	}
	groups := [][]recipe{
		storageComponents(),
		schedulerComponents(configuration, extenders),
		c.sidecarComponents(), c.snapshotComponents(), clusterComponents(c.rootCA), workloadComponents(),
		nodeComponents(c.hasNode), policyComponents(), c.accessComponents(),
	}
	c.knownComponents = make([]string, 0, knownMin)
	for _, group := range groups {
		for _, p := range group {
			c.knownComponents = append(c.knownComponents, p.name)
			if err := c.addComponent(cfg, p); err != nil {
				return err
			}
		}
	}
	for _, n := range c.nodes {
		if err := c.addNode(cfg, n); err != nil {
			return err
		}
	}
	if err := c.addNodeProvisioners(cfg); err != nil {
		return err
	}
	if err := c.addLocalProvisioners(cfg); err != nil {
		return err
	}
	if err := c.addLocalStorage(cfg); err != nil {
		return err
	}
	if err := c.addPopulators(cfg); err != nil {
		return err
	}
	if err := c.addExtenders(cfg.Extenders, extenders); err != nil {
		return err
	}
	for _, p := range cfg.Extra {
		if err := c.addExtra(p); err != nil {
			return err
		}
	}
	for _, name := range cfg.Components {
		if !slices.ContainsFunc(c.components, func(p *componentState) bool {
			return cfg.includes(p.name) && (p.name == name || strings.HasPrefix(p.name, name+"("))
		}) {
			return fmt.Errorf("%w %q (have %s, kubelet)", ErrUnknownComponent, name, strings.Join(c.knownComponents, ", "))
		}
	}
	return nil
}

// knownMin is the usual number of components that a control plane can have.
const knownMin = 32

// sidecarComponents returns the sidecars of all drivers.
func (c *Cluster) sidecarComponents() []recipe {
	var recipes []recipe
	for _, d := range c.drivers {
		recipes = append(recipes, d.sidecarComponents(c)...)
	}
	return recipes
}

// hasNode reports whether a Node is stored.
func (c *Cluster) hasNode(name string) bool {
	_, has := c.server.Get("nodes", "", name)
	return has
}

// addExtra adds a component of Config.Extra, whatever Config.Components selects.
func (c *Cluster) addExtra(p Component) error {
	if p.Install != nil {
		if err := p.Install(c.server); err != nil {
			return fmt.Errorf("install dependencies of %s: %w", p.Name, err)
		}
	}
	state := &componentState{recipe: recipe{name: p.Name, user: p.User, start: p.Start}, extra: true}
	c.components = append(c.components, state)
	return c.launch(state)
}

func componentNames(recipes []recipe) string {
	words := make([]string, len(recipes))
	for i, p := range recipes {
		words[i] = p.name
	}
	return strings.Join(words, ", ")
}

// storageComponents returns the storage controllers of kube-controller-manager. Worlds share them.
var storageComponents = sync.OnceValue(func() []recipe {
	return []recipe{
		{name: "pvcontroller", replaces: "persistentvolume-binder-controller", start: startPVController},
		{name: "pvprotection", replaces: "persistentvolume-protection-controller", start: func(p ComponentContext) error {
			pvprotection.New(pvprotection.Config{Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers})
			return nil
		}},
		{name: "pvcprotection", replaces: "persistentvolumeclaim-protection-controller", start: func(p ComponentContext) error {
			pvcprotection.New(pvcprotection.Config{Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers})
			return nil
		}},
		{
			name: "vacprotection", replaces: "volumeattributesclass-protection-controller",
			filters: classProtectionFilters, wakes: classProtectionWakes,
			start: func(p ComponentContext) error {
				vacprotection.New(vacprotection.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
				return nil
			},
		},
		{name: "attachdetach", replaces: "persistentvolume-attach-detach-controller", start: startAttachDetach},
		{name: "expand", replaces: "persistentvolume-expander-controller", filters: expandFilters, start: startExpand},
		{
			name: "ephemeral", replaces: "ephemeral-volume-controller", filters: ephemeralFilters,
			wakes: ephemeralWakes,
			start: func(p ComponentContext) error {
				ephemeral.New(ephemeral.Config{
					Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Recorder: p.Recorder(ephemeral.EventSource),
				})
				return nil
			},
		},
	}
})

// startPVController starts the PersistentVolume controller with those plugins of
// kube-controller-manager that provision, delete or recycle volumes. Against a real server it has no
// access to the disk of its machine: host-path directories are only recycled, by pods.
//
// Upstream: cmd/kube-controller-manager/app ProbeProvisionableRecyclableVolumePlugins (v1.36).
func startPVController(p ComponentContext) error {
	scrubber := recycler.New(recycler.Config{
		Process: p.Process, Client: p.Client,
		Pods: p.Informers.Core().V1().Pods(),
	})
	var directories plugins.Plugin
	if p.cluster == nil {
		plugin := hostpath.New(hostpath.Config{Caller: p.Process, Recycler: scrubber})
		directories = struct {
			plugins.Plugin
			plugins.Recycler
		}{plugin, plugin}
	} else {
		directories = hostpath.New(hostpath.Config{
			Caller: p.Process, Machine: p.cluster.machine, Recycler: scrubber, Provisioning: p.cluster.hostPathProvisioning,
		})
	}
	further, err := p.userPlugins(PluginHost{})
	if err != nil {
		return err
	}
	var manager plugins.Manager
	all := append([]plugins.Plugin{p.interceptedPlugin(nfs.New(nfs.Config{Recycler: scrubber})), p.interceptedPlugin(directories)}, further...)
	if err := manager.Register(all...); err != nil {
		return err
	}
	pvcontroller.New(pvcontroller.Config{
		Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers,
		Recorder: p.Recorder(pvcontroller.EventSource), Plugins: &manager,
	})
	return nil
}

func startAttachDetach(p ComponentContext) error {
	var manager plugins.Manager
	client := p.clientWithoutCopies()
	further, err := p.userPlugins(PluginHost{})
	if err != nil {
		return err
	}
	drivers := csi.New(csi.Config{
		Process: p.Process, Client: client,
		CSIDrivers:        p.Informers.Storage().V1().CSIDrivers(),
		Attachments:       p.Informers.Storage().V1().VolumeAttachments(),
		PersistentVolumes: p.Informers.Core().V1().PersistentVolumes(),
	})
	if err := manager.Register(append([]plugins.Plugin{drivers}, further...)...); err != nil {
		return err
	}
	p.findControllerDrivers(&manager)
	attachdetach.New(attachdetach.Config{
		Process: p.Process, Client: client, Informers: p.Informers,
		Recorder: p.Recorder("attachdetach-controller"), Plugins: &manager,
	})
	return nil
}

// startExpand starts the expand controller. The plugins built into it expand no volumes.
func startExpand(p ComponentContext) error {
	further, err := p.userPlugins(PluginHost{})
	if err != nil {
		return err
	}
	var manager plugins.Manager
	if err := manager.Register(further...); err != nil {
		return err
	}
	expand.New(expand.Config{
		Process: p.Process, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder(expand.EventSource),
		Plugins: &manager,
	})
	return nil
}

// clusterComponents returns the components that fill and empty namespaces. Their filters keep them
// from adding steps when they have nothing to do.
func clusterComponents(rootCA string) []recipe {
	if rootCA == fake.NoRootCA {
		return usualClusterComponents()
	}
	return newClusterComponents(rootCA)
}

// usualClusterComponents are those without a root certificate. Worlds share them.
var usualClusterComponents = sync.OnceValue(func() []recipe { return newClusterComponents(fake.NoRootCA) })

func newClusterComponents(rootCA string) []recipe {
	return []recipe{
		{name: "garbagecollector", replaces: "garbage-collector-controller", start: startGarbageCollector},
		{name: "namespace", replaces: "namespace-controller", filters: namespaceFilters, start: startNamespace},
		{name: "serviceaccount", replaces: "serviceaccount-controller", filters: serviceAccountFilters, start: func(p ComponentContext) error {
			serviceaccount.New(serviceaccount.Config{Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers})
			return nil
		}},
		{name: "rootca", replaces: "root-ca-certificate-publisher-controller", filters: rootCAFilters(rootCA), start: func(p ComponentContext) error {
			rootca.New(rootca.Config{Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, RootCA: rootCA})
			return nil
		}},
	}
}

// startGarbageCollector starts the garbage collector. It ignores events: they are never collected.
func startGarbageCollector(p ComponentContext) error {
	client, err := p.metadataClient()
	if err != nil {
		return err
	}
	source, err := p.metadataWatcher(schema.GroupResource{Resource: "events"},
		schema.GroupResource{Group: "events.k8s.io", Resource: "events"})
	if err != nil {
		return err
	}
	garbagecollector.New(garbagecollector.Config{
		Process: p.Process, Client: client, Watcher: source, Recorder: p.Recorder(garbagecollector.EventSource),
	})
	return nil
}

// namespaceDelay is how long a real server needs before the content of a namespace may be deleted.
//
// Upstream: pkg/controller/namespace namespaceDeletionGracePeriod.
const namespaceDelay = 5 * time.Second

func startNamespace(p ComponentContext) error {
	client, err := p.metadataClient()
	if err != nil {
		return err
	}
	source, err := p.metadataWatcher()
	if err != nil {
		return err
	}
	cfg := namespace.Config{
		Process: p.Process, Client: p.Client, Metadata: client, Informers: p.Informers,
		Watcher: source, Discover: p.discover,
	}
	if p.cluster == nil {
		cfg.Delay = namespaceDelay
	}
	namespace.New(cfg)
	return nil
}
