package localprovisioner

import (
	"context"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/sim"
)

// period is how often a node is looked at.
//
// Upstream: pkg/controller StartLocalController.
const period = 10 * time.Second

// A Class is a StorageClass and the directory on the node with its disks. The StorageClass must
// exist; its provisioner is usually kubernetes.io/no-provisioner.
//
// Upstream: pkg/common MountConfig.
type Class struct {
	Name string
	Dir  string
	// VolumeMode is that of the volumes; "" means Filesystem. A mount point cannot be a Block
	// volume. A device can be either.
	VolumeMode corev1.PersistentVolumeMode
	// FSType is the file system for devices; "" means that of the kubelet.
	FSType string
	// NamePattern selects the names in the directory, as path.Match does; "" means all.
	NamePattern string
}

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Node      string           // the name of the node
	Machine   hostpath.Machine // its disk
	Classes   []Class

	// Labels are set on the volumes. NodeLabels are the labels of the node that are copied to them.
	Labels     map[string]string
	NodeLabels []string
	// NodeOwns makes the node the owner of its volumes.
	NodeOwns bool
	// NodeNameOnly leaves the UID of the node out of the provisioner's name, so that a node that is
	// created again keeps its volumes.
	NodeNameOnly bool
}

// Controller is the provisioner of one node.
type Controller struct {
	cfg     Config
	nodes   corelisters.NodeLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	queue   *sim.Queue[string] // one key: the node's name
	timer   *sim.Timer
	changed atomic.Bool            // see Notify
	cleaned map[types.UID]struct{} // volumes that were cleaned, and are being deleted
	told    map[types.UID]string   // the last event of each volume
}

// New returns the provisioner of a node. It adds a queue with one worker to the process, and
// registers with the informers. It must be called before the host starts.
func New(cfg Config) *Controller {
	core, classes := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1().StorageClasses()
	c := &Controller{
		cfg: cfg, nodes: core.Nodes().Lister(), volumes: core.PersistentVolumes().Lister(), classes: classes.Lister(),
		queue:   sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "disks", Background: true}),
		cleaned: map[types.UID]struct{}{}, told: map[types.UID]string{},
	}
	add := func() { c.queue.Add(cfg.Node) }
	eventhandler.Add(core.Nodes().Informer(), func(old, node *corev1.Node) {
		if node.Name == cfg.Node && (old == nil || old.UID != node.UID) {
			add()
		}
	}, nil)
	eventhandler.Add(classes.Informer(), func(_, class *storagev1.StorageClass) {
		if slices.ContainsFunc(cfg.Classes, func(own Class) bool { return own.Name == class.Name }) {
			add()
		}
	}, nil)
	eventhandler.Add(core.PersistentVolumes().Informer(), func(old, volume *corev1.PersistentVolume) {
		if c.isOwn(volume) && volume.Status.Phase == corev1.VolumeReleased &&
			(old == nil || old.Status.Phase != corev1.VolumeReleased) {
			add()
		}
	}, func(volume *corev1.PersistentVolume) {
		delete(c.cleaned, volume.UID)
		delete(c.told, volume.UID)
		if c.isOwn(volume) {
			add()
		}
	})
	for _, informer := range []interface{ HasSynced() bool }{
		core.Nodes().Informer(), classes.Informer(), core.PersistentVolumes().Informer(),
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.timer = cfg.Process.NewBackgroundTimer("disks period", add)
	c.queue.Work(c.sync)
	cfg.Process.Delivery("disks changed", c.changed.Load, func() {
		c.changed.Store(false)
		add()
	})
	return c
}

// Notify reports that the disks of the node may have changed. It may be called from any goroutine,
// at any time, and does not block.
func (c *Controller) Notify() {
	c.changed.Store(true)
	c.cfg.Process.Wake()
}

// sync reclaims the released volumes of the node, and creates those of new disks.
//
// Upstream: pkg/controller StartLocalController.
func (c *Controller) sync(ctx context.Context, name string) error {
	c.timer.Reset(period)
	node, err := c.nodes.Get(name)
	if err != nil {
		return nil //nolint:nilerr // the kubelet has not registered it
	}
	for _, volume := range c.own(node) {
		c.reclaim(ctx, volume)
	}
	for _, class := range c.cfg.Classes {
		if err := c.discover(ctx, node, class); err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "disks not discovered", "node", name, "class", class.Name)
		}
	}
	return nil
}

// provisionerName returns the name of the provisioner of a node.
func (c *Controller) provisionerName(node *corev1.Node) string {
	name := "local-volume-provisioner-" + node.Name
	if !c.cfg.NodeNameOnly {
		name += "-" + string(node.UID)
	}
	return name
}

// isOwn reports whether a volume is one of the node's.
func (c *Controller) isOwn(volume *corev1.PersistentVolume) bool {
	node, err := c.nodes.Get(c.cfg.Node)
	return err == nil && volume.Annotations[provisionedBy] == c.provisionerName(node)
}

// own returns the volumes of the node, by name.
func (c *Controller) own(node *corev1.Node) []*corev1.PersistentVolume {
	all, err := c.volumes.List(labels.Everything())
	if err != nil {
		panic("localprovisioner: list volumes: " + err.Error())
	}
	own := slices.DeleteFunc(all, func(v *corev1.PersistentVolume) bool {
		return v.Annotations[provisionedBy] != c.provisionerName(node)
	})
	slices.SortFunc(own, func(a, b *corev1.PersistentVolume) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return own
}

// modeAt returns whether there is a directory or a block device at a path.
//
// Upstream: pkg/common GetVolumeMode.
func (c *Controller) modeAt(name string) (corev1.PersistentVolumeMode, error) {
	info, err := c.cfg.Machine.Stat(name)
	switch {
	case err != nil:
		return "", err
	case info.Mode.IsDir():
		return corev1.PersistentVolumeFilesystem, nil
	case info.Device != "" && info.Mode.Type() == deviceType:
		return corev1.PersistentVolumeBlock, nil
	default:
		return "", fmt.Errorf("%s is neither a directory nor a block device", path.Base(name))
	}
}
