package kubelet

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim"
)

// The Lease of a node is valid for leaseDuration, and is renewed after each leasePeriod. A failed
// write is retried after leaseBackoffMin, and at most leaseBackoffMax later.
//
// Upstream: pkg/kubelet/apis/config NodeLeaseDurationSeconds; pkg/kubelet
// nodeLeaseRenewIntervalFraction (v1.36); component-helpers apimachinery/lease backoffEnsureLease.
const (
	leaseDuration   = 40 * time.Second
	leasePeriod     = leaseDuration / 4
	leaseBackoffMin = 200 * time.Millisecond
	leaseBackoffMax = 7 * time.Second
)

// watchLease adds the queue that renews the Lease of the node, if configured. It begins when the
// node is registered.
//
// The library is not used: it has a goroutine and the wall clock.
//
// Differs: without jitter, for which upstream adds up to 4% to each period. A write that fails for
// another reason than a conflict is retried with back-off; upstream first retries it five times
// without a delay.
//
// Upstream: component-helpers apimachinery/lease controller.
func (k *Kubelet) watchLease() {
	if !k.cfg.NodeLease {
		return
	}
	k.leases = sim.NewQueue[string](k.cfg.Process, sim.QueueConfig{
		Name: "node lease", BackoffMin: leaseBackoffMin, BackoffMax: leaseBackoffMax, Heartbeat: true,
	})
	k.leases.Work(k.syncLease)
}

// beginLease starts the renewals, once.
func (k *Kubelet) beginLease() {
	if k.leases != nil && !k.leaseBegun {
		k.leaseBegun = true
		k.leases.Add(k.cfg.Node)
	}
}

// syncLease renews the Lease, or creates it, and schedules the next renewal. While the node does not
// exist there is nothing to renew.
func (k *Kubelet) syncLease(ctx context.Context, name string) error {
	if k.lease == nil || k.renewLease(ctx, k.lease) != nil {
		if err := k.ensureLease(ctx); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	k.leases.AddAfter(name, leasePeriod)
	return nil
}

// ensureLease reads the Lease and renews it, or creates it.
func (k *Kubelet) ensureLease(ctx context.Context) error {
	k.lease = nil
	leases := k.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	stored, err := leases.Get(ctx, k.cfg.Node, metav1.GetOptions{})
	if err == nil {
		return k.renewLease(ctx, stored)
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: k.cfg.Node},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(k.cfg.Node)},
	}
	if err := k.prepareLease(ctx, lease); err != nil {
		return err
	}
	created, err := leases.Create(ctx, lease, metav1.CreateOptions{})
	if err == nil {
		k.lease = created
	}
	return err
}

// renewLease writes the Lease with the current time. stored is read-only.
func (k *Kubelet) renewLease(ctx context.Context, stored *coordinationv1.Lease) error {
	lease := stored.DeepCopy()
	if err := k.prepareLease(ctx, lease); err != nil {
		return err
	}
	updated, err := k.cfg.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{})
	if err == nil {
		k.lease = updated
	}
	return err
}

// prepareLease sets the fields of a Lease that each write sets, and the node as its owner if it has
// none.
//
// Upstream: pkg/kubelet/util SetNodeOwnerFunc (v1.36).
func (k *Kubelet) prepareLease(ctx context.Context, lease *coordinationv1.Lease) error {
	if len(lease.OwnerReferences) == 0 {
		node, err := k.cfg.Client.CoreV1().Nodes().Get(ctx, k.cfg.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
	lease.Spec.LeaseDurationSeconds = ptr.To(int32(leaseDuration / time.Second))
	lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(k.cfg.Process.Now().Truncate(time.Microsecond)))
	return nil
}
