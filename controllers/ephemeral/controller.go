package ephemeral

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// EventSource is the component that reports the controller's events.
const EventSource = "ephemeral_volume"

// reasonFailedBinding is the reason of the events.
//
// Upstream: pkg/controller/volume/events FailedBinding (v1.36).
const reasonFailedBinding = "FailedBinding"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder // as EventSource
}

// controller is the ephemeral volume controller.
//
// Upstream: pkg/controller/volume/ephemeral ephemeralController (v1.36).
type controller struct {
	client   kubernetes.Interface
	recorder record.EventRecorder
	pods     corelisters.PodLister
	claims   corelisters.PersistentVolumeClaimLister
	queue    *sim.Queue[types.NamespacedName] // of pods
	reported map[types.NamespacedName]report  // last report of a failure, by pod
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
//
// Differs: upstream has five workers.
func New(cfg Config) {
	pods, claims := cfg.Informers.Core().V1().Pods(), cfg.Informers.Core().V1().PersistentVolumeClaims()
	c := &controller{
		client: cfg.Client, recorder: cfg.Recorder, pods: pods.Lister(), claims: claims.Lister(),
		queue:    sim.NewQueue[types.NamespacedName](cfg.Process, sim.QueueConfig{Name: "ephemeral", Background: true}),
		reported: map[types.NamespacedName]report{},
	}
	eventhandler.Add(pods.Informer(), func(old, pod *corev1.Pod) {
		if old == nil {
			c.enqueue(pod)
		}
	}, nil)
	eventhandler.Add(claims.Informer(), func(_, _ *corev1.PersistentVolumeClaim) {}, c.claimGone)
	cfg.Process.GateWorkers(pods.Informer().HasSynced)
	cfg.Process.GateWorkers(claims.Informer().HasSynced)
	c.queue.Work(c.sync)
}

// HasVolumes reports whether a pod has generic ephemeral volumes. Other pods do not concern the
// controller.
func HasVolumes(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Ephemeral != nil })
}

// Wants reports whether a pod in the informers' caches has a volume whose claim has this name. The
// deletion of other claims does not concern the controller.
func Wants(seen informers.SharedInformerFactory, claim *corev1.PersistentVolumeClaim) bool {
	return len(podsOf(seen.Core().V1().Pods().Lister(), claim)) > 0
}

// enqueue adds a pod that may need claims.
func (c *controller) enqueue(pod *corev1.Pod) {
	if pod.DeletionTimestamp == nil && HasVolumes(pod) {
		c.queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}
}

// claimGone adds the pods that refer to a deleted claim.
//
// Upstream: pkg/controller/volume/ephemeral onPVCDelete (v1.36).
func (c *controller) claimGone(claim *corev1.PersistentVolumeClaim) {
	for _, pod := range podsOf(c.pods, claim) {
		c.enqueue(pod)
	}
}

// podsOf returns the pods with a volume whose claim has the name of this one, by name.
func podsOf(lister corelisters.PodLister, claim *corev1.PersistentVolumeClaim) []*corev1.Pod {
	pods, err := lister.Pods(claim.Namespace).List(labels.Everything())
	if err != nil {
		return nil // a lister does not fail
	}
	pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool {
		return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, &v) == claim.Name
		})
	})
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// sync creates the missing claims of a pod. It stops at the first volume that fails.
//
// Differs: a failure is reported when it is another one than before; upstream reports it at each
// retry.
//
// Upstream: pkg/controller/volume/ephemeral syncHandler (v1.36).
func (c *controller) sync(ctx context.Context, key types.NamespacedName) error {
	pod, err := c.pods.Pods(key.Namespace).Get(key.Name)
	if err != nil || pod.DeletionTimestamp != nil {
		return nil // a lister fails with NotFound only
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil {
			continue
		}
		if err := c.ensureClaim(ctx, pod, volume); err != nil {
			c.report(pod, fmt.Sprintf("ephemeral volume %s: %v", volume.Name, err))
			return fmt.Errorf("pod %s, ephemeral volume %s: %w", key, volume.Name, err)
		}
	}
	delete(c.reported, key)
	return nil
}

// A report is an event of a pod.
type report struct {
	pod     types.UID
	message string
}

// report records an event for a pod, unless it is the same again.
func (c *controller) report(pod *corev1.Pod, message string) {
	key, is := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, report{pod.UID, message}
	if c.reported[key] != is {
		c.reported[key] = is
		c.recorder.Event(pod, corev1.EventTypeWarning, reasonFailedBinding, message)
	}
}

// ensureClaim creates the claim of a volume unless the cache has it. A claim of that name must be the
// pod's own.
//
// Upstream: pkg/controller/volume/ephemeral handleVolume (v1.36).
func (c *controller) ensureClaim(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	name := ephemeral.VolumeClaimName(pod, volume)
	if claim, err := c.claims.PersistentVolumeClaims(pod.Namespace).Get(name); err == nil {
		return ephemeral.VolumeIsForPod(pod, claim)
	}
	template := volume.Ephemeral.VolumeClaimTemplate
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: template.Annotations, Labels: template.Labels,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
				Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
			}},
		},
		Spec: template.Spec,
	}
	_, err := c.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
