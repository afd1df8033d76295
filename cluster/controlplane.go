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
	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/recycler"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/volumemanager"
)

// node is a node of the cluster.
type node struct {
	name    string
	fs      nodefs.FS
	root    string                   // of the node, and of its kubelet, on fs
	driver  csi.Register             // the driver's services there
	conn    grpc.ClientConnInterface // to them
	sockets sockets
	kubelet *kubelet.Kubelet // the one that was started last
	lost    bool             // see Lose
	stopped bool             // the driver is, there; see StopDriver
	boots   int              // how often it has booted anew
}

// nodeName is the name of the i-th node, from 0.
func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// assemble is the list of all parts of the world, in the order in which they are registered.
func (c *Cluster) assemble(cfg Config) error {
	controller, err := c.connect(c.driver.controller)
	if err != nil {
		return err
	}
	if cfg.Parts == nil && !cfg.Enrolled {
		c.setUp()
	} else if err := c.server.Add(c.csiDriver(), c.class()); err != nil {
		return err
	}
	if err := c.addDisks(cfg); err != nil {
		return err
	}
	parts := slices.Concat(storageParts(&disk{c.machine, cfg.HostPathProvisioning}), schedulerParts(),
		c.sidecarParts(controller), clusterParts(c.rootCA))
	for _, p := range parts {
		c.known = append(c.known, p.name)
		if err := c.add(cfg, p); err != nil {
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
	for _, name := range cfg.Parts {
		if !slices.ContainsFunc(c.parts, func(p *part) bool {
			return cfg.wanted(p.name) && (p.name == name || strings.HasPrefix(p.name, name+"("))
		}) {
			return fmt.Errorf("part %q: %w: there are %s and kubelet", name, ErrNoPart, names(parts))
		}
	}
	return nil
}

// addExtra adds a part of the user's own. Whatever cfg.Parts says, it is wanted.
func (c *Cluster) addExtra(p Part) error {
	if p.Install != nil {
		if err := p.Install(c.server); err != nil {
			return fmt.Errorf("install what %s needs: %w", p.Name, err)
		}
	}
	c.parts = append(c.parts, &part{name: p.Name, start: p.Start})
	return c.launch(c.parts[len(c.parts)-1])
}

func names(parts []part) string {
	words := make([]string, len(parts))
	for i, p := range parts {
		words[i] = p.name
	}
	return strings.Join(words, ", ")
}

// setUp is what an administrator does first: the CSIDriver object and the default storage class.
func (c *Cluster) setUp() {
	admin := c.host.Component("admin")
	client := c.server.Client(admin)
	admin.User("", func(ctx context.Context) {
		_, err := client.StorageV1().CSIDrivers().Create(ctx, c.csiDriver(), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			_, err = client.StorageV1().StorageClasses().Create(ctx, c.class(), metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			panic(fmt.Sprintf("cluster: set-up: %v", err))
		}
	})
}

// allocatablePeriod is how often kubelets ask a driver that has a limit how many volumes their nodes can have.
const allocatablePeriod = time.Minute

func (c *Cluster) csiDriver() *storagev1.CSIDriver {
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: c.driver.name()}}
	if c.labels {
		driver.Spec.SELinuxMount = &c.labels
	}
	if c.limited {
		seconds := int64(allocatablePeriod / time.Second)
		driver.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
	}
	return driver
}

func (c *Cluster) class() *storagev1.StorageClass {
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

// disk is what the PersistentVolume controller has of the machine on which it runs.
type disk struct {
	machine      hostpath.Machine
	provisioning bool // it makes volumes there
}

// storageParts are the controllers of kube-controller-manager that are about storage. Without a disk, the machine on which
// they run is none of theirs.
func storageParts(own *disk) []part {
	return []part{
		{name: "pvcontroller", instead: "persistentvolume-binder-controller", start: func(p Process) error {
			return startPVController(p, own)
		}},
		{name: "pvprotection", instead: "persistentvolume-protection-controller", start: func(p Process) error {
			pvprotection.New(pvprotection.Config{Component: p.Component, Client: p.Client, Informers: p.Informers})
			return nil
		}},
		{name: "pvcprotection", instead: "persistentvolumeclaim-protection-controller", start: func(p Process) error {
			pvcprotection.New(pvcprotection.Config{Component: p.Component, Client: p.Client, Informers: p.Informers})
			return nil
		}},
		{name: "attachdetach", instead: "persistentvolume-attach-detach-controller", start: startAttachDetach},
	}
}

func schedulerParts() []part {
	return []part{{name: "scheduler", instead: "kube-scheduler", narrow: narrowScheduler, start: func(p Process) error {
		scheduler.New(scheduler.Config{
			Component: p.Component, Client: p.Client, Informers: p.Informers, Recorder: p.Recorder("default-scheduler"),
		})
		return nil
	}}}
}

// startPVController starts the PersistentVolume controller with the plugins of kube-controller-manager that make, delete or
// recycle volumes. Without a disk, directories of machines are recycled, by pods, but none is made or deleted.
//
// Upstream: cmd/kube-controller-manager/app ProbeProvisionableRecyclableVolumePlugins (v1.36).
func startPVController(p Process, own *disk) error {
	scrubber := recycler.New(recycler.Config{Component: p.Component, Client: p.Client, Pods: p.Informers.Core().V1().Pods()})
	var directories plugins.Plugin
	if own == nil {
		plugin := hostpath.New(hostpath.Config{Caller: p.Component, Recycler: scrubber})
		directories = struct {
			plugins.Plugin
			plugins.Recycler
		}{plugin, plugin}
	} else {
		directories = hostpath.New(hostpath.Config{
			Caller: p.Component, Machine: own.machine, Recycler: scrubber, Provisioning: own.provisioning,
		})
	}
	var manager plugins.Manager
	if err := manager.Register(p.plugin(nfs.New(scrubber)), p.plugin(directories)); err != nil {
		return err
	}
	pvcontroller.New(pvcontroller.Config{
		Component: p.Component, Client: p.sharing(), Informers: p.Informers,
		Recorder: p.Recorder(pvcontroller.EventSource), Plugins: &manager,
	})
	return nil
}

func startAttachDetach(p Process) error {
	var manager plugins.Manager
	client := p.sharing()
	err := manager.Register(csi.New(csi.Config{
		Component: p.Component, Client: client,
		CSIDrivers:        p.Informers.Storage().V1().CSIDrivers(),
		Attachments:       p.Informers.Storage().V1().VolumeAttachments(),
		PersistentVolumes: p.Informers.Core().V1().PersistentVolumes(),
	}))
	if err != nil {
		return err
	}
	attachdetach.New(attachdetach.Config{
		Component: p.Component, Client: client, Informers: p.Informers,
		Recorder: p.Recorder("attachdetach-controller"), Plugins: &manager,
	})
	return nil
}

// sidecarParts are the sidecars beside the driver's controller service.
func (c *Cluster) sidecarParts(conn grpc.ClientConnInterface) []part {
	return []part{
		{name: "provisioner", start: func(p Process) error {
			provisioner.New(provisioner.Config{
				Component: p.Component, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Recorder: p.Recorder(c.driver.name()), Conn: p.conn(c.driver.name(), conn),
				Topology: c.driver.topology(), StrictTopology: c.driver.topology(),
			})
			return nil
		}},
		{name: "attacher", start: func(p Process) error {
			attacher.New(attacher.Config{
				Component: p.Component, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(), Conn: p.conn(c.driver.name(), conn),
			})
			return nil
		}},
		{name: "resizer", narrow: narrowResizer, start: func(p Process) error {
			resizer.New(resizer.Config{
				Component: p.Component, Client: p.Client, Informers: p.Informers, DriverName: c.driver.name(),
				Recorder: p.Recorder("external-resizer " + c.driver.name()), Conn: p.conn(c.driver.name(), conn),
			})
			return nil
		}},
	}
}

// claimsOf is a selection of claims by what is asked of a change.
func claimsOf(concerns func(was, is *corev1.PersistentVolumeClaim) bool) fake.Selection {
	return fake.Selection{Resource: "persistentvolumeclaims", Concerns: func(was, is fake.Object) bool {
		before, _ := was.(*corev1.PersistentVolumeClaim)
		after, _ := is.(*corev1.PersistentVolumeClaim)
		return concerns(before, after)
	}}
}

// narrowResizer leaves out what is not about claims that are to grow. What a volume is, is read when one does.
func narrowResizer(func() informers.SharedInformerFactory) []fake.Selection {
	return []fake.Selection{
		claimsOf(func(was, is *corev1.PersistentVolumeClaim) bool { return is != nil && resizer.Concerns(was, is) }),
		{Resource: "persistentvolumes", Concerns: func(_, _ fake.Object) bool { return false }},
	}
}

// clusterParts are what fills namespaces, and what empties them. Their selections keep them from costing a step where they
// have nothing to do.
func clusterParts(rootCA string) []part {
	return []part{
		{name: "garbagecollector", instead: "garbage-collector-controller", start: startGarbageCollector},
		{name: "namespace", instead: "namespace-controller", narrow: narrowNamespace, start: startNamespace},
		{name: "serviceaccount", instead: "serviceaccount-controller", narrow: narrowAccounts, start: func(p Process) error {
			serviceaccount.New(serviceaccount.Config{Component: p.Component, Client: p.Client, Informers: p.Informers})
			return nil
		}},
		{name: "rootca", instead: "root-ca-certificate-publisher-controller", narrow: narrowRootCA(rootCA), start: func(p Process) error {
			rootca.New(rootca.Config{Component: p.Component, Client: p.Client, Informers: p.Informers, RootCA: rootCA})
			return nil
		}},
	}
}

// startGarbageCollector leaves out events, which are not collected.
func startGarbageCollector(p Process) error {
	client, err := p.metadata()
	if err != nil {
		return err
	}
	source, err := p.survey(schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"})
	if err != nil {
		return err
	}
	garbagecollector.New(garbagecollector.Config{
		Component: p.Component, Client: client, Source: source, Recorder: p.Recorder(garbagecollector.EventSource),
	})
	return nil
}

// namespaceDelay is what a real server needs before the content of a namespace is deleted.
//
// Upstream: pkg/controller/namespace namespaceDeletionGracePeriod.
const namespaceDelay = 5 * time.Second

func startNamespace(p Process) error {
	client, err := p.metadata()
	if err != nil {
		return err
	}
	source, err := p.survey()
	if err != nil {
		return err
	}
	cfg := namespace.Config{
		Component: p.Component, Client: p.Client, Metadata: client, Informers: p.Informers, Source: source, Discover: p.discover,
	}
	if p.cluster == nil {
		cfg.Delay = namespaceDelay
	}
	namespace.New(cfg)
	return nil
}

// narrowing tells what of its caches a part is to have. Its argument gives them, once they are there.
type narrowing func(own func() informers.SharedInformerFactory) []fake.Selection

// narrowScheduler leaves out what has to do with attach limits where there are none.
func narrowScheduler(own func() informers.SharedInformerFactory) []fake.Selection {
	limits := func(obj fake.Object) bool { return obj != nil && scheduler.Limits(obj.(*storagev1.CSINode)) }
	counts := func(obj fake.Object) bool {
		return obj != nil && scheduler.Counts(own(), obj.(*storagev1.VolumeAttachment))
	}
	return []fake.Selection{
		{Resource: "csinodes", Concerns: func(was, is fake.Object) bool { return limits(was) || limits(is) }},
		{Resource: "volumeattachments", Concerns: func(was, is fake.Object) bool {
			return was == nil && counts(is) || is == nil && counts(was) // what stands in one does not matter
		}},
	}
}

func narrowNamespace(func() informers.SharedInformerFactory) []fake.Selection {
	return []fake.Selection{{
		Resource: "namespaces", Concerns: func(was, is fake.Object) bool { return namespace.Concerns(was, is) },
	}}
}

func narrowAccounts(own func() informers.SharedInformerFactory) []fake.Selection {
	return []fake.Selection{
		{
			Resource: "serviceaccounts", Fields: "metadata.name=" + serviceaccount.Name,
			Concerns: func(_, is fake.Object) bool { return is == nil },
		},
		{Resource: "namespaces", Concerns: func(_, is fake.Object) bool {
			return is != nil && serviceaccount.Lacks(own(), is.(*corev1.Namespace))
		}},
	}
}

func narrowRootCA(rootCA string) narrowing {
	return func(own func() informers.SharedInformerFactory) []fake.Selection {
		return []fake.Selection{
			{
				Resource: "configmaps", Fields: "metadata.name=" + rootca.Name,
				Concerns: func(_, is fake.Object) bool { return is == nil || !rootca.Holds(is.(*corev1.ConfigMap), rootCA) },
			},
			{Resource: "namespaces", Concerns: func(_, is fake.Object) bool {
				return is != nil && rootca.Lacks(own(), is.(*corev1.Namespace))
			}},
		}
	}
}

// addDisks gives all nodes their disks, and the PersistentVolume controller its machine: the first node, so that in a world
// of one node the directories it makes are there for pods. Without nodes it has one of its own.
func (c *Cluster) addDisks(cfg Config) error {
	if !cfg.wanted("kubelet") {
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

// addNode adds the driver on a node, and its kubelet.
func (c *Cluster) addNode(cfg Config, n *node) error {
	var err error
	if n.conn, err = c.connect(n.services(c.driver.name())); err != nil {
		return err
	}
	c.plugIn(n)
	if cfg.Enrolled {
		if err := c.enrol(n.name, n.conn); err != nil {
			return err
		}
	}
	return c.add(cfg, part{
		name: kubeletOf(n.name),
		narrow: func(func() informers.SharedInformerFactory) []fake.Selection {
			return []fake.Selection{
				{Resource: "pods", Fields: "spec.nodeName=" + n.name},
				{Resource: "nodes", Fields: "metadata.name=" + n.name},
				claimsOf(volumemanager.Resized),
			}
		},
		start: func(p Process) (err error) {
			n.kubelet, err = kubelet.New(kubelet.Config{
				Component: p.Component, Client: p.sharing(), Informers: p.Informers, Node: n.name, Root: n.root, FS: p.disk(n.fs), Exports: c.exports,
				BootID: fmt.Sprintf("%s-%d", n.name, n.boots), SyncFrequency: cfg.SyncFrequency, AttachesItself: cfg.KubeletsAttach,
				SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
				Sockets: &n.sockets, Dial: c.dialler(p, n),
			})
			return err
		},
	})
}
