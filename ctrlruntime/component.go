package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
)

// A Config configures Component.
type Config struct {
	Name   string          // of the component
	Scheme *runtime.Scheme // of the operator's types; nil: client-go's
	Reads  fake.Reads      // where the manager's client and cache read; zero: the caches of the process
	Logger logr.Logger     // of the manager; zero: logs are discarded

	// CRDDirectoryPaths lists files, and directories of files, with the operator's
	// CustomResourceDefinitions. The program must import package fake/crd. See cluster.Config.
	CRDDirectoryPaths []string
	// Install installs custom resources that have no definition in a file. See cluster.Component.
	Install func(server *fake.Server) error

	// Setup adds the operator's controllers to the manager, as main does. It is called in each new
	// process, and must return new reconcilers, which share nothing with those of other processes.
	Setup func(mgr manager.Manager) error
}

// Component returns an operator as a component.
func Component(cfg Config) cluster.Component {
	if cfg.Scheme == nil {
		cfg.Scheme = scheme.Scheme
	}
	if cfg.Logger.GetSink() == nil {
		cfg.Logger = logr.New(log.NullLogSink{}) // without a sink a manager takes the global logger
	}
	return cluster.Component{Name: cfg.Name, Install: cfg.install, Start: func(p cluster.ComponentContext) error {
		return start(cfg, p)
	}}
}

// install installs the operator's custom resources.
func (cfg Config) install(server *fake.Server) error {
	if len(cfg.CRDDirectoryPaths) > 0 {
		if err := definitions.Install(context.Background(), server, cfg.CRDDirectoryPaths); err != nil {
			return fmt.Errorf("CRDDirectoryPaths: %w", err)
		}
	}
	if cfg.Install == nil {
		return nil
	}
	return cfg.Install(server)
}

// start sets an operator up in a new process.
func start(cfg Config, p cluster.ComponentContext) error {
	groups, err := restmapper.GetAPIGroupResources(p.Client.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	reads := p.WithReads(cfg.Reads)
	direct, err := client.New(reads.RESTConfig(), client.Options{Scheme: cfg.Scheme, Mapper: mapper})
	if err != nil {
		return err
	}
	caches := newProcessCache(p, direct, cfg.Scheme, mapper)
	yes := true
	inner, err := manager.New(p.WithReads(fake.ReadLive).RESTConfig(), manager.Options{
		Scheme: cfg.Scheme, Logger: cfg.Logger,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil },
		NewCache:       func(*rest.Config, cache.Options) (cache.Cache, error) { return caches.handle(), nil },
		NewClient: func(live *rest.Config, opts client.Options) (client.Client, error) {
			return newCachingClient(live, opts, direct, caches)
		},
		Metrics: server.Options{BindAddress: "0"}, HealthProbeBindAddress: "0", PprofBindAddress: "0",
		Controller: config.Controller{SkipNameValidation: &yes},
	})
	if err != nil {
		return err
	}
	m := newManager(inner, p, caches)
	if err := cfg.Setup(m.asManager); err != nil {
		return err
	}
	if m.err != nil {
		return m.err
	}
	if len(m.controllers) == 0 {
		return errors.New("the operator has no controllers: Setup must call SetupWithManager or the builder's Complete")
	}
	for _, c := range m.controllers {
		if err := c.startSources(caches); err != nil {
			return fmt.Errorf("controller %s: %w", c.name, err)
		}
	}
	if err := caches.register(); err != nil {
		return err
	}
	for _, c := range m.controllers {
		c.work()
	}
	return nil
}
