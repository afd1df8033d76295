package pvcontroller

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// resyncPeriod is the default of Config.ResyncPeriod.
//
// Upstream: cmd/kube-controller-manager --pvclaimbinder-sync-period (v1.36).
const resyncPeriod = 15 * time.Second

// Config configures a Controller.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // with EventSource as its component

	ResyncPeriod   time.Duration     // 0: 15 s
	Plugins        *plugins.Manager  // provision, delete and recycle volumes; nil: none
	Migration      plugins.Migration // nil: plugins.Migrated()
	NoProvisioning bool              // disables provisioning, internal and external
}

// A Controller is the PersistentVolume controller. Its process's tasks run it; it has no methods
// for callers.
//
// Upstream: pkg/controller/volume/persistentvolume PersistentVolumeController (v1.36).
type Controller struct {
	cfg    Config
	memory memory

	claimLister  corelisters.PersistentVolumeClaimLister
	volumeLister corelisters.PersistentVolumeLister
	classLister  storagelisters.StorageClassLister
	claimIndexer cache.Indexer
	classIndexer cache.Indexer
	pods         cache.Indexer

	claimQueue  *sim.Queue[string] // "namespace/name"
	volumeQueue *sim.Queue[string] // name
	resyncTimer *sim.Timer

	claims          *claimCache
	volumes         *volumeCache
	filled          bool                 // the caches were filled from the listers
	goneClaims      map[string]types.UID // volume name: UID in its claimRef that the API server does not have
	offeredVersions map[string]string    // volume name: resourceVersion last offered to claims
	offers          keys                 // claim key: free volumes offered to it; see offerFree
	sent            sentEvents

	plugins          *plugins.Manager
	migration        plugins.Migration
	operations       *operations            // nil without plugins
	unsaved          map[types.UID]*unsaved // by their claims
	uncertain        map[types.UID]*unsaved // by their claims, which exist
	saveTimer        *sim.Timer
	dataDeleted      map[types.UID]bool             // volumes whose data a plugin has deleted
	recyclerMessages map[types.UID]map[message]bool // messages of recyclers about volumes that are not recycled yet
}

// New registers the controller's handlers, workers and timers. It must be called before the host
// starts, from one goroutine.
func New(cfg Config) *Controller {
	if cfg.ResyncPeriod == 0 {
		cfg.ResyncPeriod = resyncPeriod
	}
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	volumes := cfg.Informers.Core().V1().PersistentVolumes()
	classes := cfg.Informers.Storage().V1().StorageClasses()
	pods := cfg.Informers.Core().V1().Pods()
	m := memory{cfg.Process}
	c := &Controller{
		cfg:             cfg,
		memory:          m,
		claimLister:     claims.Lister(),
		volumeLister:    volumes.Lister(),
		classLister:     classes.Lister(),
		claimIndexer:    claims.Informer().GetIndexer(),
		classIndexer:    classes.Informer().GetIndexer(),
		pods:            pods.Informer().GetIndexer(),
		claimQueue:      sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "claims", Memory: "claim worker"}),
		volumeQueue:     sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "volumes", Memory: "volume worker"}),
		claims:          newClaimCache(m),
		volumes:         newVolumeCache(m),
		goneClaims:      map[string]types.UID{},
		offeredVersions: map[string]string{},
		offers:          keys{},
		sent:            sentEvents{},
		plugins:         &plugins.Manager{},
		migration:       cfg.Migration,
	}
	if c.migration == nil {
		c.migration = plugins.Migrated()
	}
	if cfg.Plugins != nil {
		c.plugins = cfg.Plugins
		c.operations = newOperations(cfg.Process, c.recordPanic)
		c.unsaved, c.uncertain = map[types.UID]*unsaved{}, map[types.UID]*unsaved{}
		c.saveTimer = cfg.Process.NewTimer("save", c.startDueSaves)
		c.dataDeleted, c.recyclerMessages = map[types.UID]bool{}, map[types.UID]map[message]bool{}
	}
	cfg.Process.HandlersEnqueue()
	cfg.Process.Remembers(c.writeState)
	c.listen(claims.Informer(), func(obj any) { c.claimQueue.Add(keyOfAny(obj)) })
	c.listen(volumes.Informer(), func(obj any) { c.volumeQueue.Add(keyOfAny(obj)) })
	c.listen(classes.Informer(), func(obj any) { c.classChanged(fromTombstone[*storagev1.StorageClass](obj)) })
	c.listen(pods.Informer(), func(obj any) { c.podChanged(fromTombstone[*corev1.Pod](obj)) })
	podclaims.AddIndex(c.pods)

	c.volumeQueue.Work(c.syncVolumeKey)
	c.claimQueue.Work(c.syncClaimKey)
	c.resyncTimer = cfg.Process.NewBackgroundTimer("resync", c.resync)
	c.resyncTimer.Reset(cfg.ResyncPeriod)
	return c
}

// listen calls handle for each add, update and delete, and holds the workers until the informer has
// synced.
func (c *Controller) listen(informer cache.SharedIndexInformer, handle func(obj any)) {
	if _, err := informer.AddEventHandler(handler(handle)); err != nil {
		panic("pvcontroller: informer stopped before it was started: " + err.Error())
	}
	c.cfg.Process.GateWorkers(informer.HasSynced)
}

// A handler is called with the object of each event.
type handler func(obj any)

func (h handler) OnAdd(obj any, _ bool) { h(obj) }
func (h handler) OnUpdate(_, obj any)   { h(obj) }
func (h handler) OnDelete(obj any)      { h(obj) }

// syncClaimKey syncs one claim: it updates the cache from the informer, decides, and applies the
// decision. The error of a failed write requeues the key.
//
// Upstream: pkg/controller/volume/persistentvolume syncClaimByKey, updateClaim, deleteClaim
// (v1.36).
func (c *Controller) syncClaimKey(ctx context.Context, key string) error {
	c.fill()
	known := c.claims.get(key)
	claim := listed[*corev1.PersistentVolumeClaim](c.claimIndexer, key)
	if known != nil && (claim == nil || claim.UID != known.UID) {
		c.forgetClaim(known)
	}
	if claim == nil {
		return nil
	}
	fresh, err := c.claims.put(claim)
	if err != nil || fresh == older {
		return err // the informer will deliver the newer version
	}
	if fresh == newer {
		c.claimChanged(claim)
	}
	if err := c.syncClaim(ctx, claim); err != nil {
		return err
	}
	c.markIdle(claim)
	return nil
}

// listed returns the object of a key in a cache; the zero value if there is none. Unlike a lister it
// makes no error.
func listed[T any](indexer cache.Indexer, key string) T {
	object, _, _ := indexer.GetByKey(key) // an indexer returns no error
	found, _ := object.(T)
	return found
}

// syncVolumeKey syncs one volume in the same way as syncClaimKey.
//
// Upstream: pkg/controller/volume/persistentvolume syncVolumeByKey, updateVolume, deleteVolume
// (v1.36).
func (c *Controller) syncVolumeKey(ctx context.Context, name string) error {
	c.fill()
	known := c.volumes.get(name)
	volume, err := c.volumeLister.Get(name)
	if known != nil && (err != nil || volume.UID != known.UID) {
		c.forgetVolume(known)
	}
	if err != nil {
		return nil // a lister's only error is NotFound
	}
	fresh, err := c.volumes.put(volume)
	if err != nil || fresh == older {
		return err // the informer will deliver the newer version
	}
	if err := c.syncVolume(ctx, volume); err != nil {
		return err
	}
	c.offer(name)
	return nil
}

// fill copies the informers' objects before the first key is synced. Otherwise a claim could look
// lost because its volume's key was not synced yet.
//
// Upstream: pkg/controller/volume/persistentvolume initializeCaches (v1.36).
func (c *Controller) fill() {
	c.memory.readRest()
	if c.filled {
		return
	}
	c.filled = true
	c.memory.writeRest()
	for _, volume := range sortedList(c.volumeLister.List) {
		if _, err := c.volumes.put(volume); err != nil {
			panic("pvcontroller: fill: " + err.Error())
		}
	}
	for _, claim := range sortedList(c.claimLister.List) {
		if _, err := c.claims.put(claim); err != nil {
			panic("pvcontroller: fill: " + err.Error())
		}
	}
}

// resync queues all claims, then all volumes.
//
// Upstream: pkg/controller/volume/persistentvolume resync (v1.36).
func (c *Controller) resync() {
	for _, claim := range sortedList(c.claimLister.List) {
		c.claimQueue.Add(c.claims.key(claim))
	}
	for _, volume := range sortedList(c.volumeLister.List) {
		c.volumeQueue.Add(volume.Name)
	}
	c.resyncTimer.Reset(c.cfg.ResyncPeriod)
}
