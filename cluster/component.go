package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// Component is a program of the world that is a process of its own: a controller, a kubelet, a user's operator.
type Component struct {
	Name string
	// Install brings what the API server must serve before the program starts, such as custom resources, by
	// server.Install or package fake/crd. It is called once. nil: nothing.
	Install func(server *fake.Server) error
	// Start sets the program up in a new process: it registers handlers, workers and timers with it, and returns. It is
	// called at the beginning, and again after each crash: what the program knew before is gone.
	Start func(p ComponentContext) error
}

// ComponentContext is what a part gets each time it starts: its component, its own client, and its own caches.
type ComponentContext struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory

	cluster    *Cluster           // nil against a real server
	clientset  *fake.Clientset    // nil against a real server
	connection *remote.Connection // to a real server
}

// RESTConfig is a configuration for clients made from one. Their requests are answered on their own goroutine, in a world
// in memory, and are suspended like those of Client.
func (p ComponentContext) RESTConfig() *clientrest.Config {
	if p.cluster == nil {
		return p.connection.Config()
	}
	return apiserver.NewConfig(p.cluster.server, p.Process)
}

// metadataWatcher tells of the objects of all resources, but those that a real server need not be asked for.
func (p ComponentContext) metadataWatcher(without ...schema.GroupResource) (garbagecollector.MetadataWatcher, error) {
	if p.cluster == nil {
		return p.connection.MetadataWatcher(without...)
	}
	return p.cluster.server.MetadataWatcher(p.Process), nil
}

// metadataClient is a client that has of objects their metadata only.
func (p ComponentContext) metadataClient() (metadata.Interface, error) {
	if p.cluster == nil {
		return metadata.NewForConfig(p.connection.Config())
	}
	return p.clientset.Metadata(), nil
}

// discover finds the namespaced resources that are served.
func (p ComponentContext) discover() ([]*metav1.APIResourceList, error) {
	if p.cluster == nil {
		return p.connection.Discover()
	}
	return p.Client.Discovery().ServerPreferredNamespacedResources()
}

// clientWithoutCopies is Client for a part that changes nothing it was given; see fake.Clientset.Sharing.
func (p ComponentContext) clientWithoutCopies() kubernetes.Interface {
	if p.clientset == nil {
		return p.Client
	}
	return p.clientset.WithoutCopies()
}

// Recorder records events as from a source.
func (p ComponentContext) Recorder(source string) record.EventRecorder {
	return events.New(events.Config{Process: p.Process, Client: p.Client, Source: source})
}

// driverConn is a connection to a driver whose calls leave the component.
func (p ComponentContext) driverConn(driver string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	c := csi.Suspend(p.Process, driver, conn)
	if between := p.cluster.interceptors.Driver; between != nil {
		c = between(p.Process.Name(), c)
	}
	return c
}

// nodeDisk is a node's, or what stands in its place.
func (p ComponentContext) nodeDisk(disk nodefs.FS) nodefs.FS {
	if between := p.cluster.interceptors.FS; between != nil {
		return between(p.Process.Name(), disk)
	}
	return disk
}

// interceptedPlugin is one of the PersistentVolume controller's, or what stands in its place.
func (p ComponentContext) interceptedPlugin(plugin plugins.Plugin) plugins.Plugin {
	if p.cluster == nil || p.cluster.interceptors.Plugin == nil { // nil cluster: a part of a Remote
		return plugin
	}
	return p.cluster.interceptors.Plugin(plugin)
}

// Interceptors stands between the parts of a world and what they call: for tests that break a part, and find out who notices.
type Interceptors struct {
	// Client returns the client that a part gets in the place of its own, such as client.Intercepted(…). nil: its own.
	Client func(part string, client *fake.Clientset) *fake.Clientset
	// Driver returns the connection that a part gets in the place of its own to a driver. nil: its own.
	Driver func(part string, conn grpc.ClientConnInterface) grpc.ClientConnInterface
	// FS returns the disk that a kubelet gets in the place of its node's. nil: its node's.
	FS func(part string, disk nodefs.FS) nodefs.FS
	// Plugin returns the plugin that the PersistentVolume controller gets in the place of its own. nil: its own.
	Plugin func(plugin plugins.Plugin) plugins.Plugin
}

// componentState is a Part in the world.
type componentState struct {
	name     string
	replaces string     // what of the real control plane it stands for; "": it needs more than an API server
	filters  filterFunc // nil: it has all of its caches
	start    func(p ComponentContext) error
	process  *sim.Process // nil while it is down
	replica  bool         // see Replicate
}

// ErrUnknownComponent is matched by the error for a part that there is not.
var ErrUnknownComponent = errors.New("no such part")

// Components are the names of the parts of the world, in the order in which they were started first.
func (c *Cluster) Components() []string {
	names := make([]string, len(c.components))
	for i, p := range c.components {
		names[i] = p.name
	}
	return names
}

// includes tells whether the config asks for a part. A kubelet is also meant by "kubelet".
func (cfg Config) includes(name string) bool {
	kind, _, _ := strings.Cut(name, "(")
	return cfg.Components == nil || slices.Contains(cfg.Components, name) || slices.Contains(cfg.Components, kind)
}

// addComponent adds a part, unless the config leaves it out, and starts it.
func (c *Cluster) addComponent(cfg Config, p componentState) error {
	if !cfg.includes(p.name) {
		return nil
	}
	c.components = append(c.components, &p)
	return c.launch(&p)
}

// launch starts a part in a new process. lags are the resources of which it first gets a list that is so many events old.
func (c *Cluster) launch(p *componentState, lags ...cacheDelay) error {
	component := c.host.Process(p.name)
	clientset := c.server.Client(component)
	if between := c.interceptors.Client; between != nil {
		clientset = between(p.name, clientset)
	}
	var selections []fake.Filter
	var process ComponentContext
	if p.filters != nil {
		selections = p.filters(func() informers.SharedInformerFactory { return process.Informers })
	}
	process = ComponentContext{
		Process: component, Client: clientset, Informers: c.server.Informers(component, selections...),
		cluster: c, clientset: clientset,
	}
	for _, l := range lags {
		c.server.DelayCache(component, l.resource, l.events)
	}
	p.process = component
	if err := p.start(process); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

// cacheDelay is a list that is some events old.
type cacheDelay struct {
	resource string
	events   int
}

func (c *Cluster) component(name string) (*componentState, error) {
	i := slices.IndexFunc(c.components, func(p *componentState) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("part %q: %w: there are %s", name, ErrUnknownComponent, strings.Join(c.Components(), ", "))
	}
	return c.components[i], nil
}

// kill ends a part's process where it stands. One that is down stays down.
func (c *Cluster) kill(p *componentState) {
	if p.process == nil {
		return
	}
	host, stepped := c.host.(*sim.Stepped)
	if !stepped {
		panic("cluster: a process of a live world cannot be killed")
	}
	host.Crash(p.process)
	c.server.RemoveComponent(p.process)
	p.process = nil
}

// Crash kills a part's process where it stands, as kill -9 would, and starts it again: each of its strands ends at the
// call at which it is suspended, its caches and queues are gone, and it lists anew. The world must be stepped. The error
// matches ErrNoPart.
func (c *Cluster) Crash(name string) error { return c.restart(name) }

// Stop kills a part's process where it stands, and leaves it down until Heal. The world must be stepped. The error matches
// ErrNoPart.
func (c *Cluster) Stop(name string) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return nil
}

func (c *Cluster) restart(name string, lags ...cacheDelay) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return c.launch(p, lags...)
}

// Replicate starts a second process of a part beside the first, both active, as when two hold the lead for a while: Heal
// ends it. It is called "NAME#2", and is a part of its own. The error matches ErrNoPart.
func (c *Cluster) Replicate(name string) error {
	p, err := c.component(name)
	if err != nil {
		return err
	}
	replica := &componentState{name: name + "#2", filters: p.filters, start: p.start, replica: true}
	if _, err := c.component(replica.name); err == nil {
		return fmt.Errorf("replicate %s: there are two of it", name)
	}
	c.components = append(c.components, replica)
	return c.launch(replica)
}

// retire ends the second process of a part.
func (c *Cluster) retire(p *componentState) {
	c.kill(p)
	c.components = slices.DeleteFunc(c.components, func(q *componentState) bool { return q == p })
}
