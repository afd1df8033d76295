package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// historyAge is how long a live API server remembers events.
//
// Upstream: k8s.io/apiserver/pkg/storage/storagebackend DefaultCompactInterval.
const historyAge = 5 * time.Minute

// Config says what a cluster is. The zero value is two nodes, live, on whatever devices can be had.
type Config struct {
	Nodes   int     // how many, named node-1, node-2, …; 0: 2
	Devices Devices // what volumes are made of; "": Auto
	Records int     // live: how many records of the trace are kept at least; 0: all
	Dir     string  // Loop, LVM: an existing directory for everything on disk; "": a temporary one, removed by Close

	// Components names the parts of the control plane to have: "pvcontroller", "kubelet". nil: all. A world of some parts begins
	// with its storage class and CSIDriver; no administrator makes them.
	Components []string
	// PreRegistered lets the world begin with its nodes, the driver on each of them, its storage class and CSIDriver, as after an
	// earlier start of all parts: nobody has to make them.
	PreRegistered bool
	// HostPathProvisioning lets the PersistentVolume controller make volumes of classes whose provisioner is
	// kubernetes.io/host-path, as directories of node-1.
	HostPathProvisioning bool
	// VolumesPerNode is how many volumes can be attached to a node; 0: any number. Of loop devices any number can. Where there
	// is a limit, kubelets look each minute whether it has changed.
	VolumesPerNode int
	// KubeletsAttach lets kubelets attach and detach volumes by themselves, and not the attach/detach controller.
	KubeletsAttach bool
	// SELinux gives the nodes SELinux, as far as volumes have to do with it: those of one pod alone (ReadWriteOncePod) are mounted
	// with the label of the pod's processes. The driver says that it can do so, and does nothing about it. Array only.
	SELinux bool
	// SELinuxMount has volumes of all access modes mounted so: upstream's feature gate of that name. It does nothing without SELinux.
	SELinuxMount bool
	// SyncFrequency is how often kubelets set volumes up again whose CSIDriver says requiresRepublish. 0: each minute.
	SyncFrequency time.Duration
	// Extra are further parts, such as a user's operator; see Reconciler.
	Extra []Component
	// Interceptors stands between the parts and what they call.
	Interceptors Interceptors

	// API says what of the API server is not usual. Now is the host's. Live, the HistoryAge is 5 minutes if it is 0.
	API fake.Config

	// Stepped, when not nil, makes the world stepped: one action at a time, on a virtual clock, under a chooser.
	Stepped *sim.SteppedConfig
}

// Cluster is a world: API server, control plane, nodes, driver and devices. Methods may be called concurrently when it
// is live, and from one goroutine (or from its users, see User) when it is stepped.
type Cluster struct {
	host            sim.Host
	server          *fake.Server
	rootCA          string
	driver          driver
	devicesReason   string
	devices         Devices
	interceptors    Interceptors
	components      []*componentState
	knownComponents []string // the parts that a control plane can have, but for kubelets
	nodes           []*node
	machine         hostpath.Machine // on which the PersistentVolume controller runs
	nfsExports      nodefs.FS        // see NFS
	hasVolumeLimit  bool             // the driver's volumes are, for each node
	selinuxMount    bool             // the driver says that it mounts with SELinux labels
	servers         []*csi.Server
	socketWatch     socketWatch

	mu          sync.Mutex
	userErrs    []error // guarded by mu
	activeUsers int     // guarded by mu
	closed      bool    // guarded by mu
}

// New puts a cluster together. Nothing moves before Start. Close it, also when Start fails.
func New(cfg Config) (*Cluster, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 2
	}
	if cfg.Nodes < 0 || cfg.VolumesPerNode < 0 {
		return nil, fmt.Errorf("cluster: %d nodes, %d volumes for each", cfg.Nodes, cfg.VolumesPerNode)
	}
	kind, why, err := cfg.Devices.choose(cfg.Stepped != nil)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c := &Cluster{
		devices: kind, devicesReason: why, interceptors: cfg.Interceptors, rootCA: cmp.Or(cfg.API.RootCA, fake.NoRootCA), nfsExports: nodefs.NewMemory("/"),
		hasVolumeLimit: cfg.VolumesPerNode > 0, selinuxMount: cfg.SELinux,
	}
	if c.hasVolumeLimit && kind != Array {
		return nil, fmt.Errorf("cluster: %d volumes for each node: only the array has a limit", cfg.VolumesPerNode)
	}
	if cfg.SELinux && kind != Array {
		return nil, errors.New("cluster: SELinux: only the array's volumes can be mounted with labels that mean nothing; use devices array")
	}
	if c.driver, err = kind.open(cfg); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if cfg.Stepped != nil {
		host := sim.NewStepped(*cfg.Stepped)
		host.AddEventSource(c.possibleEvents)
		c.host = host
	} else {
		c.host = sim.NewLive(sim.LiveConfig{Log: &trace.Log{Max: cfg.Records}})
	}
	cfg.API.Now = c.host.Now
	if cfg.Stepped == nil {
		cfg.API.HistoryAge = cmp.Or(cfg.API.HistoryAge, historyAge)
	}
	c.server = fake.NewServer(cfg.API)
	if err := c.assemble(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), c.Close())
	}
	return c, nil
}

// Start lets the world move, and returns when the nodes and the driver have registered. It fails when ctx ends before.
func (c *Cluster) Start(ctx context.Context) error {
	c.start()
	return c.host.Wait(ctx, "nodes and driver to register", c.isRegistered)
}

// start lets the world move.
func (c *Cluster) start() {
	c.socketWatch.once.Do(c.watchSockets)
	c.host.Start()
}

// Client is a client of the API server for users and tests. From within a User it is suspended at each request.
func (c *Cluster) Client() kubernetes.Interface { return c.server.Client(c.host.ExternalCaller()) }

// RESTConfig is a configuration for clients that are made from one: client-go's clientsets, controller-runtime's clients
// and managers, code generated for custom resources. Their requests are answered in memory, on their own goroutine; from
// within a User they are suspended like Client's.
func (c *Cluster) RESTConfig() *clientrest.Config {
	return apiserver.NewConfig(c.server, c.host.ExternalCaller())
}

// Server is the API server, for looking at what is stored without leaving a trace.
func (c *Cluster) Server() *fake.Server { return c.server }

// Host is what moves the world: a *sim.Live, or a *sim.Stepped.
func (c *Cluster) Host() sim.Host { return c.host }

// Trace is the record of all that happened.
func (c *Cluster) Trace() *trace.Log { return c.host.Log() }

// Devices tells what volumes are made of, and why.
func (c *Cluster) Devices() (kind Devices, why string) { return c.devices, c.devicesReason }

// DriverName is the name of the CSI driver, which the storage class "standard" names as its provisioner.
func (c *Cluster) DriverName() string { return c.driver.name() }

// User adds a program outside the control plane, which runs on its own: script may use Client and the Wait methods, and
// under a stepped host is suspended at each of them. Run returns its error.
func (c *Cluster) User(name string, script func(ctx context.Context) error) {
	c.mu.Lock()
	c.activeUsers++
	c.mu.Unlock()
	c.host.Process(name).User("", func(ctx context.Context) {
		err := script(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.activeUsers--
		if err != nil {
			c.userErrs = append(c.userErrs, fmt.Errorf("%s: %w", name, err))
		}
	})
}

// Run lets the world move until it comes to rest: stepped, until nothing is left to happen; live, until all users are
// done and nothing is owed. It returns the users' errors; a user who waits for what cannot come is one.
func (c *Cluster) Run(ctx context.Context) error {
	c.start()
	var err error
	if s, ok := c.host.(*sim.Stepped); ok {
		if err = s.Run(); err == nil && len(s.Waiting()) > 0 {
			err = fmt.Errorf("%w, but %v", sim.ErrQuiescent, s.Waiting())
		}
	} else {
		err = c.host.Wait(ctx, "users to finish and the world to come to rest", func() bool {
			c.mu.Lock()
			left := c.activeUsers
			c.mu.Unlock()
			return left == 0 && len(c.Pending()) == 0
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.userErrs, err)...)
}

// Close ends the world and takes away all it made: processes, mounts, devices, files. It returns what could not be taken
// away. Calling it again does nothing.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	errs := []error{c.socketWatch.close()}
	c.host.Close()
	for _, s := range c.servers {
		errs = append(errs, s.Stop())
	}
	return errors.Join(append(errs, c.driver.close())...)
}

// connect makes a driver's services reachable: live as a gRPC server, stepped by calling its methods on the spot.
func (c *Cluster) connect(register csi.RegisterFunc) (grpc.ClientConnInterface, error) {
	if _, stepped := c.host.(*sim.Stepped); stepped {
		return csi.Direct(register), nil
	}
	server, err := csi.Serve(register)
	if err != nil {
		return nil, err
	}
	c.servers = append(c.servers, server)
	return server.Conn(), nil
}
