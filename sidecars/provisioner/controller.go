package provisioner

import (
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sidecars/internal/driver"
	"github.com/volsim/volsim/sim"
)

// The defaults of Config.
//
// Upstream: external-provisioner --retry-interval-start, --retry-interval-max.
//
// Differs: upstream has 100 workers.
const (
	defaultBackoffMin = time.Second
	defaultBackoffMax = 5 * time.Minute
	defaultWorkers    = 4
)

// Config configures a Controller.
type Config struct {
	Process    *sim.Process
	Client     kubernetes.Interface
	Informers  informers.SharedInformerFactory
	Recorder   record.EventRecorder
	DriverName string
	Conn       grpc.ClientConnInterface // to the driver's controller service; each call leaves the process

	// Topology states that the driver has VOLUME_ACCESSIBILITY_CONSTRAINTS: requests state where
	// volumes must be accessible, and volumes state on which nodes they are.
	Topology bool
	// StrictTopology restricts a volume to the topology of the selected node: --strict-topology.
	StrictTopology bool

	// NodeDeployment makes the provisioner one of several, one on each node; nil: it is for all nodes.
	NodeDeployment *NodeDeployment

	// CapacityNamespace makes the provisioner publish the free capacity of the driver in CSIStorageCapacity
	// objects of this namespace, one for each StorageClass and topology segment: --enable-capacity. "": it
	// does not.
	CapacityNamespace  string
	CapacityOwner      *metav1.OwnerReference // the controller of the objects; nil: none
	CapacityPollPeriod time.Duration          // how often all capacities are refreshed; 0: 1 min
	CapacityImmediate  bool                   // also for classes with immediate binding: --capacity-for-immediate-binding

	// Snapshots states that the API server serves the kinds of snapshots. Volumes are then made from
	// snapshots as soon as these are ready, and unneeded finalizers are removed from them.
	Snapshots bool
	Dynamic   dynamic.Interface // a client for snapshots; nil: no volume is made from one
	// AllowVolumeModeConversion makes volumes of another mode than that of the snapshot's source without
	// a permission in the content: --prevent-volume-mode-conversion=false.
	AllowVolumeModeConversion bool
	// CrossNamespaceSources allows data sources in other namespaces, if ReferenceGrants there do, which the
	// API server must serve: the feature gate CrossNamespaceVolumeDataSource.
	CrossNamespaceSources bool
	// ExtraCreateMetadata passes the names of claim and volume to the driver: --extra-create-metadata.
	ExtraCreateMetadata bool

	BackoffMin time.Duration // delay after the first failure, doubled with each further one; 0: 1 s
	BackoffMax time.Duration // longest delay; 0: 5 min
	Workers    int           // number of claims, and of volumes, synced at once; 0: 4
}

// A Controller is the provisioner of one driver. Its state belongs to the tasks of its process.
type Controller struct {
	cfg         Config
	driver      *driver.Driver
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	classes     storagelisters.StorageClassLister
	attachments storagelisters.VolumeAttachmentLister
	topology    topology
	capacities  *capacities                                            // nil: not published
	snapshots   *snapshots                                             // nil: not served
	grants      *customresource.Cache[referenceGrant, *referenceGrant] // nil: no data sources in other namespaces

	node *contender // nil: it is for all nodes

	claimQueue  *sim.Queue[claimKey]
	volumeQueue *sim.Queue[string] // by name
	saveQueue   *sim.Queue[string] // names of unsaved volumes

	unplacedQueue *sim.Queue[claimKey] // delays of unplaced
	// unplaced holds the claims whose request to the driver cannot be built.
	unplaced map[types.UID]*unplaced

	// background holds the failed attempts that may have had, or may still get, their effect.
	background map[types.UID]*attempt
	// infeasible holds the claims that the driver reported as infeasible.
	infeasible map[types.UID]refusal
	// provisioned holds the claims whose volume exists, until the claim or the PersistentVolume is
	// seen to be deleted.
	provisioned map[types.UID]struct{}
	// unsaved holds, by name, provisioned volumes whose PersistentVolume may not be stored yet.
	unsaved map[string]*corev1.PersistentVolume
}

// A claimKey is a claim in the queue. It identifies one claim by UID, not any claim of that name.
type claimKey struct {
	namespace, name string
	uid             types.UID
}

// String returns namespace/name/uid.
func (k claimKey) String() string { return k.namespace + "/" + k.name + "/" + string(k.uid) }

func keyOf(claim *corev1.PersistentVolumeClaim) claimKey {
	return claimKey{claim.Namespace, claim.Name, claim.UID}
}

// New registers the provisioner's queues, workers and handlers with its process. They run when the
// host runs. It fails if a kind is not served that the Config needs.
//
// Upstream: sig-storage-lib-external-provisioner NewProvisionController (v13.0.0).
func New(cfg Config) (*Controller, error) {
	if cfg.BackoffMin == 0 {
		cfg.BackoffMin = defaultBackoffMin
	}
	if cfg.BackoffMax == 0 {
		cfg.BackoffMax = defaultBackoffMax
	}
	if cfg.Workers == 0 {
		cfg.Workers = defaultWorkers
	}
	core, storage := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1()
	c := &Controller{
		cfg:         cfg,
		driver:      driver.New(cfg.DriverName, cfg.Conn),
		claims:      core.PersistentVolumeClaims().Lister(),
		volumes:     core.PersistentVolumes().Lister(),
		classes:     storage.StorageClasses().Lister(),
		attachments: storage.VolumeAttachments().Lister(),
		claimQueue:  sim.NewQueue[claimKey](cfg.Process, cfg.queue("claims")),
		volumeQueue: sim.NewQueue[string](cfg.Process, cfg.queue("volumes")),
		saveQueue:   sim.NewQueue[string](cfg.Process, cfg.queue("unsaved")),
		unplaced:    map[types.UID]*unplaced{},
		background:  map[types.UID]*attempt{},
		infeasible:  map[types.UID]refusal{},
		provisioned: map[types.UID]struct{}{},
		unsaved:     map[string]*corev1.PersistentVolume{},
	}
	waiting := cfg.queue("unplaced")
	waiting.Background = true
	c.unplacedQueue = sim.NewQueue[claimKey](cfg.Process, waiting)
	c.unplacedQueue.Work(c.retryPlacement)
	if cfg.NodeDeployment != nil {
		c.deployOnNode(*cfg.NodeDeployment)
	}
	switch {
	case !cfg.Topology:
	case c.node != nil:
		c.topology = c.node.place(cfg.DriverName, cfg.StrictTopology)
	default:
		c.topology = topology{
			driver: cfg.DriverName, strict: cfg.StrictTopology,
			csiNodes: storage.CSINodes().Lister(), nodes: core.Nodes().Lister(),
		}
		eventhandler.Add(storage.CSINodes().Informer(), func(_, _ *storagev1.CSINode) { c.topologyChanged() }, nil)
		eventhandler.Add(core.Nodes().Informer(), func(_, _ *corev1.Node) { c.topologyChanged() }, nil)
	}
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), c.claimChanged, c.claimGone)
	eventhandler.Add(core.PersistentVolumes().Informer(), c.volumeChanged, c.volumeGone)
	eventhandler.Add(storage.StorageClasses().Informer(), c.classChanged, nil)
	eventhandler.Add(storage.VolumeAttachments().Informer(),
		func(_, _ *storagev1.VolumeAttachment) {}, c.attachmentGone)
	for range cfg.Workers {
		c.claimQueue.Work(c.syncClaim)
		c.volumeQueue.Work(c.syncVolume)
	}
	c.saveQueue.Work(c.syncUnsaved)
	if cfg.CapacityNamespace != "" {
		c.publishCapacity()
	}
	if cfg.Snapshots {
		if err := c.watchSnapshots(); err != nil {
			return nil, err
		}
	}
	if cfg.CrossNamespaceSources {
		if err := c.watchGrants(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (cfg Config) queue(name string) sim.QueueConfig {
	return sim.QueueConfig{Name: name, BackoffMin: cfg.BackoffMin, BackoffMax: cfg.BackoffMax}
}

func (c *Controller) claimChanged(_, claim *corev1.PersistentVolumeClaim) {
	if provisionerOf(claim) == c.cfg.DriverName || isHeldForClones(claim) {
		c.claimQueue.Add(keyOf(claim))
	}
	c.requeueSource(claim)
	c.requeueClones(claim)
}

func (c *Controller) claimGone(claim *corev1.PersistentVolumeClaim) {
	delete(c.unplaced, claim.UID)
	delete(c.infeasible, claim.UID)
	delete(c.provisioned, claim.UID)
	c.requeueSource(claim)
}

func (c *Controller) volumeGone(volume *corev1.PersistentVolume) {
	if ref := volume.Spec.ClaimRef; ref != nil && volume.Name == volumeName(ref.UID) {
		delete(c.provisioned, ref.UID)
	}
}

func (c *Controller) volumeChanged(_, volume *corev1.PersistentVolume) {
	if owns(c.cfg.DriverName, volume) {
		c.volumeQueue.Add(volume.Name)
	}
}

// attachmentGone queues a volume whose deletion may wait for the attachment.
func (c *Controller) attachmentGone(attachment *storagev1.VolumeAttachment) {
	if name := attachment.Spec.Source.PersistentVolumeName; name != nil {
		c.volumeQueue.Add(*name)
	}
}
