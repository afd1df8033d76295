package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/client-go/informers"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/internal/endpoint"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A RemoteComponent is a component of the control plane that can run against a real API server.
type RemoteComponent struct {
	Name     string // such as "pvcontroller"
	Replaces string // the controller of kube-controller-manager, or the program, that must not run at the same time
	Storage  bool   // it is one of the storage controllers
}

// RemoteComponents returns the components that can run against a real API server, in starting
// order.
func RemoteComponents() []RemoteComponent {
	storage := storageComponents()
	var all []RemoteComponent
	for i, p := range remoteCapable("", schedulerComponents(nil, nil)) {
		all = append(all, RemoteComponent{Name: p.name, Replaces: p.replaces, Storage: i < len(storage)})
	}
	return all
}

// remoteCapable returns the components that need nothing but an API server. scheduling are those of the
// scheduler.
func remoteCapable(rootCA string, scheduling []recipe) []recipe {
	return slices.Concat(storageComponents(), scheduling, clusterComponents(rootCA),
		workloadComponents(), nodeComponents(nil), policyComponents(), []recipe{snapshotController()})
}

// A RemoteConfig configures a Remote.
type RemoteConfig struct {
	REST       *clientrest.Config // address of the API server, and credentials
	Components []string           // names, of RemoteComponents; nil: the storage controllers
	Log        *trace.Log         // nil: a new one that keeps all records
	// LocalStorage adds the components of package localstorage; see Config.LocalStorage and
	// Remote.InstallDefinitions. The scheduler, if it is one of Components, asks their extender.
	LocalStorage bool
	// Disks are the disks of nodes that LocalStorage simulates, by the name of the node: their volume
	// groups are in memory and end with the Remote, and no kubelet mounts their volumes.
	Disks map[string][]Disk
}

// A Remote runs components of the control plane against a real API server. The code is that of a
// Cluster: each component is a process with its own client and caches. The world around them is not
// simulated.
type Remote struct {
	host         *sim.Live
	rest         *clientrest.Config
	connections  []*remote.Connection
	running      atomic.Bool                             // Run is in progress
	localStorage atomic.Pointer[localstorage.Controller] // nil: none
	snapshots    bool                                    // the snapshot controller is one of the components
}

// NewRemote builds a Remote. It makes no requests before Run. The error for an unknown component
// matches ErrUnknownComponent.
func NewRemote(cfg RemoteConfig) (*Remote, error) {
	rest := clientrest.CopyConfig(cfg.REST)
	if err := clientrest.LoadTLSFiles(rest); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	r := &Remote{host: sim.NewLive(sim.LiveConfig{Log: cfg.Log}), rest: rest}
	components, err := selectComponents(cfg.Components, string(rest.CAData), r.schedulerComponents(cfg.LocalStorage))
	if err == nil && cfg.LocalStorage {
		var more []recipe
		more, err = r.localStorageComponents(cfg.Disks)
		components = append(components, more...)
	}
	for _, p := range components {
		r.snapshots = r.snapshots || p.name == snapshotControllerName
		if err == nil {
			err = r.launch(rest, p)
		}
	}
	if err != nil {
		r.host.Close()
		return nil, err
	}
	return r, nil
}

// schedulerComponents returns the scheduler. With local storage it asks its extender within the program.
func (r *Remote) schedulerComponents(localStorage bool) []recipe {
	if !localStorage {
		return schedulerComponents(nil, nil)
	}
	inside := map[string]*endpoint.Endpoint{localStorageURL: endpoint.New(r.LocalStorageExtender())}
	return schedulerComponents(withLocalStorage(nil), inside)
}

// selectComponents returns the components with the given names, in starting order.
func selectComponents(wanted []string, rootCA string, scheduling []recipe) ([]recipe, error) {
	all := remoteCapable(rootCA, scheduling)
	if wanted == nil {
		return storageComponents(), nil
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(p recipe) bool { return p.name == name }) {
			return nil, fmt.Errorf("%w %q for a real API server (have %s)",
				ErrUnknownComponent, name, componentNames(all))
		}
	}
	if slices.Contains(wanted, "rootca") && rootCA == "" {
		return nil, fmt.Errorf("component \"rootca\": the configuration has no certificate authority to publish")
	}
	return slices.DeleteFunc(all, func(p recipe) bool { return !slices.Contains(wanted, p.name) }), nil
}

// launch connects a component and sets it up.
func (r *Remote) launch(rest *clientrest.Config, p recipe) error {
	component := r.host.Process(p.name)
	var process ComponentContext
	var filters []remote.FieldSelector
	if p.filters != nil {
		for _, s := range p.filters(func() informers.SharedInformerFactory { return process.Informers }) {
			filters = append(filters, remote.FieldSelector{Resource: s.Resource, Fields: s.Fields})
		}
	}
	conn, err := remote.New(rest, component, filters...)
	if err != nil {
		return err
	}
	r.connections = append(r.connections, conn)
	process = ComponentContext{Process: component, Client: conn.Client(), Informers: conn.Informers(), connection: conn}
	if err := p.start(process); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	return nil
}

// Run runs the components until ctx ends, and returns when all have stopped. Writes in flight have
// a moment to be answered. Run must be called once.
func (r *Remote) Run(ctx context.Context) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, conn := range r.connections {
		running.Go(func() { conn.Run(watching) })
	}
	r.running.Store(true) // the scheduler asks the extender until the host is closed
	r.host.Start()
	<-ctx.Done()
	r.host.Close()
	r.running.Store(false)
	stop()
	running.Wait()
}
