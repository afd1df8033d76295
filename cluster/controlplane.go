package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/controllers/ephemeral"
	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/volumemanager"
)

// A node is one node of the cluster.
type node struct {
	name          string
	fs            nodefs.FS
	root          string                   // directory on fs of the node and its kubelet
	driver        csi.RegisterFunc         // the driver's node services
	conn          grpc.ClientConnInterface // a connection to the driver's node services
	sockets       sockets
	kubelet       *kubelet.Kubelet // the kubelet started last
	partitioned   bool             // see PartitionNode
	driverStopped bool             // see StopDriver
	boots         int              // number of reboots
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
	components := slices.Concat(storageComponents(&hostPathDisk{c.machine, cfg.HostPathProvisioning}),
		schedulerComponents(),
		c.sidecarComponents(controller), clusterComponents(c.rootCA))
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

// addExtra adds a component of Config.Extra, whatever Config.Components selects.
func (c *Cluster) addExtra(p Component) error {
	if p.Install != nil {
		if err := p.Install(c.server); err != nil {
			return fmt.Errorf("install dependencies of %s: %w", p.Name, err)
		}
	}
	c.components = append(c.components, &componentState{name: p.Name, start: p.Start})
	return c.launch(c.components[len(c.components)-1])
}

func componentNames(states []componentState) string {
	words := make([]string, len(states))
	for i, p := range states {
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
func storageComponents(own *hostPathDisk) []componentState {
	return []componentState{
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
		{name: "attachdetach", replaces: "persistentvolume-attach-detach-controller", start: startAttachDetach},
		{name: "ephemeral", replaces: "ephemeral-volume-controller", filters: ephemeralFilters, start: func(p ComponentContext) error {
			ephemeral.New(ephemeral.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder(ephemeral.EventSource),
			})
			return nil
		}},
	}
}

func schedulerComponents() []componentState {
	return []componentState{{name: "scheduler", replaces: "kube-scheduler", filters: schedulerFilters, start: func(p ComponentContext) error {
		scheduler.New(scheduler.Config{
			Process: p.Process, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder("default-scheduler"),
		})
		return nil
	}}}
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
	var manager plugins.Manager
	if err := manager.Register(p.interceptedPlugin(nfs.New(scrubber)), p.interceptedPlugin(directories)); err != nil {
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
	err := manager.Register(csi.New(csi.Config{
		Process: p.Process, Client: client,
		CSIDrivers:        p.Informers.Storage().V1().CSIDrivers(),
		Attachments:       p.Informers.Storage().V1().VolumeAttachments(),
		PersistentVolumes: p.Informers.Core().V1().PersistentVolumes(),
	}))
	if err != nil {
		return err
	}
	attachdetach.New(attachdetach.Config{
		Process: p.Process, Client: client, Informers: p.Informers,
		Recorder: p.Recorder("attachdetach-controller"), Plugins: &manager,
	})
	return nil
}

// sidecarComponents returns the sidecars of the driver's controller service.
func (c *Cluster) sidecarComponents(conn grpc.ClientConnInterface) []componentState {
	return []componentState{
		{name: "provisioner", start: func(p ComponentContext) error {
			provisioner.New(provisioner.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Recorder: p.Recorder(c.driver.name()), Conn: p.driverConn(c.driver.name(), conn),
				Topology: c.driver.topology(), StrictTopology: c.driver.topology(),
			})
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

// claimFilter returns a filter of claims that passes the changes for which match returns true.
func claimFilter(match func(old, new *corev1.PersistentVolumeClaim) bool) fake.Filter {
	return fake.Filter{Resource: "persistentvolumeclaims", Match: func(old, new fake.Object) bool {
		before, _ := old.(*corev1.PersistentVolumeClaim)
		after, _ := new.(*corev1.PersistentVolumeClaim)
		return match(before, after)
	}}
}

// ephemeralFilters passes only pods with generic ephemeral volumes, and the deletion of their claims.
func ephemeralFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{Resource: "pods", Match: func(old, new fake.Object) bool {
			return old == nil && new != nil && ephemeral.HasVolumes(new.(*corev1.Pod))
		}},
		{Resource: "persistentvolumeclaims", Match: func(old, new fake.Object) bool {
			return new == nil && ephemeral.Wants(caches(), old.(*corev1.PersistentVolumeClaim))
		}},
	}
}

// resizerFilters passes only claims that need expansion. Volumes are read when one does.
func resizerFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		claimFilter(func(old, new *corev1.PersistentVolumeClaim) bool {
			return new != nil && resizer.NeedsSync(old, new)
		}),
		{Resource: "persistentvolumes", Match: func(_, _ fake.Object) bool { return false }},
	}
}

// clusterComponents returns the components that fill and empty namespaces. Their filters keep them
// from adding steps when they have nothing to do.
func clusterComponents(rootCA string) []componentState {
	return []componentState{
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

// A filterFunc returns the filters of a component's caches. Its argument returns these caches once
// they exist.
type filterFunc func(caches func() informers.SharedInformerFactory) []fake.Filter

// schedulerFilters drops what concerns attach limits where there are none.
func schedulerFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	limits := func(obj fake.Object) bool { return obj != nil && scheduler.HasLimits(obj.(*storagev1.CSINode)) }
	counts := func(obj fake.Object) bool {
		return obj != nil && scheduler.CountsAgainstLimit(caches(), obj.(*storagev1.VolumeAttachment))
	}
	return []fake.Filter{
		{Resource: "csinodes", Match: func(old, new fake.Object) bool { return limits(old) || limits(new) }},
		{Resource: "volumeattachments", Match: func(old, new fake.Object) bool {
			return old == nil && counts(new) ||
				new == nil && counts(old) // the content of an attachment does not matter
		}},
	}
}

func namespaceFilters(func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{{
		Resource: "namespaces", Match: func(old, new fake.Object) bool { return namespace.Matches(old, new) },
	}}
}

func serviceAccountFilters(caches func() informers.SharedInformerFactory) []fake.Filter {
	return []fake.Filter{
		{
			Resource: "serviceaccounts", Fields: "metadata.name=" + serviceaccount.AccountName,
			Match: func(_, new fake.Object) bool { return new == nil },
		},
		{Resource: "namespaces", Match: func(_, new fake.Object) bool {
			return new != nil && serviceaccount.NeedsServiceAccount(caches(), new.(*corev1.Namespace))
		}},
	}
}

func rootCAFilters(rootCA string) filterFunc {
	return func(caches func() informers.SharedInformerFactory) []fake.Filter {
		return []fake.Filter{
			{
				Resource: "configmaps", Fields: "metadata.name=" + rootca.ConfigMapName,
				Match: func(_, new fake.Object) bool {
					return new == nil || !rootca.IsUpToDate(new.(*corev1.ConfigMap), rootCA)
				},
			},
			{Resource: "namespaces", Match: func(_, new fake.Object) bool {
				return new != nil && rootca.NeedsConfigMap(caches(), new.(*corev1.Namespace))
			}},
		}
	}
}

// addNodeDisks creates the disks of all nodes. The PersistentVolume controller's machine is the
// first node, so that in a world of one node pods can use the directories it provisions. Without
// nodes it has a disk of its own.
func (c *Cluster) addNodeDisks(cfg Config) error {
	if !cfg.includes("kubelet") {
		c.machine = hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
		return nil
	}
	for i := range cfg.Nodes {
		n := &node{name: nodeName(i)}
		var err error
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
	return c.addComponent(cfg, componentState{
		name: kubeletName(n.name),
		filters: func(func() informers.SharedInformerFactory) []fake.Filter {
			return []fake.Filter{
				{Resource: "pods", Fields: "spec.nodeName=" + n.name},
				{Resource: "nodes", Fields: "metadata.name=" + n.name},
				claimFilter(volumemanager.IsNodeResize),
			}
		},
		start: func(p ComponentContext) (err error) {
			n.kubelet, err = kubelet.New(kubelet.Config{
				Process: p.Process, Client: p.clientWithoutCopies(), Informers: p.Informers, Node: n.name, Root: n.root,
				FS: p.nodeDisk(n.fs), Exports: c.nfsExports,
				BootID: fmt.Sprintf("%s-%d", n.name, n.boots), SyncFrequency: cfg.SyncFrequency,
				SelfAttach: cfg.KubeletsAttach, NodeLease: cfg.NodeLeases,
				SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
				Sockets: &n.sockets, Dial: c.dialer(p, n),
			})
			return err
		},
	})
}
