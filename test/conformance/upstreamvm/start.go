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

// Config is what Start must be told.
type Config struct {
	Client     kubernetes.Interface
	Node       types.NodeName
	Root       string                // of the kubelet: a directory of this machine, in which the fake plugins make theirs
	Plugins    []volume.VolumePlugin // such as volumetesting.FakeVolumePlugin
	Recorder   record.EventRecorder  // nil: nobody is told
	SelfAttach bool                  // the kubelet attaches and detaches, and not the controller
}

// Manager is upstream's volume manager, and what of a kubelet it asks: which pods there are, and which of them are over. Its
// methods may be called concurrently.
type Manager struct {
	volumemanager.VolumeManager

	pods   pod.Manager
	states *podStates
	host   *host
}

// Start runs upstream's volume manager until ctx ends. Mounter, host and path handler are those of upstream's own tests: they
// touch nothing but directories below cfg.Root. wait returns when the manager has stopped; a round of its loops, and operations
// that run by then, end on their own. The error is that of a plugin that does not begin.
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

// AddPod tells that a pod is to run here, or what it is now.
func (m *Manager) AddPod(p *corev1.Pod) { m.pods.AddPod(p) }

// FinishPod tells that the pod's containers have ended for good. The pod may still be there.
func (m *Manager) FinishPod(uid types.UID) { m.states.finish(uid) }

// RemovePod tells that there is no such pod any more.
func (m *Manager) RemovePod(p *corev1.Pod) { m.pods.RemovePod(p) }

// SetNode tells what the node's own Node object is, in the kubelet's cache.
func (m *Manager) SetNode(node *corev1.Node) { m.host.setNode(node) }

// podStates knows which pods are over. A pod of which it knows nothing runs.
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

// ShouldPodContainersBeTerminating is for upstream's populator.
func (s *podStates) ShouldPodContainersBeTerminating(uid types.UID) bool { return s.isFinished(uid) }

// ShouldPodRuntimeBeRemoved is for upstream's populator.
func (s *podStates) ShouldPodRuntimeBeRemoved(uid types.UID) bool { return s.isFinished(uid) }

// kubeletHost is what plugins may ask of a kubelet.
type kubeletHost interface {
	volume.VolumeHost
	volume.KubeletVolumeHost
}

// host is that of upstream's tests, with a Node that may change.
type host struct {
	kubeletHost

	mu       sync.Mutex
	attached map[corev1.UniqueVolumeName]string // guarded by mu: replaced as a whole
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

// GetAttachedVolumesFromNodeStatus is for upstream's operations, which only read it.
func (h *host) GetAttachedVolumesFromNodeStatus() (map[corev1.UniqueVolumeName]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attached, nil
}
