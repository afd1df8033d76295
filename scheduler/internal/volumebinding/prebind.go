package volumebinding

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// PreBindPreFlight reports whether claims of the pod must be bound.
//
// Upstream: PreBindPreFlight (v1.36).
func (p *Plugin) PreBindPreFlight(cycle *framework.Cycle, node string) *framework.Status {
	switch s := stateOf(cycle); {
	case s == nil || s.allBound:
		return framework.NewStatus(framework.Skip)
	case s.byNode[node] == nil:
		return framework.AsStatus(fmt.Errorf("%w %q", errNoVolumes, node))
	default:
		return nil
	}
}

// PreBind writes what Reserve assumed, and reports whether all of the pod's claims are bound. If not, the pod
// is woken when this may have changed, and when the time limit ends.
//
// Upstream: PreBind, BindPodVolumes (v1.36), to the letter.
//
// Differs: it waits by watch; upstream polls once a second. A pod that is deleted is not woken: the scheduler
// then calls Unreserve.
func (p *Plugin) PreBind(ctx context.Context, cycle *framework.Cycle, node string) (done bool, status *framework.Status) {
	s := stateOf(cycle)
	if s == nil || s.allBound {
		return true, nil
	}
	if s.byNode[node] == nil {
		return false, framework.AsStatus(fmt.Errorf("%w %q", errNoVolumes, node))
	}
	done, err := p.bind(ctx, cycle.APIPod(), s, node)
	if done || err != nil {
		p.stopWaiting(s)
	}
	return done, framework.AsStatus(err)
}

func (p *Plugin) bind(ctx context.Context, pod *corev1.Pod, s *state, node string) (done bool, err error) {
	volumes := s.byNode[node]
	for s.written < len(volumes.bindings)+len(volumes.provisions) {
		if i := s.written; i < len(volumes.bindings) {
			err = p.writeVolume(ctx, &volumes.bindings[i])
		} else {
			err = p.writeClaim(ctx, &volumes.provisions[i-len(volumes.bindings)], node)
		}
		switch {
		case err != nil:
			return false, err
		case !s.reserved:
			return false, fmt.Errorf("binding volumes: %w", context.Canceled)
		}
		s.written++
	}
	done, err = p.checkBindings(pod, node, volumes)
	if err == nil && !done && s.waiter != nil && !p.process.Now().Before(s.waiter.deadline) {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return false, fmt.Errorf("binding volumes: %w", err)
	}
	if !done && s.waiter == nil {
		p.wait(pod, s, node)
	}
	return done, nil
}

// writeVolume writes the claim into a volume's claimRef. The PersistentVolume controller does the rest.
//
// Upstream: bindAPIUpdate (v1.36).
//
// Differs: upstream also updates a volume that has the claim already.
func (p *Plugin) writeVolume(ctx context.Context, b *binding) error {
	current, err := p.volumes.base(b.volume.Name)
	if err != nil {
		return err
	}
	if _, changed, err := storagehelpers.GetBindVolumeToClaim(current, b.claim); err == nil && !changed {
		b.volume, b.assumed = current, false
		return nil
	}
	written, err := p.client.CoreV1().PersistentVolumes().Update(ctx, b.volume, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	b.volume, b.assumed = written, false
	p.volumes.wrote(written)
	return nil
}

// writeClaim writes the node on a claim. The provisioner does the rest.
//
// Upstream: bindAPIUpdate (v1.36).
//
// Differs: upstream also updates a claim that has the node already.
func (p *Plugin) writeClaim(ctx context.Context, v *provision, node string) error {
	current, err := p.claims.base(keyOf(v.claim))
	if err != nil {
		return err
	}
	if current.Annotations[storagehelpers.AnnSelectedNode] == node {
		v.claim, v.assumed = current, false
		return nil
	}
	written, err := p.client.CoreV1().PersistentVolumeClaims(v.claim.Namespace).Update(ctx, v.claim, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	v.claim, v.assumed = written, false
	p.claims.wrote(written)
	return nil
}

// checkBindings reports whether all claims are bound to volumes that the node can use. An error means that
// this cannot happen any more.
//
// Upstream: checkBindings (v1.36), to the letter.
//
// Differs: the failure of any claim is an error at once; upstream looks at a claim when those before it are
// bound.
func (p *Plugin) checkBindings(pod *corev1.Pod, nodeName string, volumes *podVolumes) (bool, error) {
	node, err := p.nodes.Get(nodeName)
	if err != nil {
		return false, fmt.Errorf("failed to get node %q: %w", nodeName, err)
	}
	current, err := p.pods.Pods(pod.Namespace).Get(pod.Name)
	if err == nil && current.UID != pod.UID {
		err = apierrors.NewNotFound(corev1.Resource("pod"), pod.Name)
	}
	if err != nil {
		return false, fmt.Errorf("pod does not exist any more: %w", err)
	}
	all := true
	for i := range volumes.bindings {
		bound, err := p.checkBinding(&volumes.bindings[i], node)
		if err != nil {
			return false, err
		}
		all = all && bound
	}
	for i := range volumes.provisions {
		bound, err := p.checkProvision(&volumes.provisions[i], node)
		if err != nil {
			return false, err
		}
		all = all && bound
	}
	return all, nil
}

// checkBinding reports whether a claim is bound to the volume that it was given.
//
// Differs: a claim that was bound to another volume is an error. Upstream then assigns the pod to a node
// that may not have the volume.
func (p *Plugin) checkBinding(b *binding, node *corev1.Node) (bool, error) {
	volume, err := p.volumes.api(b.volume.Name)
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	claim, err := p.claims.api(keyOf(b.claim))
	if err != nil {
		return false, fmt.Errorf("failed to check binding: %w", err)
	}
	if isNewer(b.volume, volume) {
		return false, nil // the cache does not have what was written
	}
	volume, err = p.translate(volume, node.Name)
	if err != nil {
		return false, fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if err := checkAffinity(volume, node); err != nil {
		return false, err
	}
	if ref := volume.Spec.ClaimRef; ref == nil || ref.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", volume.Name)
	}
	if name := claim.Spec.VolumeName; name != "" && name != volume.Name {
		return false, fmt.Errorf("pvc %q is bound to pv %q instead of %q", keyOf(claim), name, volume.Name)
	}
	return isBound(claim), nil
}

// checkProvision reports whether a claim is bound to a volume that was provisioned for it.
func (p *Plugin) checkProvision(v *provision, node *corev1.Node) (bool, error) {
	claim, err := p.claims.api(keyOf(v.claim))
	if err != nil {
		return false, fmt.Errorf("failed to check provisioning pvc: %w", err)
	}
	if isNewer(v.claim, claim) {
		return false, nil // the cache does not have what was written
	}
	if claim.Annotations == nil {
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
	}
	if claim.Annotations[storagehelpers.AnnSelectedNode] != node.Name {
		return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
	}
	if claim.Spec.VolumeName != "" {
		volume, err := p.volumes.api(claim.Spec.VolumeName)
		if err != nil {
			return false, nil //nolint:nilerr // the cache does not have it yet; or it is lost, and so will the claim be
		}
		if volume, err = p.translate(volume, node.Name); err != nil {
			return false, err
		}
		if err := checkAffinity(volume, node); err != nil {
			return false, err
		}
	}
	return isBound(claim), nil
}

func checkAffinity(volume *corev1.PersistentVolume, node *corev1.Node) error {
	if err := storagehelpers.CheckNodeAffinity(volume, node.Labels); err != nil {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", volume.Name, node.Name, err)
	}
	return nil
}

// A waiter is a pod whose claims are written and not all bound.
type waiter struct {
	pod      *corev1.Pod
	deadline time.Time
	objects  []object // that concern it
}

// An object identifies an API object.
type object struct {
	kind byte
	key  string
}

const (
	ofClaim byte = iota
	ofVolume
	ofNode
	ofPod
)

// waiters are the waiting pods, by the objects that concern them, in the order in which they began to
// wait.
type waiters map[object][]*waiter

// wait has a pod woken when an object changes that concerns it, and when the time limit ends.
func (p *Plugin) wait(pod *corev1.Pod, s *state, node string) {
	volumes := s.byNode[node]
	w := &waiter{
		pod: pod, deadline: p.process.Now().Add(p.args.BindTimeout),
		objects: []object{{ofNode, node}, {ofPod, keyOf(pod)}},
	}
	for i := range volumes.bindings {
		w.objects = append(w.objects, object{ofVolume, volumes.bindings[i].volume.Name}, object{ofClaim, keyOf(volumes.bindings[i].claim)})
	}
	for i := range volumes.provisions {
		w.objects = append(w.objects, object{ofClaim, keyOf(volumes.provisions[i].claim)})
	}
	for _, of := range w.objects {
		if !slices.Contains(p.waiters[of], w) {
			p.waiters[of] = append(p.waiters[of], w)
		}
	}
	s.waiter = w
	p.timeouts.AddAfter(cache.MetaObjectToName(pod), p.args.BindTimeout)
}

func (p *Plugin) stopWaiting(s *state) {
	w := s.waiter
	if w == nil {
		return
	}
	s.waiter = nil
	for _, of := range w.objects {
		p.waiters[of] = slices.DeleteFunc(p.waiters[of], func(other *waiter) bool { return other == w })
		if len(p.waiters[of]) == 0 {
			delete(p.waiters, of)
		}
	}
	if len(p.waiters[object{ofPod, keyOf(w.pod)}]) == 0 {
		p.timeouts.Cancel(cache.MetaObjectToName(w.pod))
	}
}

// wakeFor wakes the pods that an object concerns.
func (p *Plugin) wakeFor(of object) {
	for _, w := range p.waiters[of] {
		p.wake(w.pod)
	}
}

func (p *Plugin) timedOut(_ context.Context, pod cache.ObjectName) error {
	p.wakeFor(object{ofPod, pod.String()})
	return nil
}
