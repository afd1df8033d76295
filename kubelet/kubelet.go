package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/events"
	"github.com/volsim/volsim/listen"
	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/recycler"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/volumemanager"
)

// Config is what New must be told.
type Config struct {
	Component *sim.Component
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory // whose pods are the node's, and whose only node is it
	Node      string                          // the node's name
	Root      string                          // of the kubelet, on the node's disk
	FS        nodefs.FS                       // the node's disk
	BootID    string                          // differs each time the node boots
	Exports   nodefs.FS                       // what NFS servers export: PATH of SERVER is the directory /SERVER/PATH
	Drivers   map[string]grpc.ClientConnInterface
}

// Kubelet is what a node does. Its methods are for the strands of its component.
type Kubelet struct {
	cfg     Config
	csi     *csi.Plugin
	volumes *volumemanager.Manager
	pods    *sim.Queue[types.UID]
	status  *sim.Queue[string] // one key: the node's name
	drivers *sim.Queue[string]
	mine    map[types.UID]*corev1.Pod // the pods of this node, as last seen
	begun   bool                      // the volume manager was told of all pods that were seen
	start   *sim.Queue[string]        // see syncStart
	greeted bool                      // the drivers were told that the kubelet is here

	recorder record.EventRecorder
	rejected map[types.UID]*rejection
	limits   *sim.Queue[string]       // drivers to be asked
	periods  map[string]time.Duration // how often, as known
}

// New makes the kubelet of a node, with its workers. The error says that a plugin cannot be had.
func New(cfg Config) (*Kubelet, error) {
	k := &Kubelet{
		cfg: cfg, mine: map[types.UID]*corev1.Pod{}, rejected: map[types.UID]*rejection{}, periods: map[string]time.Duration{},
	}
	k.csi = csi.New(csi.Config{
		Component: cfg.Component, Client: cfg.Client,
		CSIDrivers: cfg.Informers.Storage().V1().CSIDrivers(),
		NodeName:   types.NodeName(cfg.Node), Root: cfg.Root, FS: cfg.FS,
	})
	var manager plugins.Manager
	if err := manager.Register(k.csi); err != nil {
		return nil, err
	}
	k.start = sim.NewQueue[string](cfg.Component, sim.QueueConfig{Name: "start"})
	k.start.Work(k.syncStart)
	k.status = sim.NewQueue[string](cfg.Component, sim.QueueConfig{Name: "node status"})
	k.status.Work(k.syncNode)
	k.drivers = sim.NewQueue[string](cfg.Component, sim.QueueConfig{Name: "driver registration"})
	k.drivers.Work(k.syncDriver)
	k.pods = sim.NewQueue[types.UID](cfg.Component, sim.QueueConfig{Name: "pods"})
	k.pods.Work(k.syncPod)
	k.recorder = events.New(events.Config{Component: cfg.Component, Client: cfg.Client, Source: "kubelet", Host: cfg.Node})
	k.volumes = volumemanager.New(volumemanager.Config{
		Component: cfg.Component, Client: cfg.Client, NodeName: types.NodeName(cfg.Node), Plugins: &manager,
		Recorder: k.recorder, Rejected: k.reject, Root: cfg.Root, FS: cfg.FS,
		PodChanged:    k.pods.Add,
		ReportChanged: func() { k.status.Add(cfg.Node) },
	})
	core := cfg.Informers.Core().V1()
	listen.To(core.Pods().Informer(), func(_, pod *corev1.Pod) { k.podSeen(pod) }, k.podGone)
	listen.To(core.Nodes().Informer(), func(_, node *corev1.Node) { k.volumes.NodeUpdated(node) }, nil)
	k.watchLimits()
	k.status.Add(cfg.Node)
	return k, nil
}

// MountPath is where the volume of a CSI driver is mounted for a pod, if it is. It may be called from anywhere.
func (k *Kubelet) MountPath(volume string, pod types.UID) string { return k.csi.MountPath(volume, pod) }

func (k *Kubelet) podSeen(pod *corev1.Pod) {
	k.mine[pod.UID] = pod
	k.pods.Add(pod.UID)
}

func (k *Kubelet) podGone(pod *corev1.Pod) {
	delete(k.mine, pod.UID)
	delete(k.rejected, pod.UID)
	k.pods.Add(pod.UID)
}

// runs tells whether the pod's containers are to run, with volumes mounted for them.
func runs(pod *corev1.Pod) bool {
	_, _, scrubs := recycler.Scrubs(pod)
	return pod.DeletionTimestamp == nil && !finished(pod) && !scrubs
}

// syncPod brings a pod one step on. What has to be waited for brings it back here.
//
// Upstream: pkg/kubelet SyncPod, SyncTerminatedPod (v1.36).
func (k *Kubelet) syncPod(ctx context.Context, uid types.UID) error {
	k.begin()
	pod := k.mine[uid]
	if r := k.rejected[uid]; pod != nil && r != nil && !finished(pod) {
		if err := k.reportRejected(ctx, pod, r); err != nil {
			return err
		}
	} else if pod != nil && pod.DeletionTimestamp == nil && !finished(pod) {
		if volume, source, ok := recycler.Scrubs(pod); ok {
			return k.scrub(ctx, pod, volume, source)
		}
		k.volumes.AddPod(pod)
		if !k.started(pod) && k.volumes.Mounted(uid) {
			return k.reportRunning(ctx, pod)
		}
		return nil
	}
	k.volumes.RemovePod(uid)
	if k.volumes.HasVolumes(uid) {
		return nil
	}
	if err := k.removePodDir(ctx, uid); err != nil {
		return err
	}
	if pod == nil || pod.DeletionTimestamp == nil {
		return nil
	}
	now := int64(0)
	err := k.cfg.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err // a conflict may be that another pod has the name: then the cache will tell
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// reportRunning says that all containers of a pod run.
func (k *Kubelet) reportRunning(ctx context.Context, pod *corev1.Pod) error {
	now := metav1.NewTime(k.cfg.Component.Now())
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &now}
	for _, t := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady} {
		status.Conditions = append(status.Conditions, corev1.PodCondition{
			Type: t, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	for _, c := range pod.Spec.Containers {
		started := true
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			ContainerID: k.containerID(pod, c.Name), RestartCount: k.restarts(pod, c.Name),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return k.reportPod(ctx, pod, status)
}

// reportPod writes a pod's status, unless the pod is gone.
func (k *Kubelet) reportPod(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("patch of pod status: %w", err)
	}
	_, err = k.cfg.Client.CoreV1().Pods(pod.Namespace).
		Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // that pod is gone
	}
	return err // a conflict may be that another pod has the name: then the cache will tell
}

// syncNode registers the node where that is not done, and reports the volumes in use where that is needed.
//
// Differs: upstream patches the node's status every 10 s; here it is patched when there is something to report.
//
// Upstream: pkg/kubelet registerWithAPIServer, syncNodeStatus (v1.36).
func (k *Kubelet) syncNode(ctx context.Context, name string) error {
	k.begin()
	if !k.registered() {
		_, err := k.cfg.Client.CoreV1().Nodes().Create(ctx, NodeObject(k.cfg.Node, k.cfg.Component.Now()), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if !k.greeted {
		k.greeted = true
		for _, driver := range slices.Sorted(maps.Keys(k.cfg.Drivers)) {
			k.drivers.Add(driver)
		}
	}
	if !k.volumes.ReportNeeded() {
		return nil
	}
	volumes := k.volumes.VolumesInUse()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": volumes}})
	if err != nil {
		return fmt.Errorf("patch of node status: %w", err)
	}
	node, err := k.cfg.Client.CoreV1().Nodes().
		Patch(ctx, name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return err
	}
	k.volumes.Reported(volumes, node)
	if k.volumes.ReportNeeded() {
		k.status.Add(name)
	}
	return nil
}

func (k *Kubelet) registered() bool {
	_, err := k.cfg.Informers.Core().V1().Nodes().Lister().Get(k.cfg.Node)
	return err == nil
}

// syncDriver registers a driver with the kubelet and with the cluster.
func (k *Kubelet) syncDriver(ctx context.Context, name string) error {
	info, err := k.csi.AddDriver(ctx, name, k.cfg.Drivers[name])
	if err != nil {
		return err
	}
	return k.csi.Publish(ctx, name, info)
}
