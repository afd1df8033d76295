package kubelet

import (
	"net/netip"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/kubelet/container"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/prober"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/volumemanager"
)

// A Config configures a Kubelet.
type Config struct {
	Process *sim.Process
	Client  kubernetes.Interface // its objects may be shared: the kubelet does not modify them
	// Informers must have the node's pods, and the node as their only node. Of claims, they need
	// only those changes for which volumemanager.IsNodeResize returns true.
	Informers informers.SharedInformerFactory
	Node      string                // name of the node
	Root      string                // the kubelet's directory on FS
	FS        nodefs.FS             // the node's disk
	BootID    string                // changes with each boot of the node
	NFS       *nfs.Servers          // the simulated NFS servers; nil: the kernel mounts from real ones
	Sockets   pluginmanager.Sockets // of the node; drivers register in plugins_registry below Root
	Plugins   []plugins.Plugin      // further kinds of volume; no name may be that of one of the kubelet's own
	// Containers runs the containers of the node's pods; nil: none run, and annotations say when they exit.
	// It outlives the kubelet.
	Containers container.Runtime
	// Address is that of the node, and PodNetwork has those of its pods; zero values: there are none. Nothing
	// answers at any of them, since containers have no network.
	Address    netip.Addr
	PodNetwork netip.Prefix
	// Dial connects to a registered driver. Calls of the connection must be suspension points.
	Dial func(driver, endpoint string) (grpc.ClientConnInterface, error)

	// SelfAttach makes the kubelet attach and detach volumes instead of the attach/detach
	// controller.
	SelfAttach bool
	// SELinux enables SELinux mount labels: ReadWriteOncePod volumes are mounted with the label of
	// the pod's processes if their driver supports it. SELinuxMount, upstream's feature gate of
	// that name, extends this to all volumes.
	SELinux, SELinuxMount bool
	// SyncFrequency is how often volumes are set up again whose CSIDriver has requiresRepublish. 0
	// means every minute.
	SyncFrequency time.Duration
	// NodeLease makes the kubelet create and renew the node's Lease in the namespace
	// kube-node-lease.
	NodeLease bool
	// StatsPeriod is how often the pods' volumes are measured in the background. Summary then returns
	// the last result. 0 means never: Summary measures them.
	StatsPeriod time.Duration
	// VolumeHealth makes the kubelet ask CSI drivers about the health of the volumes that it measures,
	// as upstream's feature gate CSIVolumeHealth does.
	VolumeHealth bool
}

// A Kubelet is the kubelet of one node. Its methods must be called from tasks of its process.
type Kubelet struct {
	cfg            Config
	kinds          plugins.Manager // of volumes
	csi            *csi.Plugin
	flexDrivers    *prober.Directory // nil: none are looked for
	volumes        *volumemanager.Manager
	pods           *sim.Queue[types.UID]
	status         *sim.Queue[string] // one key: the node's name
	plugins        *pluginmanager.Manager
	nodes          corelisters.NodeLister
	known          map[types.UID]*corev1.Pod // the pods of this node, as last seen
	begun          bool                      // the volume manager has all pods seen at the start
	start          *sim.Queue[string]        // see syncStart
	driversAllowed bool                      // the node has its CSINode, and drivers may register

	lifecycles        map[types.UID]lifecycle // lifecycle last reported, by pod
	reports           map[types.UID]string    // resourceVersion of the last report, by pod
	waits             *podWaits
	added             map[types.UID]*corev1.Pod // as last passed to the volume manager
	remounts          *sim.Queue[types.UID]     // see remount.go
	remountsScheduled map[types.UID]struct{}    // the pods in remounts
	orphans           *sim.Queue[types.UID]     // pods whose directory could not be removed

	// nil without Config.Containers
	probes     map[probeKey]*probe // see probes.go
	probeTimes *sim.Queue[probeKey]
	stopping   map[container.Run]bool       // runs that were asked to end
	waiting    map[container.Run]bool       // those of them that were not stopped yet: for their hook or their turn
	postStarts map[container.Run]*postStart // see poststart.go
	inputs     map[container.Run]*container.Input

	preparations   map[types.UID]*preparation // see containers.go
	ephemerals     map[types.UID]*preparation // of ephemeral containers; nil: none were
	addresses      map[types.UID]netip.Addr   // of pods, as assigned by this kubelet; nil without Config.PodNetwork
	prepareRetries *sim.Queue[types.UID]

	leaseBegun bool                  // the queue has its key
	leases     *sim.Queue[string]    // one key: the node's name. nil: see Config.NodeLease
	lease      *coordinationv1.Lease // as last written; nil: unknown

	usage *periodicUsage // nil: volumes are measured on request; see Config.StatsPeriod

	recorder record.EventRecorder
	rejected map[types.UID]*rejection
	limits   *sim.Queue[string]       // drivers whose limit is refreshed periodically
	periods  map[string]time.Duration // period of the limit refresh, by driver
}

// New returns the kubelet of a node and registers its workers. It fails if a plugin is not
// available.
func New(cfg Config) (*Kubelet, error) {
	k := &Kubelet{
		cfg: cfg, known: map[types.UID]*corev1.Pod{}, rejected: map[types.UID]*rejection{}, lifecycles: map[types.UID]lifecycle{},
		added: map[types.UID]*corev1.Pod{}, remountsScheduled: map[types.UID]struct{}{}, periods: map[string]time.Duration{},
		preparations: map[types.UID]*preparation{}, reports: map[types.UID]string{},
	}
	if cfg.PodNetwork.IsValid() {
		k.addresses = map[types.UID]netip.Addr{}
	}
	k.csi = csi.New(k.csiConfig())
	if err := k.kinds.Register(k.volumeKinds()...); err != nil {
		return nil, err
	}
	k.start = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "start"})
	k.start.Work(k.syncStart)
	k.status = sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "node status"})
	k.status.Work(k.syncNode)
	k.plugins = k.newPlugins()
	k.pods = sim.NewQueue[types.UID](cfg.Process, sim.QueueConfig{Name: "pods"})
	k.pods.Work(k.syncPod)
	k.waits = newPodWaits(cfg.Process, k.pods.Add)
	k.recorder = events.New(events.Config{Process: cfg.Process, Client: cfg.Client, Source: "kubelet", Host: cfg.Node})
	k.volumes = volumemanager.New(volumemanager.Config{
		Process: cfg.Process, Client: cfg.Client, NodeName: types.NodeName(cfg.Node), Plugins: &k.kinds,
		Recorder: k.recorder, WaitFailed: k.waitFailed, Root: cfg.Root, FS: cfg.FS, SelfAttach: cfg.SelfAttach,
		SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
		Awaits:        k.awaitsPlugin,
		PodChanged:    k.pods.Add,
		ReportChanged: func() { k.status.Add(cfg.Node) },
	})
	k.findFlexDrivers()
	core := cfg.Informers.Core().V1()
	eventhandler.Add(core.Pods().Informer(), func(_, pod *corev1.Pod) { k.podSeen(pod) }, k.podGone)
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), func(was, is *corev1.PersistentVolumeClaim) {
		if volumemanager.IsNodeResize(was, is) {
			k.volumes.ClaimResized(is)
		}
	}, nil)
	eventhandler.Add(core.Nodes().Informer(), func(_, node *corev1.Node) {
		k.volumes.NodeUpdated(node)
		if k.reportsReady(node) {
			k.status.Add(node.Name)
		}
	}, nil)
	k.nodes = core.Nodes().Lister()
	k.watchLimits()
	k.watchUsage()
	k.watchRemounts()
	k.watchOrphans()
	k.watchPreparations()
	k.watchRuns()
	k.watchLease()
	k.status.Add(cfg.Node)
	return k, nil
}

// MountPath returns where a volume would be for a pod. It fails if no plugin supports the volume. It
// is safe for concurrent use.
func (k *Kubelet) MountPath(volume *plugins.Spec, pod types.UID) (string, error) {
	kind, err := k.kinds.FindBySpec(volume)
	if err != nil {
		return "", err
	}
	if kind.Mounter == nil {
		return "", plugins.ErrUnsupported
	}
	return kind.Mounter.MountPath(volume, pod), nil
}

// DevicePath returns where the link to the device of a volume would be for a pod. It fails if no
// plugin supports the volume. It is safe for concurrent use.
func (k *Kubelet) DevicePath(volume *plugins.Spec, pod types.UID) (string, error) {
	kind, err := k.kinds.FindBySpec(volume)
	if err != nil {
		return "", err
	}
	if kind.BlockPaths == nil {
		return "", plugins.ErrUnsupported
	}
	return filepath.Join(kind.BlockPaths.PodDeviceMapPath(volume.Name(), pod)), nil
}

// csiConfig returns the configuration of the CSI plugin. A kubelet that attaches volumes itself
// watches VolumeAttachments.
//
// Differs: upstream's kubelet polls its VolumeAttachment.
func (k *Kubelet) csiConfig() csi.Config {
	cfg := csi.Config{
		Process: k.cfg.Process, Client: k.cfg.Client,
		CSIDrivers: k.cfg.Informers.Storage().V1().CSIDrivers(),
		NodeName:   types.NodeName(k.cfg.Node), Root: k.cfg.Root, FS: k.cfg.FS, Dial: k.cfg.Dial,
		VolumeHealth: k.cfg.VolumeHealth,
	}
	if k.cfg.SelfAttach {
		cfg.Attachments = k.cfg.Informers.Storage().V1().VolumeAttachments()
		cfg.PersistentVolumes = k.cfg.Informers.Core().V1().PersistentVolumes()
	}
	return cfg
}
