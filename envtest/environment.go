package envtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake/admission"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
)

// existingClusterVariable is the environment variable that asks for an existing cluster.
const existingClusterVariable = "USE_EXISTING_CLUSTER"

// startTimeout is the default of Environment.ControlPlaneStartTimeout.
const startTimeout = 20 * time.Second

// An Environment is a simulated cluster for a test suite. Its fields are set before Start.
type Environment struct {
	// Scheme has the Go types of custom resources. nil means that of client-go. Start removes the
	// conversion webhook from a definition whose Go types do not convert, as upstream does.
	Scheme *runtime.Scheme
	// Config is set by Start, to the configuration that it returns.
	Config *rest.Config

	// CRDInstallOptions configures the installation of definitions. Start adds CRDs,
	// CRDDirectoryPaths and Scheme to it, and sets its ErrorIfPathMissing to ErrorIfCRDPathMissing.
	CRDInstallOptions CRDInstallOptions
	// CRDs are definitions to install. Start replaces them by all installed ones, with those of
	// files.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// CRDDirectoryPaths lists files, and directories of files, with definitions in YAML or JSON.
	CRDDirectoryPaths []string
	// ErrorIfCRDPathMissing makes Start fail if one of the paths does not exist. By default it is
	// ignored.
	ErrorIfCRDPathMissing bool

	// ClusterConfig configures the cluster. Devices "" means cluster.Array here. The cluster cannot
	// be stepped.
	ClusterConfig cluster.Config

	// ControlPlaneStartTimeout is how long the nodes and the driver may take to register. 0 means
	// 20 s.
	ControlPlaneStartTimeout time.Duration

	// WebhookInstallOptions selects configurations of webhooks, and has the address and the certificates of the server
	// that answers them. Start sets what is empty.
	WebhookInstallOptions WebhookInstallOptions
	// UseExistingCluster must not be true: Start refuses it. If it is nil, Start also refuses the
	// environment variable USE_EXISTING_CLUSTER=true.
	UseExistingCluster *bool

	// BinaryAssetsDirectory is ignored, like the following fields: there are no binaries.
	BinaryAssetsDirectory        string
	DownloadBinaryAssets         bool          // ignored
	DownloadBinaryAssetsVersion  string        // ignored; ClusterConfig.API.Version sets the server's version
	DownloadBinaryAssetsIndexURL string        // ignored
	ControlPlaneStopTimeout      time.Duration // ignored
	AttachControlPlaneOutput     bool          // ignored; Cluster().Trace() has all actions

	running *running // nil before Start and after Stop
}

// running is what Start starts and Stop ends.
type running struct {
	cluster *cluster.Cluster

	mu        sync.Mutex
	stopped   bool                  // guarded by mu
	listeners []*apiserver.Listener // guarded by mu; of kubeconfigs
}

var (
	errExistingCluster = errors.New("an existing cluster is asked for (UseExistingCluster, or environment " +
		"variable " + existingClusterVariable + "), but this package simulates one: " +
		"use sigs.k8s.io/controller-runtime/pkg/envtest for it")
	errStepped = errors.New("ClusterConfig.Stepped is set, but a manager cannot run in a stepped cluster: " +
		"use package cluster and module ctrlruntime")
	errNotStarted = errors.New("the environment is not running: call Start first")
)

// Start builds and runs the cluster, installs the definitions, and returns a configuration for
// clients and managers. It returns once all nodes and the driver have registered. If it fails,
// nothing is left running. On a running environment, Start installs the definitions again.
func (e *Environment) Start() (*rest.Config, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("envtest: %w", err)
	}
	if e.Scheme == nil {
		e.Scheme = scheme.Scheme
	}
	if err := e.startCluster(); err != nil {
		return nil, fmt.Errorf("envtest: start cluster: %w", errors.Join(err, e.Stop()))
	}
	if err := e.WebhookInstallOptions.PrepWithoutInstalling(); err != nil {
		return nil, fmt.Errorf("envtest: %w", errors.Join(err, e.Stop()))
	}
	options := &e.CRDInstallOptions
	options.WebhookOptions = e.WebhookInstallOptions
	if options.Scheme == nil {
		options.Scheme = e.Scheme
	}
	options.CRDs = merge(options.CRDs, e.CRDs, definitionName)
	options.Paths = merge(options.Paths, e.CRDDirectoryPaths, func(path string) string { return path })
	options.ErrorIfPathMissing = e.ErrorIfCRDPathMissing
	installed, err := InstallCRDs(e.Config, *options)
	if err != nil {
		return nil, fmt.Errorf("envtest: %w", errors.Join(err, e.Stop()))
	}
	e.CRDs = installed
	if err := e.WebhookInstallOptions.Install(e.Config); err != nil {
		return nil, fmt.Errorf("envtest: %w", errors.Join(err, e.Stop()))
	}
	return e.Config, nil
}

// check refuses what would change the meaning of a suite.
func (e *Environment) check() error {
	existing := strings.EqualFold(os.Getenv(existingClusterVariable), "true")
	if e.UseExistingCluster != nil {
		existing = *e.UseExistingCluster
	}
	switch {
	case existing:
		return errExistingCluster
	case e.ClusterConfig.Stepped != nil:
		return errStepped
	}
	return nil
}

// startCluster starts the cluster unless it runs.
func (e *Environment) startCluster() error {
	if e.running != nil {
		return nil
	}
	cfg := e.ClusterConfig
	cfg.Devices = cmp.Or(cfg.Devices, cluster.Array)
	cfg.API.RBAC = true
	c, err := cluster.New(withConverter(cfg, e.Scheme))
	if err != nil {
		return err
	}
	e.running = &running{cluster: c}
	crd.Serve(c.Server())
	admission.Serve(c.Server())
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(e.ControlPlaneStartTimeout, startTimeout))
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return err
	}
	e.Config = configFor(c, User{Name: "admin", Groups: []string{"system:masters"}}, nil)
	return nil
}

// Stop ends the cluster and closes the listeners of kubeconfigs. Stopping an environment that does
// not run does nothing. A stopped environment can be started again; it is then empty.
func (e *Environment) Stop() error {
	r := e.running
	if r == nil {
		return nil
	}
	e.running = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
	errs := []error{e.WebhookInstallOptions.Cleanup()}
	for _, l := range r.listeners {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, r.cluster.Close())...)
}

// Cluster returns the running cluster, or nil if the environment does not run. It waits for claims
// and pods, and has the trace of all actions.
func (e *Environment) Cluster() *cluster.Cluster {
	if e.running == nil {
		return nil
	}
	return e.running.cluster
}
