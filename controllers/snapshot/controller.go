package snapshot

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/sim"
)

// EventSource is the source of the controller's events.
const EventSource = "snapshot-controller"

// The delay after the first failure, which doubles with each further one, and the longest delay.
//
// Upstream: snapshot-controller --retry-interval-start, --retry-interval-max.
const (
	backoffMin = time.Second
	backoffMax = 5 * time.Minute
)

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface // for snapshots, contents and classes
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
}

// controller is the snapshot controller. Its state belongs to the tasks of its process.
//
// Upstream: external-snapshotter pkg/common-controller csiSnapshotCommonController (8.7.0).
type controller struct {
	cfg Config

	snapshots customresource.Cache[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot]
	contents  customresource.Cache[snapshotapi.VolumeSnapshotContent, *snapshotapi.VolumeSnapshotContent]
	classes   customresource.Cache[snapshotapi.VolumeSnapshotClass, *snapshotapi.VolumeSnapshotClass]
	claims    corelisters.PersistentVolumeClaimLister

	snapshotClient customresource.Client[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot]
	contentClient  customresource.Client[snapshotapi.VolumeSnapshotContent, *snapshotapi.VolumeSnapshotContent]

	snapshotQueue *sim.Queue[types.NamespacedName]
	contentQueue  *sim.Queue[string] // by name

	waits       waits[*snapshotapi.VolumeSnapshot]
	ownSnapshot versions // of the writes of this process, by namespace/name
	ownContent  versions // … by name
	ownClaim    versions // … by namespace/name

	groups *groups // nil: their kinds are not served
}

// New adds the controller to its process. It registers with the informers, and adds its queues with one
// worker each to the process. It must be called before the host starts. The kinds of snapshots must be
// served; see snapshotapi.Definitions.
//
// Differs: upstream has 10 workers for each queue.
//
// Upstream: external-snapshotter pkg/common-controller NewCSISnapshotCommonController (8.7.0).
func New(cfg Config) error {
	snapshots, snapshotInformer, err := snapshotapi.Snapshots.Cache(cfg.Informers)
	if err != nil {
		return err
	}
	contents, contentInformer, err := snapshotapi.Contents.Cache(cfg.Informers)
	if err != nil {
		return err
	}
	classes, classInformer, err := snapshotapi.Classes.Cache(cfg.Informers)
	if err != nil {
		return err
	}
	claims := cfg.Informers.Core().V1().PersistentVolumeClaims()
	queue := func(name string) sim.QueueConfig {
		return sim.QueueConfig{Name: name, BackoffMin: backoffMin, BackoffMax: backoffMax}
	}
	c := &controller{
		cfg: cfg, snapshots: snapshots, contents: contents, classes: classes, claims: claims.Lister(),
		snapshotClient: snapshotapi.Snapshots.Client(cfg.Dynamic),
		contentClient:  snapshotapi.Contents.Client(cfg.Dynamic),
		snapshotQueue:  sim.NewQueue[types.NamespacedName](cfg.Process, queue("snapshots")),
		contentQueue:   sim.NewQueue[string](cfg.Process, queue("contents")),
		ownSnapshot:    versions{}, ownContent: versions{}, ownClaim: versions{},
	}
	c.waits = newWaits[*snapshotapi.VolumeSnapshot](cfg.Process, c.snapshotQueue, "waiting")
	c.handle(snapshotInformer, contentInformer, classInformer, claims.Informer())
	c.snapshotQueue.Work(c.syncSnapshotKey)
	c.contentQueue.Work(c.syncContentKey)
	c.addGroups(queue)
	return nil
}

// handle registers the handlers of the caches.
func (c *controller) handle(snapshots, contents, classes, claims cache.SharedIndexInformer) {
	eventhandler.Add(snapshots, func(_, snapshot *unstructured.Unstructured) {
		c.snapshotQueue.Add(keyOf(snapshot))
	}, c.snapshotGone)
	eventhandler.Add(contents, func(_, content *unstructured.Unstructured) {
		c.contentQueue.Add(content.GetName())
		c.waits.requeue(func(s *snapshotapi.VolumeSnapshot) bool { return wantsContent(s, content.GetName()) })
	}, c.contentGone)
	eventhandler.Add(classes, func(_, _ *unstructured.Unstructured) {
		c.waits.requeue(func(*snapshotapi.VolumeSnapshot) bool { return true })
	}, nil)
	requeue := func(claim *corev1.PersistentVolumeClaim) {
		if c.groups != nil {
			c.groups.groupWaits.requeue(func(g *snapshotapi.VolumeGroupSnapshot) bool { return g.Namespace == claim.Namespace })
		}
		c.waits.requeue(func(s *snapshotapi.VolumeSnapshot) bool { return concerns(s, claim) })
	}
	eventhandler.Add(claims, func(old, claim *corev1.PersistentVolumeClaim) {
		requeue(claim)
		if isHeldAgain(old, claim) {
			c.queueToRelease(claim)
		}
	},
		func(claim *corev1.PersistentVolumeClaim) {
			c.ownClaim.forget(claim)
			requeue(claim)
		})
	for _, informer := range []cache.SharedIndexInformer{snapshots, contents, classes, claims} {
		c.cfg.Process.GateWorkers(informer.HasSynced)
	}
}

func keyOf(obj metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// snapshotGone queues the content of a snapshot that does not exist any more.
//
// Upstream: external-snapshotter pkg/common-controller deleteSnapshot (8.7.0).
func (c *controller) snapshotGone(obj *unstructured.Unstructured) {
	c.ownSnapshot.forget(obj)
	c.waits.end(keyOf(obj))
	if snapshot, err := snapshotapi.Snapshots.Parse(obj); err == nil && snapshot.IsBound() {
		c.contentQueue.Add(snapshot.BoundContent())
	}
}

// contentGone queues the snapshot of a content that does not exist any more.
//
// Upstream: external-snapshotter pkg/common-controller deleteContent (8.7.0).
func (c *controller) contentGone(obj *unstructured.Unstructured) {
	c.ownContent.forget(obj)
	if content, err := snapshotapi.Contents.Parse(obj); err == nil {
		c.snapshotQueue.Add(types.NamespacedName{
			Namespace: content.Spec.VolumeSnapshotRef.Namespace, Name: content.Spec.VolumeSnapshotRef.Name,
		})
	}
}

// syncSnapshotKey syncs a snapshot, if it exists. A cache that lacks a write of this process does not
// count: the write will be delivered.
//
// Upstream: external-snapshotter pkg/common-controller snapshotWorker, syncSnapshotByKey, updateSnapshot
// (8.7.0).
func (c *controller) syncSnapshotKey(ctx context.Context, key types.NamespacedName) error {
	snapshot := c.snapshots.Get(key.Namespace, key.Name)
	if snapshot == nil || c.ownSnapshot.isNewer(snapshot) {
		return nil
	}
	err := c.syncWithClass(ctx, snapshot)
	var unmet *unmetError
	if errors.As(err, &unmet) {
		c.waits.begin(snapshot)
		return nil
	}
	c.waits.end(key)
	return err
}

// syncContentKey syncs a content, if it exists.
//
// Upstream: external-snapshotter pkg/common-controller contentWorker, syncContentByKey, updateContent
// (8.7.0).
func (c *controller) syncContentKey(ctx context.Context, name string) error {
	content := c.contents.Get("", name)
	if content == nil || c.ownContent.isNewer(content) {
		return nil
	}
	return c.syncContent(ctx, content)
}
