package volumebinding

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/scheduler/internal/framework"
)

// A state is what the plugin keeps about a pod in its cycle.
//
// Upstream: stateData, PodVolumeClaims (v1.36).
type state struct {
	bound    []boundClaim
	selected []*delayedClaim // claims with a selected node
	toMatch  []*delayedClaim // the other unbound claims, by size
	byNode   map[string]*podVolumes

	allBound bool    // PreBind has nothing to do
	reserved bool    // Reserve succeeded, and Unreserve was not called
	written  int     // how many of the changes are written: of the volumes, then of the claims
	waiter   *waiter // while PreBind waits
}

// A boundClaim is a claim with its volume.
type boundClaim struct {
	volume   *corev1.PersistentVolume            // nil: it does not exist
	affinity *nodeaffinity.LazyErrorNodeSelector // nil: every node
	inTree   bool                                // see translate
}

// A delayedClaim is a claim that gets its volume when a node is chosen.
type delayedClaim struct {
	claim   *corev1.PersistentVolumeClaim
	class   *storagev1.StorageClass
	volumes candidates
	// limited says that the driver publishes its capacity; size is what the claim requests, in bytes.
	limited bool
	size    int64
}

func stateOf(cycle *framework.Cycle) *state {
	s, _ := cycle.Read(Name).(*state)
	return s
}

// PreFilter looks at the pod's claims. It rejects a pod with a claim that must be bound already, and is
// not.
//
// Upstream: PreFilter, podHasPVCs, GetPodVolumeClaims (v1.36), to the letter.
//
// Differs: an empty state is not written for a pod without claims. An invalid selector of a claim is an error
// here, and only if there are volumes; upstream notices it in Filter. The API server admits none.
func (p *Plugin) PreFilter(cycle *framework.Cycle) (sets.Set[string], *framework.Status) {
	pod := cycle.APIPod()
	if !hasClaims(pod) {
		return nil, framework.SkipCycle
	}
	claims, err := p.claimsOf(pod)
	if err != nil {
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, err.Error())
	}
	s, err := p.newState(claims)
	switch {
	case err != nil:
		return nil, framework.AsStatus(err)
	case s == nil:
		return nil, framework.NewStatus(framework.UnschedulableAndUnresolvable, "pod has unbound immediate PersistentVolumeClaims")
	}
	cycle.Write(Name, s)
	return nil, nil
}

func hasClaims(pod *corev1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return true
		}
	}
	return false
}

// claimsOf returns a pod's claims in the order of its volumes. The error, whose text is an event's
// message, says why the pod cannot use one.
func (p *Plugin) claimsOf(pod *corev1.Pod) ([]*corev1.PersistentVolumeClaim, error) {
	claims := make([]*corev1.PersistentVolumeClaim, 0, len(pod.Spec.Volumes))
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		name := podclaims.Name(pod, volume)
		if name == "" {
			continue
		}
		claim, err := p.claims.get(cache.NewObjectName(pod.Namespace, name).String())
		if err := checkClaim(pod, volume, name, claim, err); err != nil {
			return nil, err
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

// checkClaim returns an error if a pod cannot use a claim. getting is the error of getting the claim.
func checkClaim(pod *corev1.Pod, volume *corev1.Volume, name string, claim *corev1.PersistentVolumeClaim, getting error) error {
	switch {
	case apierrors.IsNotFound(getting) && volume.Ephemeral != nil:
		return fmt.Errorf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", name)
	case getting != nil:
		return fmt.Errorf("persistentvolumeclaim %q not found", name)
	case claim.Status.Phase == corev1.ClaimLost:
		return fmt.Errorf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", name, claim.Spec.VolumeName)
	case claim.DeletionTimestamp != nil:
		return fmt.Errorf("persistentvolumeclaim %q is being deleted", name)
	case volume.Ephemeral != nil:
		return ephemeral.VolumeIsForPod(pod, claim)
	default:
		return nil
	}
}

// newState returns the state of a pod with claims, nil if one of them must be bound and is not.
func (p *Plugin) newState(claims []*corev1.PersistentVolumeClaim) (*state, error) {
	s := &state{}
	immediate := false
	for _, claim := range claims {
		if isBound(claim) {
			s.bound = append(s.bound, p.boundClaim(claim))
			continue
		}
		class := p.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
		if class != nil && class.VolumeBindingMode == nil {
			return nil, fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)
		}
		// A claim that names its volume is bound by the PersistentVolume controller.
		if class == nil || *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer || claim.Spec.VolumeName != "" {
			immediate = true
			continue
		}
		d := &delayedClaim{claim: claim, class: class}
		d.size, d.limited = p.isLimited(claim, class)
		if _, ok := claim.Annotations[storagehelpers.AnnSelectedNode]; ok {
			s.selected = append(s.selected, d)
		} else {
			var err error
			if d.volumes, err = newCandidates(claim, p.volumesFor(claim)); err != nil {
				return nil, err
			}
			s.toMatch = append(s.toMatch, d)
		}
	}
	if immediate {
		return nil, nil
	}
	slices.SortStableFunc(s.toMatch, func(a, b *delayedClaim) int {
		one, two := a.claim.Spec.Resources.Requests[corev1.ResourceStorage], b.claim.Spec.Resources.Requests[corev1.ResourceStorage]
		return one.Cmp(two)
	})
	return s, nil
}

func (p *Plugin) boundClaim(claim *corev1.PersistentVolumeClaim) boundClaim {
	volume, err := p.volumes.get(claim.Spec.VolumeName)
	if err != nil {
		return boundClaim{}
	}
	b := boundClaim{volume: volume, inTree: isInTree(volume)}
	if affinity := volume.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		b.affinity = nodeaffinity.NewLazyErrorNodeSelector(affinity.Required)
	}
	return b
}

// isBound reports whether a claim is bound and the binding is completed.
func isBound(claim *corev1.PersistentVolumeClaim) bool {
	_, completed := claim.Annotations[storagehelpers.AnnBindCompleted]
	return claim.Spec.VolumeName != "" && completed
}

// areBound reports whether all of a pod's claims are bound.
//
// Upstream: arePodVolumesBound (v1.36).
func (p *Plugin) areBound(pod *corev1.Pod) bool {
	claims, err := p.claimsOf(pod)
	return err == nil && !slices.ContainsFunc(claims, func(claim *corev1.PersistentVolumeClaim) bool { return !isBound(claim) })
}

var errNoVolumes = errors.New("no pod volume found for node")
