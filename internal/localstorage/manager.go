package localstorage

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/volumegroup"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// period is how often a manager looks at the disks of its node.
const period = 10 * time.Second

// ManagerConfig configures NewManager.
type ManagerConfig struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface // for records
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
	Node      string
	Groups    volumegroup.Backend // of the node; each call leaves the process
}

// A Manager keeps the volume groups, records and volumes of one node. All its work is done by one
// task, one key after the other.
type Manager struct {
	cfg     ManagerConfig
	nodes   corelisters.NodeLister
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
	records customresource.Cache[NodeLocalStorage, *NodeLocalStorage]

	queue   *sim.Queue[work]
	timer   *sim.Timer
	changed atomic.Bool // see Notify
	// written holds the records that this process wrote, until its cache shows them.
	written map[string]*NodeLocalStorage
	// told holds the last event of each class, so that a failure that repeats is one event.
	told map[string]string
	// freed holds the classes with more space than before whose claims that grow were not tried again yet.
	freed map[string]bool
}

// work is a key of the queue.
type work struct{ kind, namespace, name string }

// The kinds of work.
const (
	classWork   = "class"
	claimWork   = "claim"
	volumeWork  = "volume"
	spaceWork   = "space"   // of a class
	waitingWork = "waiting" // a claim
)

// String returns kind/namespace/name, without an empty namespace.
func (w work) String() string {
	return strings.Join(strings.Split(w.kind+"/"+w.namespace+"/"+w.name, "//"), "/")
}

// nodeAnnotation is the annotation of a PersistentVolume with the name of its node.
const nodeAnnotation = Provisioner + "/node"

// Filters returns the filters for the caches of a node's manager.
func Filters(node string) []fake.Filter {
	return []fake.Filter{
		{Resource: "nodes", Fields: "metadata.name=" + node},
		{Resource: "persistentvolumeclaims", Match: func(old, obj fake.Object) bool {
			return isSelected(old, node) || isSelected(obj, node)
		}},
		{Resource: "persistentvolumes", Match: func(old, obj fake.Object) bool {
			return isOn(old, node) || isOn(obj, node)
		}},
		{Resource: "storageclasses", Match: func(old, obj fake.Object) bool {
			return isOurClass(old) || isOurClass(obj)
		}},
		{Resource: records.CommitName(), Match: func(old, obj fake.Object) bool {
			if old == nil || obj == nil {
				return isRecordOn(old, node) || isRecordOn(obj, node)
			}
			return isRecordOn(obj, node) && concernsRecord(old, obj)
		}},
	}
}

// isSelected reports whether a claim has the node as its selected node.
func isSelected(claim metav1.Object, node string) bool {
	return claim != nil && claim.GetAnnotations()[storagehelpers.AnnSelectedNode] == node
}

// isOn reports whether a PersistentVolume is one of a node's.
func isOn(volume metav1.Object, node string) bool {
	return volume != nil && volume.GetAnnotations()[nodeAnnotation] == node
}

func isOurClass(obj fake.Object) bool {
	class, ok := obj.(*storagev1.StorageClass)
	return ok && isOurs(class)
}

// isRecordOn reports whether a record may be one of a node's.
func isRecordOn(obj metav1.Object, node string) bool {
	return obj != nil && strings.HasSuffix(obj.GetName(), "."+node)
}

// concernsRecord reports whether a change of a record is not one of its status.
func concernsRecord(old, obj metav1.Object) bool {
	return old.GetUID() != obj.GetUID() || old.GetGeneration() != obj.GetGeneration() ||
		(old.GetDeletionTimestamp() == nil) != (obj.GetDeletionTimestamp() == nil) ||
		len(old.GetFinalizers()) != len(obj.GetFinalizers())
}

// NewManager returns the manager of a node. It adds a queue with one worker to the process, and
// registers with the informers. It must be called before the host starts. The resource of records
// must be served; see Definition.
func NewManager(cfg ManagerConfig) (*Manager, error) {
	core, classes := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1().StorageClasses()
	own, recordInformer, err := records.Cache(cfg.Informers)
	if err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, nodes: core.Nodes().Lister(), claims: core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(), classes: classes.Lister(), records: own,
		queue:   sim.NewQueue[work](cfg.Process, sim.QueueConfig{Name: "work"}),
		written: map[string]*NodeLocalStorage{}, told: map[string]string{}, freed: map[string]bool{},
	}
	eventhandler.Add(core.Nodes().Informer(), func(old, _ *corev1.Node) {
		if old == nil {
			m.addClasses()
		}
	}, nil)
	eventhandler.Add(classes.Informer(), func(old, class *storagev1.StorageClass) {
		if isOurs(old) || isOurs(class) {
			m.addClass(class.Name)
			m.addClaims(class.Name)
		}
	}, func(class *storagev1.StorageClass) {
		if isOurs(class) {
			m.addClass(class.Name)
		}
	})
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), m.claimChanged, m.claimGone)
	eventhandler.Add(core.PersistentVolumes().Informer(), func(_, volume *corev1.PersistentVolume) {
		if isOn(volume, cfg.Node) {
			m.queue.Add(work{kind: volumeWork, name: volume.Name})
		}
	}, nil)
	if err := m.watchRecords(recordInformer); err != nil {
		return nil, err
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), classes.Informer(), core.PersistentVolumeClaims().Informer(),
		core.PersistentVolumes().Informer(), recordInformer,
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	m.timer = cfg.Process.NewBackgroundTimer("disks period", m.addClasses)
	m.queue.Work(m.sync)
	cfg.Process.Delivery("disks changed", m.changed.Load, func() {
		m.changed.Store(false)
		m.addClasses()
	})
	return m, nil
}

// Notify reports that the disks of the node may have changed. It may be called from any goroutine,
// at any time, and does not block.
func (m *Manager) Notify() {
	m.changed.Store(true)
	m.cfg.Process.Wake()
}

func (m *Manager) watchRecords(informer cache.SharedIndexInformer) error {
	add := func(obj any) {
		if gone, unknown := obj.(cache.DeletedFinalStateUnknown); unknown {
			obj = gone.Obj
		}
		if r, err := records.Parse(obj); err == nil && r.Spec.NodeName == m.cfg.Node {
			m.addClass(r.Spec.StorageClassName)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add,
		UpdateFunc: func(old, obj any) {
			before, ok := old.(metav1.Object)
			if after, both := obj.(metav1.Object); ok && both && concernsRecord(before, after) {
				add(obj)
			}
		},
		DeleteFunc: add,
	})
	return err
}

func (m *Manager) claimChanged(old, claim *corev1.PersistentVolumeClaim) {
	if isSelected(claim, m.cfg.Node) {
		m.queue.Add(work{claimWork, claim.Namespace, claim.Name})
	} else if old != nil && isSelected(old, m.cfg.Node) {
		m.claimGone(old)
	}
}

// claimGone queues the class of a claim that may have left an unfinished volume.
func (m *Manager) claimGone(claim *corev1.PersistentVolumeClaim) {
	if name := storagehelpers.GetPersistentVolumeClaimClass(claim); isSelected(claim, m.cfg.Node) && m.records.Get("", recordName(name, m.cfg.Node)) != nil {
		m.addClass(name)
	}
}

func (m *Manager) addClass(name string) { m.queue.Add(work{kind: classWork, name: name}) }

// addClasses queues all classes.
func (m *Manager) addClasses() {
	all, err := m.classes.List(labels.Everything())
	if err != nil {
		panic("localstorage: list classes: " + err.Error())
	}
	sortByName(all)
	for _, class := range all {
		if isOurs(class) {
			m.addClass(class.Name)
		}
	}
}

// addClaims queues the claims of a class whose selected node is this one.
func (m *Manager) addClaims(class string) {
	all, err := m.claims.List(labels.Everything())
	if err != nil {
		panic("localstorage: list claims: " + err.Error())
	}
	sortByName(all)
	for _, claim := range all {
		if storagehelpers.GetPersistentVolumeClaimClass(claim) == class && isSelected(claim, m.cfg.Node) {
			m.queue.Add(work{claimWork, claim.Namespace, claim.Name})
		}
	}
}

// sync does the work of a key.
func (m *Manager) sync(ctx context.Context, key work) error {
	switch key.kind {
	case claimWork:
		return m.syncClaim(ctx, key)
	case volumeWork:
		return m.syncVolume(ctx, key.name)
	default:
		m.timer.Reset(period)
		return m.syncClass(ctx, key.name)
	}
}

// class returns a class of this package, nil if there is none of the name.
func (m *Manager) class(name string) *storagev1.StorageClass {
	class, err := m.classes.Get(name)
	if err != nil || !isOurs(class) {
		return nil
	}
	return class
}

// driverName is the name of the node's volume groups in the trace.
const driverName = "localstorage"

// call does something with the disks of the node. It leaves the process meanwhile.
func (m *Manager) call(verb, object string, do func() error) error {
	return m.callReading(verb, object, func() (changed bool, err error) {
		err = do()
		return err == nil, err
	})
}

// callReading is call for what reports whether it has changed anything.
func (m *Manager) callReading(verb, object string, do func() (changed bool, err error)) error {
	action := trace.Action{Kind: trace.KindDriver, Verb: verb, Object: driverName + "/" + object}
	return m.cfg.Process.Call(action, func() trace.Outcome {
		changed, err := do()
		return trace.Outcome{Err: err, Detail: "node=" + m.cfg.Node, Read: !changed}
	}).Err
}

// isFull reports whether an error says that a volume cannot be created or grown on this node now.
func isFull(err error) bool {
	return errors.Is(err, volumegroup.ErrNoSpace) || errors.Is(err, volumegroup.ErrNoGroup) || errors.Is(err, volumegroup.ErrLost)
}

// ensure creates or extends the group of a class, and returns what there is.
func (m *Manager) ensure(ctx context.Context, class string, disks []string) (report volumegroup.Report, err error) {
	err = m.callReading("EnsureVolumeGroup", class, func() (bool, error) {
		report, err = m.cfg.Groups.Ensure(ctx, class, disks)
		return report.Changed, err
	})
	if err != nil {
		return volumegroup.Report{}, fmt.Errorf("volume group of class %s on %s: %w", class, m.cfg.Node, err)
	}
	return report, nil
}
