package kubelet

import (
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/volumemanager"
)

// Config is what New must be told.
type Config struct {
	Process *sim.Process
	Client  kubernetes.Interface // what it answers may be shared with others: nothing of it is changed
	// Informers are those whose pods are the node's, and whose only node is it; of claims, changes of which Resized of package
	// volumemanager is true are enough.
	Informers informers.SharedInformerFactory
	Node      string                // the node's name
	Root      string                // of the kubelet, on the node's disk
	FS        nodefs.FS             // the node's disk
	BootID    string                // differs each time the node boots
	Exports   nodefs.FS             // what NFS servers export: PATH of SERVER is the directory /SERVER/PATH
	Sockets   pluginmanager.Sockets // of the node; drivers announce themselves in plugins_registry below Root
	// Dial reaches a driver that has announced itself. The connection's calls leave the component.
	Dial func(driver, endpoint string) (grpc.ClientConnInterface, error)

	// SelfAttach lets the kubelet attach and detach volumes, and not the attach/detach controller.
	SelfAttach bool
	// SELinux says that the node has SELinux: volumes of one pod alone are mounted with the label of its processes, where their
	// driver can do so, or with SELinuxMount, upstream's feature gate of that name, all volumes.
	SELinux, SELinuxMount bool
	// SyncFrequency is how often volumes are set up again whose CSIDriver says requiresRepublish. 0: each minute.
	SyncFrequency time.Duration
}

// Kubelet is what a node does. Its methods are for the strands of its component.
type Kubelet struct {
	cfg            Config
	csi            *csi.Plugin
	volumes        *volumemanager.Manager
	pods           *sim.Queue[types.UID]
	status         *sim.Queue[string] // one key: the node's name
	plugins        *pluginmanager.Manager
	known          map[types.UID]*corev1.Pod // the pods of this node, as last seen
	begun          bool                      // the volume manager was told of all pods that were seen
	start          *sim.Queue[string]        // see syncStart
	driversAllowed bool                      // the node has its CSINode, and drivers may register

	lifecycles        map[types.UID]lifecycle // what this kubelet has said of containers
	waits             *podWaits
	added             map[types.UID]*corev1.Pod // as the volume manager was told of them last
	remounts          *sim.Queue[types.UID]     // see again.go
	remountsScheduled map[types.UID]struct{}    // those that will be looked at again
	orphans           *sim.Queue[types.UID]     // pods to be looked at again

	preparations   map[types.UID]*preparation // of containers; see containers.go
	prepareRetries *sim.Queue[types.UID]

	recorder record.EventRecorder
	rejected map[types.UID]*rejection
	limits   *sim.Queue[string]       // drivers to be asked
	periods  map[string]time.Duration // how often, as known
}

// New makes the kubelet of a node, with its workers. The error says that a plugin cannot be had.
func New(cfg Config) (*Kubelet, error) {
	k := &Kubelet{
		cfg: cfg, known: map[types.UID]*corev1.Pod{}, rejected: map[types.UID]*rejection{}, lifecycles: map[types.UID]lifecycle{},
		added: map[types.UID]*corev1.Pod{}, remountsScheduled: map[types.UID]struct{}{}, periods: map[string]time.Duration{},
		preparations: map[types.UID]*preparation{},
	}
	k.csi = csi.New(k.csiConfig())
	var manager plugins.Manager
	if err := manager.Register(k.csi); err != nil {
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
		Process: cfg.Process, Client: cfg.Client, NodeName: types.NodeName(cfg.Node), Plugins: &manager,
		Recorder: k.recorder, WaitFailed: k.waitFailed, Root: cfg.Root, FS: cfg.FS, SelfAttach: cfg.SelfAttach,
		SELinux: cfg.SELinux, SELinuxMount: cfg.SELinuxMount,
		PodChanged:    k.pods.Add,
		ReportChanged: func() { k.status.Add(cfg.Node) },
	})
	core := cfg.Informers.Core().V1()
	eventhandler.Add(core.Pods().Informer(), func(_, pod *corev1.Pod) { k.podSeen(pod) }, k.podGone)
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), func(was, is *corev1.PersistentVolumeClaim) {
		if volumemanager.IsNodeResize(was, is) {
			k.volumes.ClaimResized(is)
		}
	}, nil)
	eventhandler.Add(core.Nodes().Informer(), func(_, node *corev1.Node) { k.volumes.NodeUpdated(node) }, nil)
	k.watchLimits()
	k.watchRemounts()
	k.watchOrphans()
	k.watchPreparations()
	k.status.Add(cfg.Node)
	return k, nil
}

// MountPath is where the volume of a CSI driver is mounted for a pod, if it is. It may be called from anywhere.
func (k *Kubelet) MountPath(volume string, pod types.UID) string { return k.csi.MountPath(volume, pod) }

// DevicePath is the link to the device of a CSI driver's volume that a pod has, if it has. It may be called from anywhere.
func (k *Kubelet) DevicePath(volume string, pod types.UID) string {
	return filepath.Join(k.csi.PodDeviceMapPath(volume, pod))
}

// csiConfig is what the CSI plugin is told. Who attaches follows VolumeAttachments.
//
// Differs: upstream's kubelet asks for its VolumeAttachment again and again.
func (k *Kubelet) csiConfig() csi.Config {
	cfg := csi.Config{
		Process: k.cfg.Process, Client: k.cfg.Client,
		CSIDrivers: k.cfg.Informers.Storage().V1().CSIDrivers(),
		NodeName:   types.NodeName(k.cfg.Node), Root: k.cfg.Root, FS: k.cfg.FS, Dial: k.cfg.Dial,
	}
	if k.cfg.SelfAttach {
		cfg.Attachments = k.cfg.Informers.Storage().V1().VolumeAttachments()
		cfg.PersistentVolumes = k.cfg.Informers.Core().V1().PersistentVolumes()
	}
	return cfg
}
