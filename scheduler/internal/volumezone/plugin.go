package volumezone

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "VolumeZone"

// reasonZone is upstream's reason, to the letter.
const reasonZone = "node(s) had no available volume zone"

// Plugin compares the labels of volumes and nodes.
type Plugin struct {
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
)

// New returns the plugin. It has caches of claims, volumes and classes.
//
// Upstream: plugins/volumezone New (v1.36).
func New(h framework.Handle) *Plugin {
	core := h.Informers.Core().V1()
	return &Plugin{
		claims:  core.PersistentVolumeClaims().Lister(),
		volumes: core.PersistentVolumes().Lister(),
		classes: h.Informers.Storage().V1().StorageClasses().Lister(),
	}
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// topologyLabels are the labels that count, and their present names.
var topologyLabels = []struct{ key, now string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// topology is what a label of a volume requires of nodes.
type topology struct {
	key, now string
	values   sets.Set[string]
}

// PreFilter finds the labels of the volumes of the pod.
//
// Upstream: plugins/volumezone VolumeZone.PreFilter, getPVbyPod (v1.36).
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	var required []topology
	pod := cycle.APIPod()
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		volume, status := p.volumeOf(pod.Namespace, source.ClaimName)
		if status != nil {
			return nil, status
		}
		if volume != nil {
			required = appendTopologies(required, volume)
		}
	}
	if len(required) == 0 {
		return nil, framework.SkipCycle
	}
	cycle.Write(Name, required)
	return nil, nil
}

// volumeOf returns the volume of a claim; nil if it waits for its first consumer.
func (p *Plugin) volumeOf(namespace, name string) (*corev1.PersistentVolume, *framework.Status) {
	if name == "" {
		return nil, rejected("PersistentVolumeClaim had no name")
	}
	claim, err := p.claims.PersistentVolumeClaims(namespace).Get(name)
	if err != nil {
		return nil, statusOf(err)
	}
	if claim.Spec.VolumeName != "" {
		volume, err := p.volumes.Get(claim.Spec.VolumeName)
		if err != nil {
			return nil, statusOf(err)
		}
		return volume, nil
	}
	className := storagehelpers.GetPersistentVolumeClaimClass(claim)
	if className == "" {
		return nil, rejected("PersistentVolumeClaim had no pv name and storageClass name")
	}
	class, err := p.classes.Get(className)
	switch {
	case err != nil:
		return nil, statusOf(err)
	case class.VolumeBindingMode == nil:
		return nil, rejected(fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", className))
	case *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer:
		return nil, rejected("PersistentVolume had no name")
	default:
		return nil, nil
	}
}

func rejected(reason string) *framework.Status {
	return framework.NewStatus(framework.UnschedulableAndUnresolvable, reason)
}

func statusOf(err error) *framework.Status {
	if apierrors.IsNotFound(err) {
		return rejected(err.Error())
	}
	return framework.AsStatus(err)
}

// appendTopologies appends what the labels of a volume require. A label that cannot be parsed does not
// count.
//
// Upstream: plugins/volumezone getPVTopologies (v1.36).
func appendTopologies(to []topology, volume *corev1.PersistentVolume) []topology {
	for _, label := range topologyLabels {
		if value, ok := volume.Labels[label.key]; ok {
			if values := zones(value); values != nil {
				to = append(to, topology{key: label.key, now: label.now, values: values})
			}
		}
	}
	return to
}

// zones returns the zones that the value of a label lists; nil if one of them is empty.
//
// Upstream: k8s.io/cloud-provider/volume/helpers LabelZonesToSet (v1.36).
func zones(value string) sets.Set[string] {
	all := sets.Set[string]{}
	for zone := range strings.SplitSeq(value, "__") {
		zone = strings.TrimSpace(zone)
		if zone == "" {
			return nil
		}
		all.Insert(zone)
	}
	return all
}

// Filter rejects a node with labels that do not match.
//
// Upstream: plugins/volumezone VolumeZone.Filter (v1.36).
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	required, _ := cycle.Read(Name).([]topology)
	labels := node.Node.Labels
	if !hasTopology(labels) {
		return nil
	}
	for i := range required {
		value, ok := labels[required[i].key]
		if !ok {
			value, ok = labels[required[i].now]
		}
		if !ok || !required[i].values.Has(value) {
			return rejected(reasonZone)
		}
	}
	return nil
}

func hasTopology(labels map[string]string) bool {
	for _, label := range topologyLabels {
		if _, ok := labels[label.key]; ok {
			return true
		}
	}
	return false
}

// Events returns what may change the volumes of the pod, their labels, or those of a node.
//
// Upstream: plugins/volumezone VolumeZone.EventsToRegister (v1.36).
func (p *Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.StorageClass, Action: framework.Add, Hint: func(_ *corev1.Pod, _, new any) bool {
			mode := new.(*storagev1.StorageClass).VolumeBindingMode
			return mode != nil && *mode == storagev1.VolumeBindingWaitForFirstConsumer
		}},
		{Resource: framework.Node, Action: framework.Add | framework.UpdateNodeLabel},
		{Resource: framework.PersistentVolumeClaim, Action: framework.Add | framework.Update, Hint: func(pod *corev1.Pod, _, new any) bool {
			return uses(pod, new.(*corev1.PersistentVolumeClaim))
		}},
		{Resource: framework.PersistentVolume, Action: framework.Add | framework.Update, Hint: func(_ *corev1.Pod, old, new any) bool {
			before, _ := old.(*corev1.PersistentVolume)
			return before == nil || !sameTopology(before, new.(*corev1.PersistentVolume))
		}},
	}
}

// uses reports whether a pod names a claim.
//
// Upstream: plugins/volumezone isPVCRequestedFromPod (v1.36).
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Namespace != pod.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil && source.ClaimName == claim.Name {
			return true
		}
	}
	return false
}

// sameTopology reports whether two versions of a volume require the same of nodes.
func sameTopology(a, b *corev1.PersistentVolume) bool {
	if maps.Equal(a.Labels, b.Labels) {
		return true
	}
	before, now := appendTopologies(nil, a), appendTopologies(nil, b)
	if len(before) != len(now) {
		return false
	}
	for i := range before {
		if before[i].key != now[i].key || !before[i].values.Equal(now[i].values) {
			return false
		}
	}
	return true
}
