package statefulset

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/volsim/volsim/internal/workload"
)

// A state is what a plan is decided from.
type state struct {
	revisions

	set            *appsv1.StatefulSet // its template is that of the update revision
	currentSet     *appsv1.StatefulSet // with the template of the current revision
	pods           []*corev1.Pod
	claim          func(name string) *corev1.PersistentVolumeClaim // nil if it does not exist
	now            time.Time
	maxUnavailable bool // see Config
}

// newState returns a state of a set without claims and time.
func newState(set *appsv1.StatefulSet, pods []*corev1.Pod, at revisions) (*state, error) {
	s := &state{revisions: at, set: set, currentSet: set, pods: pods}
	var err error
	if at.current.Name != at.update.Name {
		s.currentSet, err = revised(set, at.current)
	}
	return s, err
}

// A plan is what a sync does: one batch of works after the other, until one fails.
type plan struct {
	batches    [][]work
	status     appsv1.StatefulSetStatus
	checkAfter time.Duration // when the next pod becomes available; 0: none waits for that
}

// add adds a batch, without works that do nothing.
func (p *plan) add(works ...work) {
	works = slices.DeleteFunc(works, func(w work) bool { return w.isEmpty() })
	if len(works) > 0 {
		p.batches = append(p.batches, works)
	}
}

// A verb is what is done with a pod.
type verb string

const (
	keepPod   verb = ""
	createPod verb = "create"
	updatePod verb = "update"
	deletePod verb = "delete"
)

// A work is what is done for one pod: claims are created, then the pod is written, then the owners
// of claims are updated. A pod whose claims cannot be created is not written.
type work struct {
	verb     verb
	pod      *corev1.Pod
	claims   []*corev1.PersistentVolumeClaim // to create
	blocked  error                           // a claim is being deleted
	owners   []*corev1.PersistentVolumeClaim // to update
	foreign  []string                        // claims that something else controls
	repairs  bool                            // a change of owners is reported as an update of the pod
	quiet    bool                            // it is not reported, also if it fails
	outdated bool                            // a pod is deleted to be created at another revision
}

func (w *work) isEmpty() bool {
	return w.verb == keepPod && len(w.claims) == 0 && w.blocked == nil && len(w.owners) == 0 && len(w.foreign) == 0
}

// decide returns what the set needs.
//
// Upstream: pkg/controller/statefulset defaultStatefulSetControl.updateStatefulSet (v1.36).
func (s *state) decide() plan {
	replicas, condemned := s.split()
	if s.set.DeletionTimestamp != nil {
		return s.newPlan(s.pods)
	}
	p := s.newPlan(slices.Concat(slices.DeleteFunc(slices.Clone(replicas), func(pod *corev1.Pod) bool { return pod == nil }),
		condemned))
	if !s.addEach(&p, len(replicas), func(i int) (work, bool) { return s.replica(firstOrdinal(s.set)+i, replicas[i]) }) {
		return p
	}
	s.addEach(&p, len(condemned), func(i int) (work, bool) {
		w := work{pod: condemned[i], quiet: true}
		s.fixOwners(&w)
		return w, true
	})
	first := s.firstUnavailable(replicas, condemned)
	if !s.addEach(&p, len(condemned), func(i int) (work, bool) { return s.condemned(condemned[i], first) }) {
		return p
	}
	if s.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateStatefulSetStrategyType {
		for _, pod := range s.outdated(replicas) {
			p.add(work{verb: deletePod, pod: pod, outdated: true})
		}
	}
	return p
}

func (s *state) newPlan(pods []*corev1.Pod) plan {
	return plan{status: s.status(pods), checkAfter: workload.NextAvailable(pods, s.set.Spec.MinReadySeconds, s.now)}
}

// split returns the pods by ordinal, nil where one is missing, and those that the set does not have,
// by descending ordinal.
func (s *state) split() (replicas, condemned []*corev1.Pod) {
	replicas = make([]*corev1.Pod, *s.set.Spec.Replicas)
	for _, pod := range s.pods {
		switch ordinal := ordinalOf(pod); {
		case inRange(s.set, ordinal):
			replicas[ordinal-firstOrdinal(s.set)] = pod
		case ordinal >= 0:
			condemned = append(condemned, pod)
		}
	}
	slices.SortFunc(condemned, func(a, b *corev1.Pod) int { return ordinalOf(b) - ordinalOf(a) })
	return replicas, condemned
}

// ordered reports whether the set creates and deletes one pod after the other.
func (s *state) ordered() bool { return s.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement }

// addEach adds the works for n pods. In an ordered set each is a batch, and the first that must be
// waited for is the last; the result reports that there was none. A parallel set waits for nothing,
// and its batches double, so that few requests fail where all would.
//
// Upstream: pkg/controller/statefulset runForAll, slowStartBatch (v1.36).
func (s *state) addEach(p *plan, n int, each func(i int) (w work, goOn bool)) bool {
	if s.ordered() {
		for i := range n {
			w, goOn := each(i)
			p.add(w)
			if !goOn {
				return false
			}
		}
		return true
	}
	for start, size := 0, 1; start < n; start, size = start+size, min(2*size, batchMax) {
		var batch []work
		for i := start; i < min(start+size, n); i++ {
			w, _ := each(i)
			batch = append(batch, w)
		}
		p.add(batch...)
	}
	return true
}

// batchMax bounds a batch.
//
// Upstream: pkg/controller/statefulset MaxBatchSize (v1.36).
const batchMax = 500

// replica returns what is done for a pod of the set, nil if it is missing, and whether an ordered set
// may go on with the next.
//
// Differs: upstream goes on with a pod that it has just created in a parallel set, and may write it
// again.
//
// Upstream: pkg/controller/statefulset defaultStatefulSetControl.processReplica (v1.36).
func (s *state) replica(ordinal int, pod *corev1.Pod) (w work, goOn bool) {
	switch {
	case pod == nil:
		pod = s.newPod(ordinal)
		if s.hasStaleClaim(pod) {
			return work{}, false
		}
		w = work{verb: createPod, pod: pod}
		s.addClaims(&w)
		s.addOwners(&w)
		return w, false
	case workload.HasEnded(pod) && workload.IsTerminating(pod):
		return work{}, false
	case workload.HasEnded(pod):
		return work{verb: deletePod, pod: pod}, false
	}
	w.pod = pod
	if pod.Status.Phase == corev1.PodPending {
		s.addClaims(&w)
		s.addOwners(&w)
	}
	if s.ordered() &&
		(workload.IsTerminating(pod) || !isRunningAndReady(pod) || !workload.IsAvailable(pod, s.set.Spec.MinReadySeconds, s.now)) {
		return w, false
	}
	if len(w.owners) == 0 {
		s.fixOwners(&w)
	}
	if !hasIdentity(s.set, pod) || !hasVolumes(s.set, pod) {
		w.verb, w.pod = updatePod, pod.DeepCopy()
		setIdentity(s.set, w.pod, ordinal)
		if !hasVolumes(s.set, pod) {
			setVolumes(s.set, w.pod)
			if len(w.claims) == 0 && w.blocked == nil {
				s.addClaims(&w)
			}
		}
	}
	return w, true
}

// newPod returns the missing pod of an ordinal. Ordinals below the partition get the current
// revision.
//
// Upstream: pkg/controller/statefulset newVersionedStatefulSetPod (v1.36).
func (s *state) newPod(ordinal int) *corev1.Pod {
	strategy := &s.set.Spec.UpdateStrategy
	below := firstOrdinal(s.set)
	switch {
	case strategy.RollingUpdate != nil:
		below += int(*strategy.RollingUpdate.Partition)
	case strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType:
		below += int(s.set.Status.CurrentReplicas)
	}
	if ordinal < below {
		return newPod(s.currentSet, s.current.Name, ordinal)
	}
	return newPod(s.set, s.update.Name, ordinal)
}

// addClaims adds the missing claims of a pod, with their owners.
//
// Differs: upstream creates claims without owners, and adds them in a later sync. If the set is deleted
// in between, a claim that should be deleted with the set remains.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.createPersistentVolumeClaims (v1.36).
func (s *state) addClaims(w *work) {
	s.eachClaim(w.pod, func(t, claim *corev1.PersistentVolumeClaim) {
		switch {
		case claim == nil:
			w.claims = append(w.claims, withRightOwners(newClaim(s.set, t, ordinalOf(w.pod)), s.set, w.pod))
		case claim.DeletionTimestamp != nil && w.blocked == nil:
			w.blocked = blockedError{"pvc " + claim.Name + " is being deleted"}
		}
	})
}

// addOwners adds the claims of a pod whose owners must change, and names those that something else
// controls.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.UpdatePodClaimForRetentionPolicy (v1.36).
func (s *state) addOwners(w *work) {
	s.eachClaim(w.pod, func(_, claim *corev1.PersistentVolumeClaim) {
		if claim == nil {
			return
		}
		if hasOtherController(claim, s.set, w.pod) {
			w.foreign = append(w.foreign, claim.Name)
		}
		if !hasRightOwners(claim, s.set, w.pod) {
			w.owners = append(w.owners, withRightOwners(claim, s.set, w.pod))
		}
	})
}

// fixOwners is addOwners for a pod that needs nothing else: it adds nothing if all owners are right.
func (s *state) fixOwners(w *work) {
	fix := work{pod: w.pod}
	if s.addOwners(&fix); len(fix.owners) > 0 {
		w.owners, w.foreign, w.repairs = fix.owners, fix.foreign, !w.quiet
	}
}

// eachClaim calls f for each claim template, with the claim that a pod has of it, if it exists.
func (s *state) eachClaim(pod *corev1.Pod, f func(template, claim *corev1.PersistentVolumeClaim)) {
	for i := range s.set.Spec.VolumeClaimTemplates {
		t := &s.set.Spec.VolumeClaimTemplates[i]
		f(t, s.claim(claimName(s.set, t, ordinalOf(pod))))
	}
}

// hasStaleClaim reports whether a missing pod must wait until the garbage collector has deleted a
// claim of an earlier pod of its name.
//
// Upstream: pkg/controller/statefulset StatefulPodControl.PodClaimIsStale (v1.36).
func (s *state) hasStaleClaim(pod *corev1.Pod) bool {
	stale := false
	if retentionOf(s.set).whenScaled {
		s.eachClaim(pod, func(_, claim *corev1.PersistentVolumeClaim) {
			stale = stale || claim != nil && isStale(claim, pod, podKind)
		})
	}
	return stale
}

func (s *state) isUnavailable(pod *corev1.Pod) bool {
	return pod == nil || workload.IsTerminating(pod) || !workload.IsAvailable(pod, s.set.Spec.MinReadySeconds, s.now)
}

// firstUnavailable returns the unavailable pod of the lowest ordinal, preferring those the set has.
// It is nil if there is none, or if it is missing.
func (s *state) firstUnavailable(replicas, condemned []*corev1.Pod) *corev1.Pod {
	if i := slices.IndexFunc(replicas, s.isUnavailable); i >= 0 {
		return replicas[i]
	}
	for _, pod := range slices.Backward(condemned) {
		if s.isUnavailable(pod) {
			return pod
		}
	}
	return nil
}

// condemned returns what is done for a pod that the set does not have. An ordered set deletes one
// that is not available only if it is the first of these.
//
// Upstream: pkg/controller/statefulset defaultStatefulSetControl.processCondemned (v1.36).
func (s *state) condemned(pod, first *corev1.Pod) (w work, goOn bool) {
	switch {
	case workload.IsTerminating(pod):
		return work{}, false
	case s.ordered() && pod != first &&
		(!isRunningAndReady(pod) || !workload.IsAvailable(pod, s.set.Spec.MinReadySeconds, s.now)):
		return work{}, false
	default:
		return work{verb: deletePod, pod: pod}, false
	}
}

// outdated returns the pods to delete because they do not have the update revision, from the highest
// ordinal down.
//
// Upstream: pkg/controller/statefulset updateStatefulSet, updateStatefulSetAfterInvariantEstablished
// (v1.36).
func (s *state) outdated(replicas []*corev1.Pod) []*corev1.Pod {
	from, most := 0, 1
	if r := s.set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		from = int(*r.Partition)
		if s.maxUnavailable {
			most = allowedUnavailable(r.MaxUnavailable, len(replicas))
		}
	}
	isOutdated := func(pod *corev1.Pod) bool {
		return pod != nil && revisionOf(pod) != s.update.Name && !workload.IsTerminating(pod)
	}
	if s.maxUnavailable {
		for _, pod := range replicas {
			if s.isUnavailable(pod) {
				most--
			}
		}
	}
	var out []*corev1.Pod
	for i := len(replicas) - 1; i >= from && len(out) < most; i-- {
		switch {
		case isOutdated(replicas[i]):
			out = append(out, replicas[i])
		case !s.maxUnavailable && s.isUnavailable(replicas[i]):
			return out
		}
	}
	return out
}

// allowedUnavailable returns how many pods may be unavailable: at least one.
//
// Upstream: pkg/controller/statefulset getStatefulSetMaxUnavailable (v1.36).
func allowedUnavailable(most *intstr.IntOrString, replicas int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(most, intstr.FromInt32(1)), replicas, false)
	if err != nil {
		return 1 // validation excludes it
	}
	return max(1, n)
}
