package volumemanager

import (
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/executor"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// The back-off between two looks at a pod's claims that are not bound yet.
//
// Differs: upstream looks every 100 ms.
const (
	populateBackoffMin = 10 * time.Millisecond
	populateBackoffMax = time.Second
)

// Config is what New must be told.
type Config struct {
	Process       *sim.Process // the kubelet
	Client        kubernetes.Interface
	NodeName      types.NodeName
	Plugins       *plugins.Manager
	Recorder      record.EventRecorder
	PodChanged    func(uid types.UID) // called when a pod may have become mounted or unmounted
	ReportChanged func()              // called when ReportNeeded may have become true

	// WaitFailed is called when a pod waits for its volumes in vain: with a *WaitError when some cannot be processed, once for each
	// thing there is to say, and with a *LimitError when the pod cannot run here, since the node has no place for them. nil: nobody
	// is told.
	WaitFailed func(uid types.UID, why error)

	// Root is the kubelet's directory on FS, the node's disk, where what a kubelet before this one mounted is looked for. nil:
	// there was none.
	Root string
	FS   nodefs.FS

	// SELinux says that volumes are mounted with labels on the node; see selinux.go.
	SELinux bool
	// SELinuxMount lets volumes of all access modes be so, and not only those of one pod alone: upstream's feature gate of that name.
	SELinuxMount bool

	// SelfAttach lets the kubelet attach and detach volumes, and not the attach/detach controller. Then nothing is asked of
	// the Node.
	SelfAttach bool
}

// Manager is the volume manager of one kubelet. Its methods are for the strands of its component.
type Manager struct {
	cfg         Config
	desired     desiredState
	actual      actualState
	pods        *sim.Queue[types.UID]
	volumes     *sim.Queue[corev1.UniqueVolumeName]
	limitChecks *sim.Queue[types.UID] // pods that wait for their volumes
	ops         *executor.Executor
	signals     map[types.UID]*sim.Signal // given when something about the pod has changed; see wait.go

	node         *corev1.Node // the newest that was seen
	nodeRevision int64        // its resourceVersion
	listed       listing      // its volumesAttached

	lastReport   sets.Set[corev1.UniqueVolumeName] // volumesInUse as last patched
	reportedOnce bool

	allPodsAdded bool // see ready.go
	ready        bool

	scanned bool // see reconstruct.go
	orphans orphans
}

// New makes a kubelet's volume manager, with its two workers.
func New(cfg Config) *Manager {
	m := &Manager{cfg: cfg, desired: newDesiredState(), actual: newActualState(), signals: map[types.UID]*sim.Signal{}}
	m.cfg.PodChanged = func(uid types.UID) {
		m.notify(uid)
		cfg.PodChanged(uid)
	}
	m.pods = sim.NewQueue[types.UID](cfg.Process, sim.QueueConfig{
		Name: "volume populator", BackoffMin: populateBackoffMin, BackoffMax: populateBackoffMax, Background: true,
	})
	m.pods.Work(m.populate)
	m.volumes = sim.NewQueue[corev1.UniqueVolumeName](cfg.Process, sim.QueueConfig{Name: "volume reconciler"})
	m.volumes.Work(m.reconcile)
	m.limitChecks = sim.NewQueue[types.UID](cfg.Process, sim.QueueConfig{Name: "volume places", Background: true})
	m.limitChecks.Work(m.checkLimit)
	m.ops = executor.New(executor.Config{Process: cfg.Process, OnDone: m.done})
	_ = m.reconstruct() // PodsKnown tries again, and tells
	return m
}

// AddPod tells that a pod's containers are to run here. Of a pod that is known already the newer object is kept, and volumes
// that are to be set up again and again are; those of its volumes that could not be processed are looked at again anyway,
// after their back-off.
//
// Upstream: pkg/kubelet/volumemanager ReprocessPod, cache MarkRemountRequired (v1.36).
func (m *Manager) AddPod(pod *corev1.Pod) {
	if m.desired.addPod(pod) {
		m.pods.Add(pod.UID)
	}
	m.remountVolumes(pod.UID)
}

// RemovePod tells that the pod's containers have ended for good: its volumes are taken away.
//
// Differs: upstream goes on with those volumes of such a pod that are not mounted for it, as long as the API server has the pod: it
// tries to mount them, and holds them in use.
//
// Upstream: pkg/kubelet/volumemanager/populator findAndRemoveDeletedPods (v1.36).
func (m *Manager) RemovePod(uid types.UID) {
	if m.desired.isIncomplete(uid) {
		defer m.requeueVolumesOf(uid) // what it has here is of those of its volumes that are not known
	}
	for _, name := range m.desired.removePod(uid) {
		m.volumes.Add(name)
	}
	m.checkReady()
	if m.ready {
		m.cleanOrphansOf(uid)
	}
}

// Mounted tells whether all volumes that the containers of a pod use are mounted. A pod that was not added is not.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount, as a question (v1.36).
func (m *Manager) Mounted(uid types.UID) bool {
	p, ok := m.desired.pods[uid]
	if !ok || len(p.volumes) < len(p.wanted) {
		return false
	}
	for _, name := range p.volumes {
		if !m.actual.mounted(name, uid) {
			return false
		}
	}
	return true
}

// HasVolumes tells whether anything of a pod is mounted here or may be. It stays true until the last unmount has
// succeeded.
//
// Differs: upstream's WaitForUnmount does not see mounts it is not sure of.
//
// Upstream: pkg/kubelet/volumemanager WaitForUnmount, HasPossiblyMountedVolumesForPod (v1.36).
func (m *Manager) HasVolumes(uid types.UID) bool {
	return len(m.actual.podVolumes[uid]) > 0 || len(m.orphans.volumes[uid]) > 0
}

// Path is where a volume of a pod, named as in the pod, is mounted, or the link to its device. It returns false while it is
// not there.
func (m *Manager) Path(uid types.UID, volume string) (string, bool) {
	p, ok := m.desired.pods[uid]
	if !ok {
		return "", false
	}
	name, ok := p.volumes[volume]
	if !ok || !m.actual.mounted(name, uid) {
		return "", false
	}
	v := m.desired.volumes[name]
	specName := v.pods[uid].spec.Name()
	if v.block {
		return filepath.Join(v.caps.BlockPaths.PodDeviceMapPath(specName, uid)), true
	}
	return v.caps.Mounter.MountPath(specName, uid), true
}

// done is called when an operation has ended.
func (m *Manager) done(op executor.Operation, _ executor.Outcome, _ error) {
	m.volumes.Add(op.Key.Volume)
}

// Quiescent tells whether nothing is left to do: what is desired is actual, and nothing else is.
func (m *Manager) Quiescent() bool {
	for uid := range m.desired.pods {
		if !m.Mounted(uid) {
			return false
		}
	}
	for name, v := range m.actual.volumes {
		wanted := m.desired.volumes[name]
		if wanted == nil {
			return false
		}
		for uid := range v.pods {
			if !wanted.wantedBy(uid) {
				return false
			}
		}
	}
	return true
}

// requeueVolumesOf has the volumes looked at that a pod has here: what it does not want may be unmounted now.
func (m *Manager) requeueVolumesOf(uid types.UID) {
	for _, name := range m.actual.volumesOf(uid) {
		m.volumes.Add(name)
	}
}
