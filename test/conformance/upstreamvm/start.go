package upstreamvm

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	"k8s.io/kubernetes/pkg/volume"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"
)

// A Config configures Start.
type Config struct {
	Client     kubernetes.Interface
	Node       types.NodeName
	Root       string                // directory of the kubelet, in which the fake plugins create theirs
	Plugins    []volume.VolumePlugin // such as volumetesting.FakeVolumePlugin
	Recorder   record.EventRecorder  // nil: events are discarded
	SelfAttach bool                  // the kubelet, not the controller, attaches and detaches
}

// A Manager is upstream's volume manager with the parts of a kubelet that it uses: the pods, and
// which of them have ended. Its methods are safe for concurrent use.
type Manager struct {
	volumemanager.VolumeManager

	pods   pod.Manager
	states *podStates
	host   *host
}

// Start runs upstream's volume manager until ctx ends. Mounter, host and path handler are those of
// upstream's tests and only touch directories below cfg.Root. The function wait returns when the
// manager has stopped; running loops and operations end on their own. The error is that of a plugin
// that fails to initialize.
func Start(ctx context.Context, cfg Config) (m *Manager, wait func(), err error) {
	recorder := cfg.Recorder
	if recorder == nil {
		recorder = &record.FakeRecorder{}
	}
	h := newHost(cfg)
	var plugins volume.VolumePluginMgr
	if err := plugins.InitPlugins(cfg.Plugins, nil, h); err != nil {
		return nil, nil, fmt.Errorf("upstream's volume manager: %w", err)
	}
	m = &Manager{pods: pod.NewBasicPodManager(), states: &podStates{}, host: h}
	m.VolumeManager = volumemanager.NewVolumeManager(!cfg.SelfAttach, cfg.Node, m.pods, m.states, cfg.Client, &plugins,
		mount.NewFakeMounter(nil), hostutil.NewFakeHostUtil(nil), filepath.Join(cfg.Root, "pods"), recorder,
		volumetesting.NewBlockVolumePathHandler())
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.Run(ctx, ready)
	}()
	return m, func() { <-stopped }, nil
}

// AddPod adds or updates a pod of this node.
func (m *Manager) AddPod(p *corev1.Pod) { m.pods.AddPod(p) }

// FinishPod marks the containers of a pod as ended. The pod object may still exist.
func (m *Manager) FinishPod(uid types.UID) { m.states.finish(uid) }

// RemovePod removes a deleted pod.
func (m *Manager) RemovePod(p *corev1.Pod) { m.pods.RemovePod(p) }

// SetNode sets the Node object in the kubelet's cache.
func (m *Manager) SetNode(node *corev1.Node) { m.host.setNode(node) }

// A podStates records which pods have ended. Unknown pods are running.
type podStates struct {
	mu       sync.Mutex
	finished sets.Set[types.UID] // guarded by mu
}

func (s *podStates) finish(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished == nil {
		s.finished = sets.New[types.UID]()
	}
	s.finished.Insert(uid)
}

func (s *podStates) isFinished(uid types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finished.Has(uid)
}

// ShouldPodContainersBeTerminating reports whether a pod has ended. Upstream's populator calls it.
func (s *podStates) ShouldPodContainersBeTerminating(uid types.UID) bool { return s.isFinished(uid) }

// ShouldPodRuntimeBeRemoved reports whether a pod has ended. Upstream's populator calls it.
func (s *podStates) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return s.isFinished(uid) }

// kubeletHost is what plugins require of a kubelet.
type kubeletHost interface {
	volume.VolumeHost
	volume.KubeletVolumeHost
}

// A host is the host of upstream's tests with a variable Node.
type host struct {
	kubeletHost

	mu       sync.Mutex
	attached map[corev1.UniqueVolumeName]string // guarded by mu; replaced as a whole
}

func newHost(cfg Config) *host {
	return &host{kubeletHost: volumetesting.NewFakeKubeletVolumeHost(nil, cfg.Root, cfg.Client, nil)}
}

func (h *host) setNode(node *corev1.Node) {
	attached := map[corev1.UniqueVolumeName]string{}
	for _, v := range node.Status.VolumesAttached {
		attached[v.Name] = v.DevicePath
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.attached = attached
}

// GetAttachedVolumesFromNodeStatus returns the attached volumes. Upstream's operations only read
// the map.
func (h *host) GetAttachedVolumesFromNodeStatus() (map[corev1.UniqueVolumeName]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attached, nil
}
