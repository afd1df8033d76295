package nodevolumelimits

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "NodeVolumeLimits"

// reasonLimit is upstream's reason, to the letter.
const reasonLimit = "node(s) exceed max volume count"

// Plugin compares the volumes of a node with its limits.
type Plugin struct {
	claims      corelisters.PersistentVolumeClaimLister
	volumes     corelisters.PersistentVolumeLister
	classes     storagelisters.StorageClassLister
	csiNodes    storagelisters.CSINodeLister
	attachments cache.Indexer // by node
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
)

// New returns the plugin. It has caches of claims, volumes, classes, CSINodes and VolumeAttachments.
//
// Upstream: plugins/nodevolumelimits NewCSI (v1.36).
func New(h framework.Handle) *Plugin {
	core, storage := h.Informers.Core().V1(), h.Informers.Storage().V1()
	return &Plugin{
		claims:      core.PersistentVolumeClaims().Lister(),
		volumes:     core.PersistentVolumes().Lister(),
		classes:     storage.StorageClasses().Lister(),
		csiNodes:    storage.CSINodes().Lister(),
		attachments: indexed(storage.VolumeAttachments().Informer()),
	}
}

// indexByNode is the name of the index of VolumeAttachments.
const indexByNode = "nodevolumelimits-node"

func indexed(informer cache.SharedIndexInformer) cache.Indexer {
	if informer.GetIndexer().GetIndexers()[indexByNode] != nil {
		return informer.GetIndexer()
	}
	err := informer.AddIndexers(cache.Indexers{indexByNode: func(obj any) ([]string, error) {
		return []string{obj.(*storagev1.VolumeAttachment).Spec.NodeName}, nil
	}})
	if err != nil {
		panic("nodevolumelimits: add index: " + err.Error())
	}
	return informer.GetIndexer()
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// wanted is what the pod brings to a node.
type wanted struct {
	volumes volumeSet
	err     *framework.Status // what is wrong with a claim
}

// PreFilter finds the volumes of the pod.
//
// Upstream: plugins/nodevolumelimits CSILimits.PreFilter (v1.36).
//
// Differs: upstream finds the volumes once for each node.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	if !mayCount(cycle.APIPod()) {
		return nil, framework.SkipCycle
	}
	w := &wanted{volumes: volumeSet{}}
	switch err := p.addVolumes(w.volumes, cycle.APIPod()); {
	case apierrors.IsNotFound(err):
		w.err = framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	case err != nil:
		w.err = framework.AsStatus(err)
	case len(w.volumes) == 0:
		return nil, framework.SkipCycle
	}
	cycle.Write(Name, w)
	return nil, nil
}

// mayCount reports whether a pod has claims, or volumes that are migrated to CSI drivers.
func mayCount(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; podclaims.Name(pod, v) != "" || isMigrated(v) {
			return true
		}
	}
	return false
}

// Filter rejects a node to which the pod would bring more volumes of a driver than its limit.
//
// Upstream: plugins/nodevolumelimits CSILimits.Filter (v1.36).
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	w, ok := cycle.Read(Name).(*wanted)
	if !ok {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	csiNode, err := p.csiNodes.Get(node.Name())
	if err != nil || !concerns(csiNode, w.volumes) {
		return nil // a lister fails with NotFound only: the node has no limits
	}
	if p.exceeds(csiNode, w.volumes, node) {
		return framework.NewStatus(framework.Unschedulable, reasonLimit)
	}
	return nil
}

// concerns reports whether a node limits the driver of any of the volumes.
func concerns(node *storagev1.CSINode, volumes volumeSet) bool {
	for v := range volumes {
		if d := driverOf(node, v.driver); d != nil {
			if _, limited := limitOf(d); limited {
				return true
			}
		}
	}
	return false
}

func (p *Plugin) exceeds(csiNode *storagev1.CSINode, volumes volumeSet, node *framework.NodeInfo) bool {
	all := volumeSet{}
	for _, pod := range node.Pods {
		_ = p.addVolumes(all, pod.Pod) // a volume without a valid claim does not count
	}
	more := map[string]bool{} // drivers with a volume that no pod on the node uses
	for v := range volumes {
		if _, used := all[v]; !used {
			more[v.driver] = true
		}
	}
	if len(more) == 0 {
		return false
	}
	for v := range volumes {
		all[v] = struct{}{}
	}
	attachments, err := p.attachments.ByIndex(indexByNode, node.Name())
	if err != nil {
		panic("nodevolumelimits: " + err.Error())
	}
	for _, attachment := range attachments {
		if v, counts := p.volumeAttached(attachment.(*storagev1.VolumeAttachment)); counts {
			all[v] = struct{}{}
		}
	}
	count := map[string]int{}
	for v := range all {
		count[v.driver]++
	}
	for i := range csiNode.Spec.Drivers {
		d := &csiNode.Spec.Drivers[i]
		if limit, limited := limitOf(d); limited && more[d.Name] && count[d.Name] > limit {
			return true
		}
	}
	return false
}

// Events returns what may make room, or a missing claim.
//
// Upstream: plugins/nodevolumelimits CSILimits.EventsToRegister (v1.36).
func (p *Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.CSINode, Action: framework.Add},
		{Resource: framework.CSINode, Action: framework.Update, Hint: func(_ *corev1.Pod, old, new any) bool {
			return isLimitRaised(old.(*storagev1.CSINode), new.(*storagev1.CSINode))
		}},
		{Resource: framework.Pod, Action: framework.Delete, Hint: func(_ *corev1.Pod, old, _ any) bool {
			return mayFree(old.(*corev1.Pod))
		}},
		{Resource: framework.PersistentVolumeClaim, Action: framework.Add, Hint: func(pod *corev1.Pod, _, new any) bool {
			return uses(pod, new.(*corev1.PersistentVolumeClaim))
		}},
		{Resource: framework.VolumeAttachment, Action: framework.Delete, Hint: func(pod *corev1.Pod, old, _ any) bool {
			return mayNeed(pod, old.(*storagev1.VolumeAttachment))
		}},
	}
}

// mayFree reports whether a deleted pod may have had volumes on a node.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterPodDeleted (v1.36).
func mayFree(deleted *corev1.Pod) bool {
	return (deleted.Spec.NodeName != "" || deleted.Status.NominatedNodeName != "") && mayCount(deleted)
}

// uses reports whether a pod uses a claim.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterPVCAdded (v1.36).
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if claim.Namespace != pod.Namespace {
		return false
	}
	for i := range pod.Spec.Volumes {
		if podclaims.Name(pod, &pod.Spec.Volumes[i]) == claim.Name {
			return true
		}
	}
	return false
}

// mayNeed reports whether a pod may need the room that a deleted attachment leaves.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterVolumeAttachmentDeleted (v1.36).
//
// Differs: also a pod whose only claims are those of ephemeral volumes. Upstream's waits until all
// unschedulable pods are tried again.
func mayNeed(pod *corev1.Pod, deleted *storagev1.VolumeAttachment) bool {
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if podclaims.Name(pod, volume) != "" {
			return true
		}
		if v, ok := translated(&plugins.Spec{Volume: volume}, pod.Namespace); ok && v.driver == deleted.Spec.Attacher {
			return true
		}
	}
	return false
}
