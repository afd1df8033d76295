package volumerestrictions

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "VolumeRestrictions"

// The reasons, to the letter.
const (
	reasonDisk             = "node(s) had no available disk"
	reasonReadWriteOncePod = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)

// Plugin compares the volumes of pods.
type Plugin struct {
	claims corelisters.PersistentVolumeClaimLister
}

var (
	_ framework.PreFilterer = (*Plugin)(nil)
	_ framework.Filterer    = (*Plugin)(nil)
	_ framework.PodChanger  = (*Plugin)(nil)
	_ framework.Cloner      = (*state)(nil)
)

// New returns the plugin. It has a cache of claims.
//
// Upstream: plugins/volumerestrictions New (v1.36).
func New(h framework.Handle) *Plugin {
	return &Plugin{claims: h.Informers.Core().V1().PersistentVolumeClaims().Lister()}
}

// Name returns the name of the plugin.
func (p *Plugin) Name() string { return Name }

// state is what PreFilter found.
//
// Upstream: plugins/volumerestrictions preFilterState (v1.36).
type state struct {
	claims sets.Set[cache.ObjectName] // of the pod, with access mode ReadWriteOncePod
	uses   int                        // of these claims by pods with a node
}

// Clone returns a copy.
func (s *state) Clone() any {
	clone := *s
	return &clone
}

// PreFilter finds the claims of the pod that only one pod may use.
//
// Upstream: plugins/volumerestrictions VolumeRestrictions.PreFilter (v1.36).
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	pod := cycle.APIPod()
	var claims sets.Set[cache.ObjectName]
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source == nil {
			continue
		}
		claim, err := p.claims.PersistentVolumeClaims(pod.Namespace).Get(source.ClaimName)
		if apierrors.IsNotFound(err) {
			return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
		}
		if err != nil {
			return nil, framework.AsStatus(err)
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
			if claims == nil {
				claims = sets.Set[cache.ObjectName]{}
			}
			claims.Insert(cache.MetaObjectToName(claim))
		}
	}
	uses := 0
	for claim := range claims {
		if cycle.Snapshot.ClaimInUse(claim) {
			uses++
		}
	}
	if uses == 0 && !hasDisks(pod) {
		return nil, framework.SkipCycle
	}
	cycle.Write(Name, &state{claims: claims, uses: uses})
	return nil, nil
}

// AddPod adds the claims of a pod that would come to a node.
//
// Upstream: plugins/volumerestrictions VolumeRestrictions.AddPod (v1.36).
func (p *Plugin) AddPod(cycle *framework.Cycle, pod *framework.PodInfo, _ *framework.NodeInfo) *framework.Status {
	change(cycle, pod, 1)
	return nil
}

// RemovePod removes the claims of a pod that would leave a node.
//
// Upstream: plugins/volumerestrictions VolumeRestrictions.RemovePod (v1.36).
func (p *Plugin) RemovePod(cycle *framework.Cycle, pod *framework.PodInfo, _ *framework.NodeInfo) *framework.Status {
	change(cycle, pod, -1)
	return nil
}

func change(cycle *framework.Cycle, info *framework.PodInfo, sign int) {
	s, ok := cycle.Read(Name).(*state)
	if !ok || len(s.claims) == 0 {
		return
	}
	pod := info.Pod
	for i := range pod.Spec.Volumes {
		source := pod.Spec.Volumes[i].PersistentVolumeClaim
		if source != nil && s.claims.Has(cache.NewObjectName(pod.Namespace, source.ClaimName)) {
			s.uses += sign
		}
	}
}

// Filter rejects a node with a pod that uses a disk of the pod, and all nodes while another pod uses one of
// the pod's claims.
//
// Upstream: plugins/volumerestrictions VolumeRestrictions.Filter (v1.36).
func (p *Plugin) Filter(cycle *framework.Cycle, node *framework.NodeInfo) *framework.Status {
	pod := cycle.APIPod()
	if hasDisks(pod) && slices.ContainsFunc(node.Pods, func(other *framework.PodInfo) bool { return conflict(pod, other.Pod) }) {
		return framework.NewStatus(framework.Unschedulable, reasonDisk)
	}
	if s, ok := cycle.Read(Name).(*state); ok && s.uses > 0 {
		return framework.NewStatus(framework.Unschedulable, reasonReadWriteOncePod)
	}
	return nil
}

// Events returns what may free a disk or a claim, or create a missing claim.
//
// Upstream: plugins/volumerestrictions VolumeRestrictions.EventsToRegister (v1.36).
func (p *Plugin) Events() []framework.EventHint {
	return []framework.EventHint{
		{Resource: framework.Pod, Action: framework.Delete, Hint: func(pod *corev1.Pod, old, _ any) bool {
			return mayFree(pod, old.(*corev1.Pod))
		}},
		{Resource: framework.Node, Action: framework.Add},
		{Resource: framework.PersistentVolumeClaim, Action: framework.Add, Hint: func(pod *corev1.Pod, _, new any) bool {
			claim := new.(*corev1.PersistentVolumeClaim)
			return claim.Namespace == pod.Namespace && names(pod, claim.Name)
		}},
	}
}

// mayFree reports whether a deleted pod used a disk or a claim of a pod.
//
// Upstream: plugins/volumerestrictions isSchedulableAfterPodDeleted (v1.36).
func mayFree(pod, deleted *corev1.Pod) bool {
	if conflict(pod, deleted) {
		return true
	}
	return deleted.Namespace == pod.Namespace && slices.ContainsFunc(deleted.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && names(pod, v.PersistentVolumeClaim.ClaimName)
	})
}

// names reports whether a pod names a claim.
func names(pod *corev1.Pod, claim string) bool {
	for i := range pod.Spec.Volumes {
		if source := pod.Spec.Volumes[i].PersistentVolumeClaim; source != nil && source.ClaimName == claim {
			return true
		}
	}
	return false
}
