package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
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

// A Component is a program that runs as a process of its own: a controller, a kubelet, a user's
// operator.
type Component struct {
	Name string
	// Install installs what the API server must serve before the program starts, such as custom
	// resources, by server.Install or package fake/crd. It is called once. nil: nothing.
	Install func(server *fake.Server) error
	// User is the user that the program is if the API server authorizes (fake.Config.RBAC), such as
	// "system:serviceaccount:NAMESPACE:NAME". It may do what roles allow it. "": system:admin, which may do
	// everything.
	User string
	// Start sets the program up in a new process: it registers handlers, workers and timers, and
	// returns. It is called at the beginning and after each crash, which loses all earlier state.
	Start func(p ComponentContext) error
}

// A ComponentContext is what a component gets each time it starts: its process, its own client and
// its own caches.
type ComponentContext struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory

	cluster    *Cluster           // nil against a real server
	clientset  *fake.Clientset    // nil against a real server
	connection *remote.Connection // to a real server
}

// RESTConfig returns a configuration for clients that are built from one. In a simulated world,
// requests are answered in memory, on their own goroutine, as those of Client are: they are
// suspension points, unless WithReads reads from caches.
func (p ComponentContext) RESTConfig() *clientrest.Config {
	if p.cluster == nil {
		return p.connection.Config()
	}
	return apiserver.NewConfig(p.cluster.server, p.Process,
		func(*fake.Clientset) *fake.Clientset { return p.clientset })
}

// WithReads returns a context whose Client, and clients built from RESTConfig, read from the caches
// of the process; see [fake.Clientset.WithReads]. Without it they read from the API server, as they
// do against a real one in any case.
func (p ComponentContext) WithReads(reads fake.Reads) ComponentContext {
	if p.cluster != nil {
		p.clientset = p.clientset.WithReads(p.Process, reads)
		p.Client = p.clientset
	}
	return p
}

// metadataWatcher returns a watcher of the metadata of all resources. A real server is not asked
// for those in without.
func (p ComponentContext) metadataWatcher(without ...schema.GroupResource) (garbagecollector.MetadataWatcher, error) {
	if p.cluster == nil {
		return p.connection.MetadataWatcher(without...)
	}
	return p.cluster.server.MetadataWatcher(p.Process), nil
}

// metadataClient returns a client that reads the metadata of objects only.
func (p ComponentContext) metadataClient() (metadata.Interface, error) {
	if p.cluster == nil {
		return metadata.NewForConfig(p.connection.Config())
	}
	return p.clientset.Metadata(), nil
}

// dynamicClient returns a client of objects of any kind.
func (p ComponentContext) dynamicClient() (dynamic.Interface, error) {
	if p.cluster == nil {
		return dynamic.NewForConfig(p.connection.Config())
	}
	return p.clientset.Dynamic(), nil
}

// discover returns the namespaced resources that are served.
func (p ComponentContext) discover() ([]*metav1.APIResourceList, error) {
	if p.cluster == nil {
		return p.connection.Discover()
	}
	return p.clientset.ServerPreferredNamespacedResources()
}

// clientWithoutCopies returns Client for a component that modifies nothing it reads; see
// fake.Clientset.WithoutCopies.
func (p ComponentContext) clientWithoutCopies() kubernetes.Interface {
	if p.clientset == nil {
		return p.Client
	}
	return p.clientset.WithoutCopies()
}

// Recorder returns a recorder of events with the given source.
func (p ComponentContext) Recorder(source string) record.EventRecorder {
	return events.New(events.Config{Process: p.Process, Client: p.clientWithoutCopies(), Source: source})
}

// driverConn returns a connection to a driver whose calls are suspension points.
func (p ComponentContext) driverConn(driver string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	c := csi.Suspend(p.Process, driver, conn)
	if intercept := p.cluster.interceptors.Driver; intercept != nil {
		c = intercept(p.Process.Name(), c)
	}
	return c
}

// nodeDisk returns a node's disk, or its replacement by Interceptors.FS.
func (p ComponentContext) nodeDisk(disk nodefs.FS) nodefs.FS {
	if intercept := p.cluster.interceptors.FS; intercept != nil {
		return intercept(p.Process.Name(), disk)
	}
	return disk
}

// interceptedPlugin returns a plugin of the PersistentVolume controller, or its replacement by
// Interceptors.Plugin.
func (p ComponentContext) interceptedPlugin(plugin plugins.Plugin) plugins.Plugin {
	if p.cluster == nil || p.cluster.interceptors.Plugin == nil { // a component of a Remote
		return plugin
	}
	return p.cluster.interceptors.Plugin(plugin)
}

// Interceptors wraps the calls between components and their dependencies. Tests use it to inject
// defects and check that they are detected. A nil function intercepts nothing.
type Interceptors struct {
	// Client returns the client that a component gets instead of its own, such as
	// client.WithInterceptor(…).
	Client func(component string, client *fake.Clientset) *fake.Clientset
	// Driver returns the connection to a driver that a component gets instead of its own.
	Driver func(component string, conn grpc.ClientConnInterface) grpc.ClientConnInterface
	// FS returns the disk that a kubelet gets instead of its node's.
	FS func(component string, disk nodefs.FS) nodefs.FS
	// Plugin returns the plugin that the PersistentVolume controller gets instead of its own.
	Plugin func(plugin plugins.Plugin) plugins.Plugin
}

// A recipe is a Component with what the cluster knows about it.
type recipe struct {
	name     string
	user     string     // see Component.User
	driver   string     // the driver whose sidecar it is; "": it is none
	replaces string     // the program of a real control plane that it replaces; "": it needs more than an API server
	filters  filterFunc // nil: its caches are not filtered
	advisory []string   // resources of caches that may lag without consequences; no fault lets them
	wakes    []wake     // in a stepped world it starts with the first of these objects; nil: at once
	start    func(p ComponentContext) error
}

// A componentState is a component of a cluster with its process.
type componentState struct {
	recipe

	process atomic.Pointer[sim.Process] // nil while it is down or asleep
	asleep  bool                        // see wake; never in a live world
	replica bool                        // see Replicate
	extra   bool                        // of Config.Extra or Config.Extenders: code of the user
}

// down reports whether a component has been stopped.
func (p *componentState) down() bool { return p.process.Load() == nil && !p.asleep }

// ErrUnknownComponent is matched by errors about a component or node that does not exist.
var ErrUnknownComponent = errors.New("no such component")

// Components returns the names of the components, in the order of their first start.
func (c *Cluster) Components() []string {
	names := make([]string, len(c.components))
	for i, p := range c.components {
		names[i] = p.name
	}
	return names
}

// includes reports whether the config selects a component. "kubelet" selects every kubelet.
func (cfg Config) includes(name string) bool {
	kind, _, _ := strings.Cut(name, "(")
	return cfg.Components == nil || slices.Contains(cfg.Components, name) || slices.Contains(cfg.Components, kind)
}

// addComponent adds and starts a component, unless the config leaves it out.
func (c *Cluster) addComponent(cfg Config, r recipe) error {
	if !cfg.includes(r.name) {
		return nil
	}
	p := &componentState{recipe: r}
	c.components = append(c.components, p)
	if c.fallAsleep(p) {
		return nil
	}
	return c.launch(p)
}

// launch starts a component in a new process. delays lists the resources of which its first list is
// old.
func (c *Cluster) launch(p *componentState, delays ...cacheDelay) error {
	component := c.host.Process(p.name)
	if !p.extra {
		component.ReuseMemory()
	}
	clientset := c.server.Client(component)
	if c.rbac {
		if user := p.identity(); user.client != nil {
			clientset = clientset.AsUser(*user.client)
			if user.caches != nil {
				c.server.SetUser(component, *user.caches)
			}
		}
	}
	if intercept := c.interceptors.Client; intercept != nil {
		clientset = intercept(p.name, clientset)
	}
	var filters []fake.Filter
	var process ComponentContext
	if p.filters != nil {
		filters = p.filters(func() informers.SharedInformerFactory { return process.Informers })
	}
	process = ComponentContext{
		Process: component, Client: clientset, Informers: c.server.Informers(component, filters...),
		cluster: c, clientset: clientset,
	}
	for _, l := range delays {
		c.server.DelayCache(component, l.resource, l.events)
	}
	if p.asleep {
		p.asleep = false
	}
	err := component.SetUp(func() error {
		err := p.start(process)
		p.process.Store(component)
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

// A cacheDelay makes the first list of a resource a number of events old.
type cacheDelay struct {
	resource string
	events   int
}

func (c *Cluster) component(name string) (*componentState, error) {
	i := slices.IndexFunc(c.components, func(p *componentState) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q (have %s)", ErrUnknownComponent, name, strings.Join(c.Components(), ", "))
	}
	return c.components[i], nil
}
