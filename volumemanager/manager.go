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

// The back-off between two attempts to resolve a pod's volumes.
//
// Differs: upstream tries every 100 ms.
const (
	populateBackoffMin = 10 * time.Millisecond
	populateBackoffMax = time.Second
)

// A Config configures a Manager.
type Config struct {
	Process       *sim.Process // the kubelet's
	Client        kubernetes.Interface
	NodeName      types.NodeName
	Plugins       *plugins.Manager
	Recorder      record.EventRecorder
	PodChanged    func(uid types.UID) // called when a pod may have become mounted or unmounted
	ReportChanged func()              // called when NeedsReport may have become true

	// WaitFailed is called for a pod whose volumes cannot be mounted. The error is a *WaitError if
	// some cannot be processed; each message is reported once. It is a *LimitError if the pod
	// cannot run here because of the node's attach limit. nil: failures are not reported.
	WaitFailed func(uid types.UID, why error)

	// Root is the kubelet's directory on FS, the node's disk. New looks there for mounts of an
	// earlier kubelet. A nil FS means that there was none.
	Root string
	FS   nodefs.FS

	// Awaits reports whether a plugin that is not registered may be soon, for example because its
	// program has not answered yet; "" asks for any. What an earlier kubelet mounted with it is left
	// as it is until then. Call PluginsChanged when the answer changes. nil: no plugin is awaited.
	Awaits func(plugin string) bool

	// SELinux enables SELinux mount labels on the node; see selinux.go.
	SELinux bool
	// SELinuxMount extends them from ReadWriteOncePod volumes to all access modes, as upstream's
	// feature gate of that name does.
	SELinuxMount bool

	// SelfAttach makes the kubelet attach and detach volumes instead of the attach/detach
	// controller. The Manager then does not read volumesAttached of the Node.
	SelfAttach bool
}

// A Manager is the volume manager of one kubelet. Its methods must be called from tasks of its
// process.
type Manager struct {
	cfg         Config
	desired     desiredState
	actual      actualState
	pods        *sim.Queue[types.UID]
	volumes     *sim.Queue[corev1.UniqueVolumeName]
	limitChecks *sim.Queue[types.UID] // pods that wait for a volume of a driver with a limit
	ops         *executor.Executor
	signals     map[types.UID]*sim.Signal // raised when a pod changes; see wait.go

	node         *corev1.Node // the newest one seen
	nodeRevision int64        // its resourceVersion
	listed       listing      // its volumesAttached

	lastReport   sets.Set[corev1.UniqueVolumeName] // volumesInUse as last patched
	reportedOnce bool

	allPodsAdded bool // see ready.go
	ready        bool

	scanned bool // see reconstruct.go
	orphans orphans
	late    latePlugins
}

// New returns a kubelet's volume manager and registers its workers.
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
	_ = m.reconstruct() // MarkAllPodsAdded tries again, and returns the error
	cfg.Plugins.OnChange(m.PluginsChanged)
	return m
}

// AddPod adds or updates a pod whose containers should run here. Volumes that need periodic
// remounts are set up again. Volumes that could not be processed are retried anyway, after their
// back-off.
//
// Upstream: pkg/kubelet/volumemanager ReprocessPod, cache MarkRemountRequired (v1.36).
func (m *Manager) AddPod(pod *corev1.Pod) {
	if m.desired.addPod(pod) {
		m.pods.Add(pod.UID)
	}
	m.remountVolumes(pod.UID)
}

// RemovePod unmounts the volumes of a pod whose containers have ended permanently.
//
// Differs: as long as the API server has the pod, upstream continues to mount those of its volumes
// that are not mounted, and keeps them in use.
//
// Upstream: pkg/kubelet/volumemanager/populator findAndRemoveDeletedPods (v1.36).
func (m *Manager) RemovePod(uid types.UID) {
	if m.desired.isIncomplete(uid) {
		defer m.requeueVolumesOf(uid) // what it has here belongs to its unresolved volumes
	}
	for _, name := range m.desired.removePod(uid) {
		m.volumes.Add(name)
	}
	m.checkReady()
	if m.ready {
		m.cleanOrphansOf(uid)
	}
}

// Mounted reports whether all volumes that the containers of a pod use are mounted. It returns
// false for a pod that was not added.
//
// Upstream: pkg/kubelet/volumemanager WaitForAttachAndMount, without waiting (v1.36).
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

// HasVolumes reports whether anything of a pod is mounted here or may be. It stays true until the
// last unmount has succeeded.
//
// Differs: upstream's WaitForUnmount ignores uncertain mounts.
//
// Upstream: pkg/kubelet/volumemanager WaitForUnmount, HasPossiblyMountedVolumesForPod (v1.36).
func (m *Manager) HasVolumes(uid types.UID) bool {
	return len(m.actual.podVolumes[uid]) > 0 || len(m.orphans.volumes[uid]) > 0
}

// Path returns where a volume of a pod, named as in the pod, is mounted, or the link to its device.
// It returns false while the volume is not mounted.
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
	spec := v.pods[uid].spec
	if v.block {
		return filepath.Join(v.caps.BlockPaths.PodDeviceMapPath(spec.Name(), uid)), true
	}
	return v.caps.Mounter.MountPath(spec, uid), true
}

// done requeues the volume of an operation that has ended.
func (m *Manager) done(op executor.Operation, _ executor.Outcome, _ error) {
	m.volumes.Add(op.Key.Volume)
}

// Quiescent reports whether nothing is left to do: the actual state equals the desired state.
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

// requeueVolumesOf requeues the volumes that a pod has here. Those it does not want may be
// unmounted now.
func (m *Manager) requeueVolumesOf(uid types.UID) {
	for _, name := range m.actual.volumesOf(uid) {
		m.volumes.Add(name)
	}
}
