package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"

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
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/localprovisioner"
	"github.com/volsim/volsim/internal/localstorage"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/volumemanager"
)

// A node is one node of the cluster.
type node struct {
	name    string
	fs      nodefs.FS
	root    string                   // directory on fs of the node and its kubelet
	driver  csi.RegisterFunc         // the driver's node services
	conn    grpc.ClientConnInterface // a connection to the driver's node services
	sockets sockets
	boots   int                 // number of reboots
	groups  volumegroup.Backend // of local storage; nil: none

	// Other goroutines may read the fields below while an event changes them.
	kubelet       atomic.Pointer[kubelet.Kubelet]             // the kubelet started last; nil: none
	disks         atomic.Pointer[localprovisioner.Controller] // the provisioner started last; nil: none
	storage       atomic.Pointer[localstorage.Manager]        // the manager started last; nil: none
	partitioned   atomic.Bool                                 // see PartitionNode
	driverStopped atomic.Bool                                 // see StopDriver
}

// nodeName returns the name of the i-th node, counted from 0.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// assemble registers all components of the world, in order.
func (c *Cluster) assemble(cfg Config) error {
	if len(cfg.CRDDirectoryPaths) > 0 {
		if err := definitions.Install(context.Background(), c.server, cfg.CRDDirectoryPaths); err != nil {
			return fmt.Errorf("CRDDirectoryPaths: %w", err)
		}
	}
	controller, err := c.connect(c.driver.controller)
	if err != nil {
		return err
	}
	if cfg.Components == nil && !cfg.PreRegistered {
		c.createDefaults()
	} else if err := c.server.Add(c.csiDriver(), c.storageClass()); err != nil {
		return err
	}
	if err := c.addNodeDisks(cfg); err != nil {
		return err
	}
	configuration, extenders, err := c.withExtenders(cfg)
	if err != nil {
		return err
	}
	components := slices.Concat(storageComponents(&hostPathDisk{c.machine, cfg.HostPathProvisioning}),
		schedulerComponents(configuration, extenders),
		c.sidecarComponents(controller), clusterComponents(c.rootCA), workloadComponents(),
		nodeComponents(c.hasNode), policyComponents())
	for _, p := range components {
		c.knownComponents = append(c.knownComponents, p.name)
		if err := c.addComponent(cfg, p); err != nil {
			return err
		}
	}
	for _, n := range c.nodes {
		if err := c.addNode(cfg, n); err != nil {
			return err
		}
	}
	if err := c.addLocalProvisioners(cfg); err != nil {
		return err
	}
	if err := c.addLocalStorage(cfg); err != nil {
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
			return fmt.Errorf("%w %q (have %s, kubelet)", ErrUnknownComponent, name, componentNames(components))
		}
	}
	return nil
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
	state := &componentState{recipe: recipe{name: p.Name, start: p.Start}}
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

// createDefaults starts the administrator, who creates the CSIDriver object and the default storage
// class.
func (c *Cluster) createDefaults() {
	admin := c.host.Process("admin")
	client := c.server.Client(admin)
	admin.User("", func(ctx context.Context) {
		_, err := client.StorageV1().CSIDrivers().Create(ctx, c.csiDriver(), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			_, err = client.StorageV1().StorageClasses().Create(ctx, c.storageClass(), metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			panic(fmt.Sprintf("cluster: create defaults: %v", err))
		}
	})
}

// allocatablePeriod is how often kubelets ask a driver with a limit how many volumes their nodes
// can have.
const allocatablePeriod = time.Minute

func (c *Cluster) csiDriver() *storagev1.CSIDriver {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: c.driver.name()}}
	if c.selinuxMount {
		driver.Spec.SELinuxMount = &c.selinuxMount
	}
	if c.storageCapacity > 0 {
		published := true
		driver.Spec.StorageCapacity = &published
	}
	if c.hasVolumeLimit {
		seconds := int64(allocatablePeriod / time.Second)
		driver.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
	}
	return driver
}

func (c *Cluster) storageClass() *storagev1.StorageClass {
	grows := true
	class := &storagev1.StorageClass{
		AllowVolumeExpansion: &grows,
		ObjectMeta: metav1.ObjectMeta{
			Name: ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: c.driver.name(),
	}
	if c.driver.topology() {
		late := storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &late
	}
	return class
}

// A hostPathDisk is the disk of the machine on which the PersistentVolume controller runs.
type hostPathDisk struct {
	machine      hostpath.Machine
	provisioning bool // the controller provisions directories there
}

// storageComponents returns the storage controllers of kube-controller-manager. If own is nil, they
// have no access to the disk of the machine they run on.
func storageComponents(own *hostPathDisk) []recipe {
	return []recipe{
		{name: "pvcontroller", replaces: "persistentvolume-binder-controller", start: func(p ComponentContext) error {
			return startPVController(p, own)
		}},
		{name: "pvprotection", replaces: "persistentvolume-protection-controller", start: func(p ComponentContext) error {
			pvprotection.New(pvprotection.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
			return nil
		}},
		{name: "pvcprotection", replaces: "persistentvolumeclaim-protection-controller", start: func(p ComponentContext) error {
			pvcprotection.New(pvcprotection.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
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
					Process: p.Process, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder(ephemeral.EventSource),
				})
				return nil
			},
		},
	}
}

// startPVController starts the PersistentVolume controller with those plugins of
// kube-controller-manager that provision, delete or recycle volumes. If own is nil, host-path
// directories are only recycled, by pods: none is created or deleted.
//
// Upstream: cmd/kube-controller-manager/app ProbeProvisionableRecyclableVolumePlugins (v1.36).
func startPVController(p ComponentContext, own *hostPathDisk) error {
	scrubber := recycler.New(recycler.Config{
		Process: p.Process, Client: p.Client,
		Pods: p.Informers.Core().V1().Pods(),
	})
	var directories plugins.Plugin
	if own == nil {
		plugin := hostpath.New(hostpath.Config{Caller: p.Process, Recycler: scrubber})
		directories = struct {
			plugins.Plugin
			plugins.Recycler
		}{plugin, plugin}
	} else {
		directories = hostpath.New(hostpath.Config{
			Caller: p.Process, Machine: own.machine, Recycler: scrubber, Provisioning: own.provisioning,
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

// sidecarComponents returns the sidecars of the driver's controller service.
func (c *Cluster) sidecarComponents(conn grpc.ClientConnInterface) []recipe {
	return []recipe{
		{name: "provisioner", start: func(p ComponentContext) error {
			cfg := provisioner.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Recorder: p.Recorder(c.driver.name()), Conn: p.driverConn(c.driver.name(), conn),
				Topology: c.driver.topology(), StrictTopology: c.driver.topology(),
			}
			if c.storageCapacity > 0 {
				cfg.CapacityNamespace, cfg.CapacityPollPeriod = metav1.NamespaceSystem, c.storageCapacity
			}
			provisioner.New(cfg)
			return nil
		}},
		{name: "attacher", start: func(p ComponentContext) error {
			attacher.New(attacher.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Conn: p.driverConn(c.driver.name(), conn),
			})
			return nil
		}},
		{name: "resizer", filters: resizerFilters, start: func(p ComponentContext) error {
			resizer.New(resizer.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Recorder: p.Recorder("external-resizer " + c.driver.name()), Conn: p.driverConn(c.driver.name(), conn),
			})
			return nil
		}},
	}
}

// clusterComponents returns the components that fill and empty namespaces. Their filters keep them
// from adding steps when they have nothing to do.
func clusterComponents(rootCA string) []recipe {
	return []recipe{
		{name: "garbagecollector", replaces: "garbage-collector-controller", start: startGarbageCollector},
		{name: "namespace", replaces: "namespace-controller", filters: namespaceFilters, start: startNamespace},
		{name: "serviceaccount", replaces: "serviceaccount-controller", filters: serviceAccountFilters, start: func(p ComponentContext) error {
			serviceaccount.New(serviceaccount.Config{Process: p.Process, Client: p.Client, Informers: p.Informers})
			return nil
		}},
		{name: "rootca", replaces: "root-ca-certificate-publisher-controller", filters: rootCAFilters(rootCA), start: func(p ComponentContext) error {
			rootca.New(rootca.Config{Process: p.Process, Client: p.Client, Informers: p.Informers, RootCA: rootCA})
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

// addNodeDisks creates the disks of all nodes, and that of the control plane. The PersistentVolume
// controller's machine is the first node, so that in a world of one node pods can use the
// directories it provisions. Without nodes it has a disk of its own.
func (c *Cluster) addNodeDisks(cfg Config) (err error) {
	if c.controlPlane, err = c.driver.addMachine(controlPlaneName); err != nil {
		return err
	}
	exports, err := c.driver.addMachine(exportsName)
	if err != nil {
		return err
	}
	c.nfs = nfs.NewServers(exports)
	if !cfg.includes("kubelet") {
		c.machine = hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
		return nil
	}
	for i := range cfg.Nodes {
		n := &node{name: nodeName(i)}
		n.fs, n.root, n.driver, err = c.driver.addNode(n.name)
		if err != nil {
			return err
		}
		if _, real := n.fs.(*nodefs.Real); real && cfg.Stepped == nil {
			n.sockets.machine = &pluginmanager.Unix{}
		}
		c.nodes = append(c.nodes, n)
	}
	c.machine = hostpath.Machine{FS: c.nodes[0].fs, Root: c.nodes[0].root}
	return nil
}

// addNode adds a node's driver and its kubelet.
func (c *Cluster) addNode(cfg Config, n *node) error {
	var err error
	if n.conn, err = c.connect(n.services(c.driver.name())); err != nil {
		return err
	}
	c.createSockets(n)
	if cfg.PreRegistered {
		if err := c.preRegister(n.name, n.conn); err != nil {
			return err
		}
	}
	return c.addComponent(cfg, recipe{
		name: kubeletName(n.name),
		filters: func(func() informers.SharedInformerFactory) []fake.Filter {
			return []fake.Filter{
				{Resource: "pods", Fields: "spec.nodeName=" + n.name},
				{Resource: "nodes", Fields: "metadata.name=" + n.name},
				claimFilter(volumemanager.IsNodeResize),
			}
		},
		start: func(p ComponentContext) error {
			disk := p.nodeDisk(n.fs)
			further, err := p.userPlugins(PluginHost{Node: n.name, Disk: disk, Root: n.root})
			if err != nil {
				return err
			}
			k, err := kubelet.New(kubelet.Config{
				Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Node: n.name, Root: n.root,
				FS: disk, NFS: c.nfsServers(), Plugins: further,
				BootID: fmt.Sprintf("%s-%d", n.name, n.boots), SyncFrequency: cfg.SyncFrequency,
				SelfAttach: cfg.KubeletsAttach, NodeLease: cfg.NodeLeases,
				SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
				Sockets: &n.sockets, Dial: c.dialer(p, n),
			})
			if err != nil {
				return err
			}
			n.kubelet.Store(k)
			c.watchDirectories(p.Process.Name(), n, k)
			return nil
		},
	})
}
