package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/client-go/informers"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/internal/remote"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// RemoteComponent is a part of the control plane that runs against a real API server.
type RemoteComponent struct {
	Name     string // such as "pvcontroller"
	Replaces string // the controller of kube-controller-manager, or the program, that must not run beside it
	Storage  bool   // it is one of the storage controllers
}

// RemoteComponents are the parts that run against a real API server, in the order in which they are started.
func RemoteComponents() []RemoteComponent {
	storage := storageComponents(nil)
	var all []RemoteComponent
	for i, p := range remoteCapable("") {
		all = append(all, RemoteComponent{Name: p.name, Replaces: p.replaces, Storage: i < len(storage)})
	}
	return all
}

// remoteCapable are the parts that need nothing but an API server.
func remoteCapable(rootCA string) []componentState {
	return slices.Concat(storageComponents(nil), schedulerComponents(), clusterComponents(rootCA))
}

// RemoteConfig is what NewRemote must be told.
type RemoteConfig struct {
	REST       *clientrest.Config // where the API server is, and who one is there
	Components []string           // of RemoteParts; nil: the storage controllers
	Log        *trace.Log         // nil: one of its own, of all that happens
}

// Remote is parts of the control plane over a real API server: the same code as in a Cluster, each part a process of its
// own with a client and caches of its own. The world around them is not simulated.
type Remote struct {
	host        *sim.Live
	connections []*remote.Connection
}

// NewRemote puts parts together. Nothing is asked of the server before Run. The error for a part that there is not matches
// ErrNoPart.
func NewRemote(cfg RemoteConfig) (*Remote, error) {
	rest := clientrest.CopyConfig(cfg.REST)
	if err := clientrest.LoadTLSFiles(rest); err != nil {
		return nil, fmt.Errorf("read certificates: %w", err)
	}
	r := &Remote{host: sim.NewLive(sim.LiveConfig{Log: cfg.Log})}
	parts, err := selectComponents(cfg.Components, string(rest.CAData))
	for _, p := range parts {
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

// selectComponents are the parts of the given names, in the order in which they are started.
func selectComponents(wanted []string, rootCA string) ([]componentState, error) {
	all := remoteCapable(rootCA)
	if wanted == nil {
		return storageComponents(nil), nil
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(all, func(p componentState) bool { return p.name == name }) {
			return nil, fmt.Errorf("part %q: %w that runs against a real API server: there are %s", name, ErrUnknownComponent, componentNames(all))
		}
	}
	if slices.Contains(wanted, "rootca") && rootCA == "" {
		return nil, fmt.Errorf("part \"rootca\": the configuration holds no certificate authority to publish")
	}
	return slices.DeleteFunc(all, func(p componentState) bool { return !slices.Contains(wanted, p.name) }), nil
}

// launch gives a part a connection, and sets it up.
func (r *Remote) launch(rest *clientrest.Config, p componentState) error {
	component := r.host.Process(p.name)
	var process ComponentContext
	var selections []remote.FieldSelector
	if p.filters != nil {
		for _, s := range p.filters(func() informers.SharedInformerFactory { return process.Informers }) {
			selections = append(selections, remote.FieldSelector{Resource: s.Resource, Fields: s.Fields})
		}
	}
	conn, err := remote.New(rest, component, selections...)
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

// Run lets the parts act until ctx ends, and returns when none of them does any more. Writes that are under way then have a
// moment to be answered. It is called once.
func (r *Remote) Run(ctx context.Context) {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	for _, conn := range r.connections {
		running.Go(func() { conn.Run(watching) })
	}
	r.host.Start()
	<-ctx.Done()
	r.host.Close()
	stop()
	running.Wait()
}
