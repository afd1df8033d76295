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

// Part is a program of the world that is a process of its own: a controller, a kubelet, a user's operator.
type Part struct {
	Name string
	// Install brings what the API server must serve before the program starts, such as custom resources, by
	// server.Install or package fake/crd. It is called once. nil: nothing.
	Install func(server *fake.Server) error
	// Start sets the program up in a new process: it registers handlers, workers and timers with it, and returns. It is
	// called at the beginning, and again after each crash: what the program knew before is gone.
	Start func(p Process) error
}

// Process is what a part gets each time it starts: its component, its own client, and its own caches.
type Process struct {
	Component *sim.Component
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory

	cluster    *Cluster           // nil against a real server
	clientset  *fake.Clientset    // nil against a real server
	connection *remote.Connection // to a real server
}

// RESTConfig is a configuration for clients made from one. Their requests are answered on their own goroutine, in a world
// in memory, and are suspended like those of Client.
func (p Process) RESTConfig() *clientrest.Config {
	if p.cluster == nil {
		return p.connection.Config()
	}
	return apiserver.NewConfig(p.cluster.server, p.Component)
}

// survey tells of the objects of all resources, but those that a real server need not be asked for.
func (p Process) survey(without ...schema.GroupResource) (garbagecollector.Source, error) {
	if p.cluster == nil {
		return p.connection.Survey(without...)
	}
	return p.cluster.server.Survey(p.Component), nil
}

// metadata is a client that has of objects their metadata only.
func (p Process) metadata() (metadata.Interface, error) {
	if p.cluster == nil {
		return metadata.NewForConfig(p.connection.Config())
	}
	return p.clientset.Metadata(), nil
}

// discover finds the namespaced resources that are served.
func (p Process) discover() ([]*metav1.APIResourceList, error) {
	if p.cluster == nil {
		return p.connection.Discover()
	}
	return p.Client.Discovery().ServerPreferredNamespacedResources()
}

// sharing is Client for a part that changes nothing it was given; see fake.Clientset.Sharing.
func (p Process) sharing() kubernetes.Interface {
	if p.clientset == nil {
		return p.Client
	}
	return p.clientset.Sharing()
}

// Recorder records events as from a source.
func (p Process) Recorder(source string) record.EventRecorder {
	return events.New(events.Config{Component: p.Component, Client: p.Client, Source: source})
}

// conn is a connection to a driver whose calls leave the component.
func (p Process) conn(driver string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	c := csi.Suspend(p.Component, driver, conn)
	if between := p.cluster.between.Driver; between != nil {
		c = between(p.Component.Name(), c)
	}
	return c
}

// disk is a node's, or what stands in its place.
func (p Process) disk(disk nodefs.FS) nodefs.FS {
	if between := p.cluster.between.FS; between != nil {
		return between(p.Component.Name(), disk)
	}
	return disk
}

// plugin is one of the PersistentVolume controller's, or what stands in its place.
func (p Process) plugin(plugin plugins.Plugin) plugins.Plugin {
	if p.cluster == nil || p.cluster.between.Plugin == nil { // nil cluster: a part of a Remote
		return plugin
	}
	return p.cluster.between.Plugin(plugin)
}

// Between stands between the parts of a world and what they call: for tests that break a part, and find out who notices.
type Between struct {
	// Client returns the client that a part gets in the place of its own, such as client.Intercepted(…). nil: its own.
	Client func(part string, client *fake.Clientset) *fake.Clientset
	// Driver returns the connection that a part gets in the place of its own to a driver. nil: its own.
	Driver func(part string, conn grpc.ClientConnInterface) grpc.ClientConnInterface
	// FS returns the disk that a kubelet gets in the place of its node's. nil: its node's.
	FS func(part string, disk nodefs.FS) nodefs.FS
	// Plugin returns the plugin that the PersistentVolume controller gets in the place of its own. nil: its own.
	Plugin func(plugin plugins.Plugin) plugins.Plugin
}

// part is a Part in the world.
type part struct {
	name      string
	instead   string    // what of the real control plane it stands for; "": it needs more than an API server
	narrow    narrowing // nil: it has all of its caches
	start     func(p Process) error
	component *sim.Component // nil while it is down
	replica   bool           // see Replicate
}

// ErrNoPart is matched by the error for a part that there is not.
var ErrNoPart = errors.New("no such part")

// Parts are the names of the parts of the world, in the order in which they were started first.
func (c *Cluster) Parts() []string {
	names := make([]string, len(c.parts))
	for i, p := range c.parts {
		names[i] = p.name
	}
	return names
}

// wanted tells whether the config asks for a part. A kubelet is also meant by "kubelet".
func (cfg Config) wanted(name string) bool {
	kind, _, _ := strings.Cut(name, "(")
	return cfg.Parts == nil || slices.Contains(cfg.Parts, name) || slices.Contains(cfg.Parts, kind)
}

// add adds a part, unless the config leaves it out, and starts it.
func (c *Cluster) add(cfg Config, p part) error {
	if !cfg.wanted(p.name) {
		return nil
	}
	c.parts = append(c.parts, &p)
	return c.launch(&p)
}

// launch starts a part in a new process. lags are the resources of which it first gets a list that is so many events old.
func (c *Cluster) launch(p *part, lags ...lag) error {
	component := c.host.Component(p.name)
	clientset := c.server.Client(component)
	if between := c.between.Client; between != nil {
		clientset = between(p.name, clientset)
	}
	var selections []fake.Selection
	var process Process
	if p.narrow != nil {
		selections = p.narrow(func() informers.SharedInformerFactory { return process.Informers })
	}
	process = Process{
		Component: component, Client: clientset, Informers: c.server.Informers(component, selections...),
		cluster: c, clientset: clientset,
	}
	for _, l := range lags {
		c.server.Lag(component, l.resource, l.events)
	}
	p.component = component
	if err := p.start(process); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

// lag is a list that is some events old.
type lag struct {
	resource string
	events   int
}

func (c *Cluster) part(name string) (*part, error) {
	i := slices.IndexFunc(c.parts, func(p *part) bool { return p.name == name })
	if i < 0 {
		return nil, fmt.Errorf("part %q: %w: there are %s", name, ErrNoPart, strings.Join(c.Parts(), ", "))
	}
	return c.parts[i], nil
}

// kill ends a part's process where it stands. One that is down stays down.
func (c *Cluster) kill(p *part) {
	if p.component == nil {
		return
	}
	host, stepped := c.host.(*sim.Stepped)
	if !stepped {
		panic("cluster: a process of a live world cannot be killed")
	}
	host.Crash(p.component)
	c.server.Forget(p.component)
	p.component = nil
}

// Crash kills a part's process where it stands, as kill -9 would, and starts it again: each of its strands ends at the
// call at which it is suspended, its caches and queues are gone, and it lists anew. The world must be stepped. The error
// matches ErrNoPart.
func (c *Cluster) Crash(name string) error { return c.restart(name) }

// Stop kills a part's process where it stands, and leaves it down until Heal. The world must be stepped. The error matches
// ErrNoPart.
func (c *Cluster) Stop(name string) error {
	p, err := c.part(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return nil
}

func (c *Cluster) restart(name string, lags ...lag) error {
	p, err := c.part(name)
	if err != nil {
		return err
	}
	c.kill(p)
	return c.launch(p, lags...)
}

// Replicate starts a second process of a part beside the first, both active, as when two hold the lead for a while: Heal
// ends it. It is called "NAME#2", and is a part of its own. The error matches ErrNoPart.
func (c *Cluster) Replicate(name string) error {
	p, err := c.part(name)
	if err != nil {
		return err
	}
	replica := &part{name: name + "#2", narrow: p.narrow, start: p.start, replica: true}
	if _, err := c.part(replica.name); err == nil {
		return fmt.Errorf("replicate %s: there are two of it", name)
	}
	c.parts = append(c.parts, replica)
	return c.launch(replica)
}

// retire ends the second process of a part.
func (c *Cluster) retire(p *part) {
	c.kill(p)
	c.parts = slices.DeleteFunc(c.parts, func(q *part) bool { return q == p })
}
