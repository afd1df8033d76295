package volumebinding

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Reserve assumes the changes by which a pod's claims get their volumes on a node. From now on other pods see
// them.
//
// Upstream: Reserve, AssumePodVolumes (v1.36).
func (p *Plugin) Reserve(cycle *framework.Cycle, node string) *framework.Status {
	s := stateOf(cycle)
	if s == nil {
		return nil
	}
	volumes := s.byNode[node]
	if volumes == nil || p.areBound(cycle.APIPod()) {
		s.allBound = true
		return nil
	}
	if err := p.assume(volumes, node); err != nil {
		p.revert(volumes)
		return framework.AsStatus(err)
	}
	s.reserved = true
	return nil
}

// assume assumes the changes of a pod's volumes and claims. After an error some of them are assumed.
//
// Differs: a claim that has the node already is not changed.
func (p *Plugin) assume(volumes *podVolumes, node string) error {
	for i := range volumes.bindings {
		b := &volumes.bindings[i]
		volume, changed, err := storagehelpers.GetBindVolumeToClaim(b.volume, b.claim)
		if err != nil {
			return err
		}
		if changed {
			if err := p.volumes.assume(volume); err != nil {
				return err
			}
			b.volume, b.assumed = volume, true
		}
	}
	for i := range volumes.provisions {
		v := &volumes.provisions[i]
		if v.claim.Annotations[storagehelpers.AnnSelectedNode] == node {
			continue
		}
		claim := v.claim.DeepCopy()
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnSelectedNode, node)
		if err := p.claims.assume(claim); err != nil {
			return err
		}
		v.claim, v.assumed = claim, true
	}
	return nil
}

// revert gives back what was assumed and is not written.
//
// Upstream: RevertAssumedPodVolumes (v1.36).
func (p *Plugin) revert(volumes *podVolumes) {
	for i := range volumes.bindings {
		if b := &volumes.bindings[i]; b.assumed {
			p.volumes.restore(b.volume)
			b.assumed = false
		}
	}
	for i := range volumes.provisions {
		if v := &volumes.provisions[i]; v.assumed {
			p.claims.restore(v.claim)
			v.assumed = false
		}
	}
}

// Unreserve gives back what Reserve assumed and PreBind has not written. A PreBind that is suspended
// writes nothing more.
//
// Upstream: Unreserve (v1.36).
func (p *Plugin) Unreserve(cycle *framework.Cycle, node string) {
	s := stateOf(cycle)
	if s == nil || !s.reserved {
		return
	}
	s.reserved = false
	p.stopWaiting(s)
	p.revert(s.byNode[node])
}
