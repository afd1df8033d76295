package resizer

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// A modifier is the part of a Controller that modifies volumes. Upstream, too, it has a queue of its
// own: a volume is expanded and modified at the same time.
type modifier struct {
	*Controller
	classes storagelisters.VolumeAttributesClassLister

	// queue holds the claims to look at, namespace/name, and slow those whose modification the driver
	// called infeasible. The retries of the latter are heartbeats: a world in which they fail is at rest.
	queue, slow *sim.Queue[string]
	working     map[string]bool // claims that a worker of either queue handles

	// settled holds, by claim, the class of the last modification that has ended. A modification that
	// is in progress by its status and not here is uncertain: the driver may still be at work.
	settled map[types.UID]string
	// infeasible holds, by claim, the modification that failed last and is not tried again soon.
	infeasible map[types.UID]infeasible
}

// An infeasible modification is one that the driver refused.
type infeasible struct {
	until   time.Time // of the next attempt
	message string    // of the event
}

// newModifier registers queues, workers and a handler. It is called when a claim first needs a
// modification, so a resizer without one has no cache of classes.
//
// Differs: upstream has 10 workers. It looks at an infeasible modification with the back-off of its
// queue, tries it again once five minutes have passed, and reports it again; here it is tried every
// five minutes, and only another result is reported.
//
// Upstream: external-resizer pkg/modifycontroller NewModifyController (2.3.0).
func newModifier(c *Controller) *modifier {
	m := &modifier{
		Controller: c, classes: c.cfg.Informers.Storage().V1().VolumeAttributesClasses().Lister(),
		queue: sim.NewQueue[string](c.cfg.Process,
			sim.QueueConfig{Name: "modifications", BackoffMin: backoffMin, BackoffMax: backoffMax}),
		slow: sim.NewQueue[string](c.cfg.Process, sim.QueueConfig{
			Name: "infeasible", BackoffMin: backoffMin, BackoffMax: backoffMax, Heartbeat: true,
		}),
		working: map[string]bool{}, settled: map[types.UID]string{}, infeasible: map[types.UID]infeasible{},
	}
	eventhandler.Add(c.cfg.Informers.Storage().V1().VolumeAttributesClasses().Informer(), m.classChanged, nil)
	m.queue.Work(m.alone)
	m.slow.Work(m.retry)
	return m
}

// forget removes what is known of a claim. m may be nil.
func (m *modifier) forget(claim types.UID) {
	if m != nil {
		delete(m.settled, claim)
		delete(m.infeasible, claim)
	}
}

// classChanged queues the claims that wait for a class.
//
// Differs: upstream leaves a claim pending whose class is created later, until the claim requests
// another class or the resizer starts again.
func (m *modifier) classChanged(was, class *storagev1.VolumeAttributesClass) {
	if was == nil {
		for _, key := range waitingFor(m.claims, class) {
			m.queue.Add(key)
		}
	}
}

// modificationChanged reports whether the modification of a changed claim must be looked at. before is
// nil for a new claim.
//
// Upstream: external-resizer pkg/modifycontroller addPVC, updatePVC (2.3.0).
func modificationChanged(before, after *corev1.PersistentVolumeClaim) bool {
	switch {
	case !needsModification(after):
		return false
	case before == nil, after.Status.ModifyVolumeStatus == nil:
		return true
	default:
		return before.Status.Phase != corev1.ClaimBound || requestedClass(before) != requestedClass(after)
	}
}

// needsModification reports whether a claim is bound and its volume must be modified, or is by its
// status.
func needsModification(claim *corev1.PersistentVolumeClaim) bool {
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return false
	}
	switch decideModification(claim, false) {
	case modificationNone:
		return false
	case modificationCancel:
		return hasCondition(claim, conditionModifying)
	default:
		return true
	}
}

// waitingFor returns the sorted keys of the claims whose volumes must be modified to a class.
func waitingFor(claims corelisters.PersistentVolumeClaimLister, class *storagev1.VolumeAttributesClass) []string {
	all, err := claims.List(labels.Everything())
	if err != nil {
		panic("resizer: list claims: " + err.Error())
	}
	var keys []string
	for _, claim := range all {
		if requestedClass(claim) == class.Name && needsModification(claim) {
			keys = append(keys, claim.Namespace+"/"+claim.Name)
		}
	}
	slices.Sort(keys)
	return keys
}

// retry tries an infeasible modification again. If the result is not known, or another one, the other
// queue continues.
func (m *modifier) retry(ctx context.Context, key string) error {
	if m.alone(ctx, key) != nil {
		m.queue.AddRateLimited(key)
	}
	return nil
}

// alone modifies the volume of a claim once no other worker handles that claim.
func (m *modifier) alone(ctx context.Context, key string) error {
	if m.working[key] {
		m.cfg.Process.Wait("modification of "+key, 0, func() bool { return !m.working[key] })
	}
	m.working[key] = true
	defer delete(m.working, key)
	return m.modify(ctx, key)
}

// isSettled reports whether the driver has finished with the target in a claim's status.
//
// Differs: upstream keeps the opposite, a set of uncertain claims, which it fills from the list with
// which it begins. A modification that is in progress, and that such a list does not show yet, is
// lost there.
func (m *modifier) isSettled(claim *corev1.PersistentVolumeClaim) bool {
	class, ok := m.settled[claim.UID]
	return ok && class == targetClass(claim)
}

// refuse records an infeasible modification, schedules its next attempt, and reports whether it
// failed differently before.
//
// Upstream: external-resizer pkg/modifycontroller markForSlowRetry (2.3.0).
func (m *modifier) refuse(claim *corev1.PersistentVolumeClaim, message string) (changed bool) {
	before := m.infeasible[claim.UID]
	m.infeasible[claim.UID] = infeasible{until: m.cfg.Process.Now().Add(backoffMax), message: message}
	m.slow.AddAfter(claim.Namespace+"/"+claim.Name, backoffMax)
	return before.message != message
}

// isDelayed reports whether the modification that a claim requests was infeasible recently. Another
// class ends the delay.
//
// Upstream: external-resizer pkg/modifycontroller delayModificationIfRecentlyInfeasible (2.3.0).
func (m *modifier) isDelayed(claim *corev1.PersistentVolumeClaim) bool {
	refused, ok := m.infeasible[claim.UID]
	if !ok {
		return false
	}
	wanted := claim.Spec.VolumeAttributesClassName
	if claim.Status.ModifyVolumeStatus == nil || wanted == nil || targetClass(claim) != *wanted {
		delete(m.infeasible, claim.UID)
		return false
	}
	return m.cfg.Process.Now().Before(refused.until)
}

// currentClass returns the VolumeAttributesClass in a claim's status, or "".
func currentClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")
}

func (m *modifier) now() metav1.Time { return metav1.NewTime(m.cfg.Process.Now()) }
