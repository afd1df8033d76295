package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// historyAge is how long a live API server keeps its watch history.
//
// Upstream: k8s.io/apiserver/pkg/storage/storagebackend DefaultCompactInterval.
const historyAge = 5 * time.Minute

// capacityPeriod is how often the free capacity of the nodes' volume groups is published.
//
// Upstream: external-provisioner --capacity-poll-interval.
const capacityPeriod = time.Minute

// A Config configures a cluster. The zero value is a live cluster of two nodes on whatever devices
// are available.
type Config struct {
	Nodes   int     // number of nodes, named node-1, node-2, …; 0: 2
	Devices Devices // what backs the volumes; "": Auto
	// MoreDevices adds Loop to LVM, or the reverse, on the same nodes: another driver, with a class of the
	// kind's name.
	MoreDevices []Devices
	// Containers is what runs the containers of pods; "": NoContainers.
	Containers Containers
	Records    int // live: minimum number of trace records kept; 0: all
	// ClockSpeed is how many times as fast as the clock of this machine the time of a live world passes:
	// what takes a minute takes a second with 60. Requests, drivers and devices are not faster. 0 means 1.
	// Times in objects are then ahead of the clock of other programs.
	ClockSpeed int
	// Dir is an existing directory for everything on disk; "" means a temporary one, removed by
	// Close. It is for Loop and LVM, and for one cluster at a time. What a killed process left in it
	// is removed first; see Cleared. New fails if a running process uses the directory, or if it has
	// other files where the cluster would create its own. Without Dir, New removes what killed
	// processes of this user left in temporary directories of clusters.
	Dir string

	// Components selects the components of the control plane by name: "pvcontroller", "kubelet".
	// nil means all. A world with a selection begins with its storage class and CSIDriver; no
	// administrator creates them.
	Components []string
	// PreRegistered makes the world begin with its nodes, the driver on each of them, its storage
	// class and CSIDriver, as after an earlier start of all components.
	PreRegistered bool
	// HostPathProvisioning makes the PersistentVolume controller provision volumes of classes with
	// provisioner kubernetes.io/host-path, as directories of node-1.
	HostPathProvisioning bool
	// LocalDisks says which directories of the nodes have disks for local PersistentVolumes. It is
	// YAML as in storageClassMap of sig-storage-local-static-provisioner:
	//
	//	fast: {hostDir: /mnt/fast}
	//	raw: {hostDir: /mnt/raw, volumeMode: Block}
	//
	// Each node then has a component localprovisioner. It makes each mount point and block device in
	// the directory a volume of the StorageClass, which must be created, and cleans released ones.
	LocalDisks string
	// LocalStorage adds the components of package localstorage: on each node a manager, which makes
	// volume groups of the disks that classes with provisioner localstorage.volsim.dev name, and
	// logical volumes for claims. The scheduler asks their extender (see LocalStorageExtender) and
	// ignores its failures, unless Scheduler lists an extender with the URL prefix
	// http://localstorage.volsim.dev. The program must import package fake/crd, for their records.
	LocalStorage bool
	// Snapshots serves VolumeSnapshots and VolumeGroupSnapshots, with their contents and classes, as
	// external-snapshotter 8.7.0 defines them. It adds the components snapshotcontroller, for the snapshots
	// of all drivers, and snapshotter, which takes those of the cluster's driver. That driver has the
	// default VolumeSnapshotClass "standard" and, if it takes groups, a VolumeGroupSnapshotClass of that
	// name; those of MoreDevices have classes of the kind's name. The program must import package fake/crd.
	Snapshots bool
	// LeaderElection makes the snapshot controller and the sidecars of all drivers act only while they hold
	// their Leases of kube-system, with upstream's names and periods: 15 s until a Lease expires, renewed
	// every 5 s. A replica (Cluster.Replicate) takes over when it has. One that cannot renew its Lease for
	// 10 s is restarted. Until it notices, two may act.
	LeaderElection bool
	// SidecarUser is the user of the sidecars of all drivers, with fake.Config.RBAC, unless Sidecars.User says another;
	// "": each sidecar is the account that its project publishes. HostPathAccount has all of their roles.
	SidecarUser string
	// VolumePopulators serves the custom resource VolumePopulator, in which populators register, and adds the
	// component datasourcevalidator, which warns of claims whose data source none of them handles. The
	// program must import package fake/crd.
	VolumePopulators bool
	// VolumesPerNode limits how many volumes can be attached to a node; 0 means no limit. Array
	// only: loop devices have no limit. With a limit, kubelets check every minute whether it has
	// changed.
	VolumesPerNode int
	// KubeletsAttach makes the kubelets attach and detach volumes instead of the attach/detach
	// controller.
	KubeletsAttach bool
	// SELinux enables SELinux mount labels on the nodes. ReadWriteOncePod volumes are mounted with
	// the label of the pod's processes. The driver announces support and ignores the labels. Array
	// only.
	SELinux bool
	// SELinuxMount extends SELinux mount labels to volumes of all access modes, as upstream's
	// feature gate of that name does. It has no effect without SELinux.
	SELinuxMount bool
	// SyncFrequency is how often kubelets set up volumes again whose CSIDriver has
	// requiresRepublish. 0 means every minute.
	SyncFrequency time.Duration
	// NodeLeases makes the kubelets renew the Leases of their nodes every 10 s. A node whose kubelet
	// has stopped for 50 s is then NotReady and tainted, and its pods are evicted. A stepped world lets
	// no time pass for renewals alone, so it comes to rest. The trace of a live world omits them.
	NodeLeases bool
	// NodeMonitorGracePeriod replaces these 50 s. It must be longer than the time between two
	// renewals.
	NodeMonitorGracePeriod time.Duration
	// StorageCapacity makes the driver's provisioner publish the free capacity in CSIStorageCapacity
	// objects of namespace kube-system, one for each class with delayed binding and topology segment. It
	// asks the driver again this often; upstream every minute. In between, the objects are out of date.
	// 0: every minute in live worlds of LVM, where nodes have different space; otherwise there are none.
	StorageCapacity time.Duration
	// HealthMonitor watches the health of volumes. The component healthmonitor asks the driver every five
	// minutes and reports abnormal volumes as events on their claims (VolumeConditionAbnormal,
	// VolumeConditionNormal), and claims whose pods are on failed nodes. Kubelets ask at each measurement of
	// a volume, and report it as an event on its pod and as a metric; see VolumeStatsPeriod. All this is in
	// the background: in a stepped world it happens once after each change, and when time passes.
	HealthMonitor bool
	// VolumeStatsPeriod is how often kubelets measure the volumes of their pods in the background, as
	// upstream's do every minute. VolumeStats and KubeletHandler then return the last results. 0 means every
	// minute with HealthMonitor, and otherwise on request only.
	VolumeStatsPeriod time.Duration
	// Scheduler configures the scheduler: extenders, profiles, plugins, back-off. New fails with
	// upstream's texts if it is invalid. nil: upstream's defaults.
	Scheduler *configv1.KubeSchedulerConfiguration
	// Extenders are extenders of the scheduler that run in this program, by the URL prefix that Scheduler
	// has for them. Each is a component of its own, named "extender(HOST)", that answers the requests in
	// tasks; while it is stopped, requests are refused. Extenders that are not listed are asked by HTTP,
	// which a stepped world does not have. A handler may read the caches of a component of Extra. In a
	// stepped world it must not block; in a live one it returns when the context of its request ends.
	Extenders map[string]http.Handler
	// Drivers are CSI drivers in addition to that of Devices; see Driver. Their sidecars are components
	// with the driver's name: "provisioner(disk.example.com)".
	Drivers []Driver
	// WithoutDriver leaves out the CSI driver of Devices with its sidecars and its class. The nodes have
	// the disks of Devices.
	WithoutDriver bool
	// RealNFS makes the kubelets mount nfs volumes from the servers that they name, by mount.nfs and
	// the kernel of this machine, instead of NFSExports. Loop and LVM only.
	RealNFS bool
	// CRDDirectoryPaths lists files, and directories of files, with CustomResourceDefinitions in YAML
	// or JSON. The API server serves them from the beginning. A missing path is an error, and so is
	// one without a definition. The program must import package fake/crd.
	CRDDirectoryPaths []string
	// Plugins returns volume plugins of the user's own for one process: a kubelet, or the
	// attach/detach, PersistentVolume or expand controller. It is called whenever such a process starts. New
	// fails if a plugin's name is not qualified, or belongs to another plugin of the process. nil: none.
	Plugins func(host PluginHost) ([]plugins.Plugin, error)
	// Extra lists further components, such as a user's operator; see Reconciler.
	Extra []Component
	// Interceptors wraps the calls between the components and their dependencies.
	Interceptors Interceptors

	// API configures the API server. Now is replaced by the host's clock. In a live world, a
	// HistoryAge of 0 means 5 minutes, and on devices of this machine an Identity of 0 means a
	// random one. So no volume has a name that an earlier cluster used. Without CreateWarnings, the
	// creator of an object is warned of what the cluster does not do with it.
	API fake.Config

	// Stepped, if not nil, makes the world stepped: one action at a time, on a virtual clock, under
	// a chooser.
	Stepped *sim.SteppedConfig
}

// A Cluster is a simulated cluster: API server, control plane, nodes, driver and devices. The
// methods of a live cluster may be called concurrently. Those of a stepped cluster must be called
// from one goroutine or from its users; see User.
type Cluster struct {
	host                 sim.Host
	server               *fake.Server
	client               *fake.Clientset // of users and tests
	rbac                 bool            // see fake.Config.RBAC
	rootCA               string
	driver               driver       // the devices of Config.Devices, with their driver
	drivers              []*csiDriver // the CSI drivers
	controllers          controllers  // of Config.Drivers
	devicesReason        string
	devices              Devices
	interceptors         Interceptors
	components           []*componentState
	asleep               map[string][]*componentState // by a resource that wakes them; see wake
	knownComponents      []string                     // names of all components that a control plane can have, without kubelets
	nodes                []*node
	machine              hostpath.Machine // the machine of the PersistentVolume controller
	hostPathProvisioning bool             // see Config.HostPathProvisioning
	controlPlane         hostpath.Machine // the machine of the attach/detach controller
	// controllerDrivers returns, by component, what finds drivers on controlPlane.
	controllerDrivers map[string]func() *prober.Directory // guarded by mu
	nfs               *nfs.Servers                        // see NFSExports
	realNFS           bool                                // see Config.RealNFS
	hasExtra          bool                                // the world has components of its user
	hasVolumeLimit    bool                                // the driver limits the volumes of each node
	selinuxMount      bool                                // the driver announces support of SELinux mount labels
	kubeletsAttach    bool                                // see Config.KubeletsAttach
	nodeLeases        bool                                // see Config.NodeLeases
	nodeGrace         time.Duration
	snapshots         bool                                    // see Config.Snapshots
	leaderElection    bool                                    // see Config.LeaderElection
	sidecarUser       string                                  // see Config.SidecarUser
	storageCapacity   time.Duration                           // see Config.StorageCapacity
	localStorage      atomic.Pointer[localstorage.Controller] // the controller started last; nil: none
	directories       directories

	lifecycle sync.Mutex // held while a component is stopped or started after Start

	plugins    func(host PluginHost) ([]plugins.Plugin, error) // see Config.Plugins
	containers Containers                                      // what runs those of pods

	mu          sync.Mutex
	servers     []*csi.Server // guarded by mu
	userErrs    []error       // guarded by mu
	activeUsers int           // guarded by mu
	waits       []*activeWait // guarded by mu
	closed      bool          // guarded by mu
}

// New builds a cluster. Nothing runs before Start. Callers must Close the cluster, also if Start
// fails.
func New(cfg Config) (*Cluster, error) {
	if cfg.Nodes == 0 {
		cfg.Nodes = 2
	}
	if cfg.Nodes < 0 || cfg.VolumesPerNode < 0 || cfg.ClockSpeed < 0 {
		return nil, fmt.Errorf("cluster: %d nodes with %d volumes each, clock speed %d: numbers must not be negative",
			cfg.Nodes, cfg.VolumesPerNode, cfg.ClockSpeed)
	}
	kind, why, err := cfg.Devices.choose(cfg.Stepped != nil)
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if err := cfg.Containers.validate(kind, cfg.Stepped != nil); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	if cfg.StorageCapacity < 0 {
		return nil, fmt.Errorf("cluster: storage capacity every %v: want no negative duration", cfg.StorageCapacity)
	}
	if cfg.VolumeStatsPeriod < 0 {
		return nil, fmt.Errorf("cluster: volume statistics every %v: want no negative duration", cfg.VolumeStatsPeriod)
	}
	if cfg.StorageCapacity == 0 && kind == LVM && cfg.Stepped == nil {
		cfg.StorageCapacity = capacityPeriod
	}
	c := &Cluster{
		devices: kind, devicesReason: why, interceptors: cfg.Interceptors, rootCA: cmp.Or(cfg.API.RootCA, fake.NoRootCA),
		hasExtra: len(cfg.Extra) > 0, hasVolumeLimit: cfg.VolumesPerNode > 0, selinuxMount: cfg.SELinux, kubeletsAttach: cfg.KubeletsAttach,
		storageCapacity: cfg.StorageCapacity, nodeLeases: cfg.NodeLeases, nodeGrace: cfg.NodeMonitorGracePeriod,
		snapshots: cfg.Snapshots, leaderElection: cfg.LeaderElection, sidecarUser: cfg.SidecarUser,
		containers: cfg.Containers, plugins: cfg.Plugins, realNFS: cfg.RealNFS, hostPathProvisioning: cfg.HostPathProvisioning, controllerDrivers: map[string]func() *prober.Directory{},
	}
	if c.hasVolumeLimit && kind != Array {
		return nil, fmt.Errorf("cluster: %d volumes per node: only devices %q have a limit", cfg.VolumesPerNode, Array)
	}
	if cfg.SELinux && kind != Array {
		return nil, fmt.Errorf("cluster: SELinux labels are not supported by devices %q; use %q", kind, Array)
	}
	if cfg.RealNFS && kind == Array {
		return nil, fmt.Errorf("cluster: real NFS servers are not supported by devices %q; use %q or %q", kind, Loop, LVM)
	}
	if cfg.Stepped == nil && kind != Array {
		cfg.API.Identity = cmp.Or(cfg.API.Identity, randomIdentity())
	}
	if cfg.Stepped != nil {
		c.host = sim.NewStepped(*cfg.Stepped)
	} else {
		log := &trace.Log{Max: cfg.Records}
		if cfg.NodeLeases || cfg.LeaderElection {
			log.Omit = isLeaseRenewal
		}
		c.host = sim.NewLive(sim.LiveConfig{Log: log, Speed: cfg.ClockSpeed})
	}
	cfg.API.Now = c.host.Now
	if c.driver, err = kind.open(cfg); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	c.host.AddEventSource(c.possibleEvents)
	if cfg.Stepped == nil {
		cfg.API.HistoryAge = cmp.Or(cfg.API.HistoryAge, historyAge)
	}
	if cfg.API.Kubelets == nil {
		cfg.API.Kubelets = (*reachableKubelets)(c)
	}
	if cfg.API.CreateWarnings == nil {
		cfg.API.CreateWarnings = c.createWarnings
	}
	if stepped, ok := c.host.(*sim.Stepped); ok {
		cfg.API.Reuse = stepped.Reuse()
	}
	c.server, c.rbac = fake.NewServer(cfg.API), cfg.API.RBAC
	c.client = c.server.Client(c.host.ExternalCaller())
	definitions.ServeAdmission(c.server)
	if c.rbac {
		if err := c.addRoles(); err != nil {
			return nil, errors.Join(fmt.Errorf("cluster: %w", err), c.Close())
		}
	}
	if err := c.assemble(cfg); err != nil {
		return nil, errors.Join(fmt.Errorf("cluster: %w", err), c.Close())
	}
	return c, nil
}

// randomIdentity returns an identity that no other cluster has.
func randomIdentity() uint64 {
	var bytes [8]byte
	_, _ = rand.Read(bytes[:]) // it never fails
	return max(binary.LittleEndian.Uint64(bytes[:]), 1)
}

// Start runs the cluster and returns once the nodes and the driver have registered. It fails if ctx
// ends first, and after Close.
func (c *Cluster) Start(ctx context.Context) error {
	if err := c.start(); err != nil {
		return err
	}
	return c.Wait(ctx, "nodes and driver to register", c.isRegistered)
}

var errClosed = errors.New("cluster: closed")

// start starts the host and the watches of directories.
func (c *Cluster) start() error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed {
		return errClosed
	}
	c.directories.begin()
	c.host.Start()
	return nil
}

// Client returns a client of the API server for users and tests. Within a User, each request is a
// suspension point.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// RESTConfig returns a configuration for clients that are built from one: client-go's clientsets,
// controller-runtime's clients and managers, generated code for custom resources. Requests are
// answered in memory, on their own goroutine. Within a User they are suspension points, as those of
// Client are.
func (c *Cluster) RESTConfig() *clientrest.Config {
	return apiserver.NewConfig(c.server, c.host.ExternalCaller())
}

// Server returns the API server. Reading from it leaves no trace.
func (c *Cluster) Server() *fake.Server { return c.server }

// Host returns the host that runs the world: a *sim.Live or a *sim.Stepped.
func (c *Cluster) Host() sim.Host { return c.host }

// Trace returns the log of all actions.
func (c *Cluster) Trace() *trace.Log { return c.host.Log() }

// Devices returns the kind of devices that back the volumes, and the reason in words.
func (c *Cluster) Devices() (kind Devices, why string) { return c.devices, c.devicesReason }

// DriverName returns the name of the CSI driver of Config.Devices, which is the provisioner of the
// storage class "standard"; with Config.WithoutDriver that of the first of Config.Drivers, or "".
func (c *Cluster) DriverName() string {
	if len(c.drivers) == 0 {
		return ""
	}
	return c.drivers[0].Name
}

// User adds a program outside the control plane that runs concurrently. The script may use Client
// and the Wait methods; under a stepped host each call is a suspension point. Run returns the
// script's error.
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

// Run runs the world until it is at rest. A stepped world is at rest when no step is left; a live
// one when all users have returned and nothing is pending. Run returns the users' errors. A user
// that still waits is an error. Run fails after Close.
func (c *Cluster) Run(ctx context.Context) error {
	err := c.start()
	if err != nil {
		return err
	}
	if s, ok := c.host.(*sim.Stepped); ok {
		if err = s.Run(); err == nil && len(s.Waiting()) > 0 {
			err = fmt.Errorf("%w, but %v%s", sim.ErrQuiescent, s.Waiting(), c.explainWaits())
		}
	} else {
		err = c.host.Wait(ctx, "users to finish and the world to come to rest", func() bool {
			c.mu.Lock()
			active := c.activeUsers
			c.mu.Unlock()
			return active == 0 && len(c.Pending()) == 0
		})
		if err != nil {
			err = fmt.Errorf("%w%s", err, c.explainWaits())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(append(c.userErrs, err)...)
}

// Close ends the world and removes all its processes, mounts, devices and files. The error lists
// what could not be removed. Further calls do nothing.
func (c *Cluster) Close() error {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return nil
	}
	errs := []error{c.directories.close()}
	c.host.Close()
	c.endContainers()
	c.endKubeletConnections()
	c.mu.Lock()
	servers := c.servers
	c.mu.Unlock()
	for _, s := range servers {
		errs = append(errs, s.Stop())
	}
	for _, d := range c.drivers {
		d.programs.stop()
	}
	return errors.Join(append(errs, c.driver.close())...)
}

// connect makes a driver's services reachable: as a gRPC server if live, by direct calls, without a
// server, if stepped.
func (c *Cluster) connect(register csi.RegisterFunc) (grpc.ClientConnInterface, *csi.Server, error) {
	if !c.isLive() {
		return csi.Direct(register), nil, nil
	}
	server, err := csi.Serve(register)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers = append(c.servers, server)
	return server.Conn(), server, nil
}

// end ends a server as if its process were killed; nil: there is none.
func (c *Cluster) end(server **csi.Server) error {
	ended := *server
	if *server = nil; ended == nil {
		return nil
	}
	c.mu.Lock()
	c.servers = slices.DeleteFunc(c.servers, func(s *csi.Server) bool { return s == ended })
	c.mu.Unlock()
	return ended.Kill()
}
