package invariant

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/sim/trace"
)

// A reselectionTracker is the state of I62. The scheduler may select a full node again if it asked before
// the extender's cache had the record or the class, or got no answer.
type reselectionTracker struct {
	*Checker
	full  map[string]int64            // by claim and record: the revision of the record when its node was removed
	seen  map[string]int64            // by record: what the extender's cache has; "": all; classesSeen: of classes
	asked map[string]map[string]int64 // by pod: seen when the scheduler asked last
}

// classesSeen is the key of the revision that the extender's cache of classes has. No record has this name.
const classesSeen = "/classes"

// beginSelectedAgain checks that the scheduler does not select a node again that was removed from a claim,
// while its record is the same and shows no space.
func beginSelectedAgain(c *Checker) watcher {
	t := &reselectionTracker{
		Checker: c, full: map[string]int64{}, seen: map[string]int64{classesSeen: math.MaxInt64}, asked: map[string]map[string]int64{},
	}
	return watcher{
		writes: claimsOnly, write: t.write,
		deliver: func(r trace.Record) {
			resource, name, _ := strings.Cut(r.Object, "/")
			switch {
			case componentOf(r.Task) != localComponent:
			case resource == "storageclasses":
				t.seen[classesSeen] = revisionInDetail(r.Detail)
			case resource == localRecordsTraced:
				if r.Verb == "LIST" {
					maps.DeleteFunc(t.seen, func(name string, _ int64) bool { return name != classesSeen })
				}
				t.seen[name] = revisionInDetail(r.Detail)
			}
		},
		call: func(r trace.Record) {
			pod, ok := strings.CutPrefix(r.Object, localProvisioner+"/")
			if !ok || r.Verb != "ExtenderFilter" {
				return
			}
			if delete(t.asked, pod); r.Err == nil {
				t.asked[pod] = maps.Clone(t.seen)
			}
		},
		event: func(r trace.Record) {
			if endsProcess(r, localComponent) {
				clear(t.asked) // there may be no answer
				clear(t.seen)
			}
		},
	}
}

// write observes which nodes are selected, and removed.
func (t *reselectionTracker) write(r trace.Record) {
	before, _ := r.Before.(*corev1.PersistentVolumeClaim)
	after, _ := r.After.(*corev1.PersistentVolumeClaim)
	if before == nil || after == nil || !tookEffect(r) {
		return
	}
	from, to := before.Annotations[storagehelpers.AnnSelectedNode], after.Annotations[storagehelpers.AnnSelectedNode]
	class := storagehelpers.GetPersistentVolumeClaimClass(after)
	switch {
	case from == to:
	case to == "":
		if record, ok := t.localRecord(class, from); ok && componentOf(r.Task) == localManager(from) {
			t.full[string(after.UID)+"/"+record.name] = record.revision
		}
	case componentOf(r.Task) == schedulerComponent:
		record, ok := t.localRecord(class, to)
		since, cleared := t.full[string(after.UID)+"/"+record.name]
		if !ok || !cleared || record.revision != since || record.fits(requestedBytes(after), 0) {
			return
		}
		if pod := t.userOf(after); pod != nil && t.knew(pod, record.name) >= since && t.knewClass(pod, class) {
			t.report("I62", "%s selected %s again for claim %s/%s, which requests %d bytes; record %s shows %d free",
				r.Task, to, after.Namespace, after.Name, requestedBytes(after), record.name, record.free)
		}
	}
}

// knew returns the revision of a record that the extender's cache had when it was asked about a pod; 0 if
// it was not asked.
func (t *reselectionTracker) knew(pod *corev1.Pod, record string) int64 {
	known := t.asked[pod.Namespace+"/"+pod.Name]
	return max(known[record], known[""])
}

// knewClass reports whether the extender's cache had a class when it was asked about a pod.
func (t *reselectionTracker) knewClass(pod *corev1.Pod, class string) bool {
	obj, ok := t.API.Get("storageclasses", "", class)
	return ok && t.asked[pod.Namespace+"/"+pod.Name][classesSeen] >= revisionOf(obj.GetResourceVersion())
}

// beginLocalClaims checks at rest that a claim with a selected node is bound if the manager of the node
// runs, and that no claim of a pod that fits on any node waits while a record shows space for it.
func beginLocalClaims(c *Checker) watcher {
	life, others := newLocalLife(c), false
	return watcher{
		event: life.event,
		call: func(r trace.Record) {
			others = others || r.Verb == "ExtenderFilter" && !strings.HasPrefix(r.Object, localProvisioner+"/")
		},
		rest: func(report func(object, why string)) {
			for _, obj := range c.API.List("persistentvolumeclaims") {
				claim := obj.(*corev1.PersistentVolumeClaim)
				if !c.needsLocalVolume(claim) {
					continue
				}
				why := life.whyUnbound(claim)
				if why == "" && !others { // another extender may refuse the node
					why = life.whyWaiting(claim)
				}
				if why != "" {
					report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, why)
				}
			}
		},
	}
}

// needsLocalVolume reports whether a claim must get a volume of local storage, once a pod needs it.
func (c *Checker) needsLocalVolume(claim *corev1.PersistentVolumeClaim) bool {
	obj, ok := c.API.Get("storageclasses", "", storagehelpers.GetPersistentVolumeClaimClass(claim))
	if !ok || obj.(*storagev1.StorageClass).Provisioner != localProvisioner || claim.DeletionTimestamp != nil {
		return false
	}
	_, delayed := c.classOf(claim)
	spec := claim.Spec
	return delayed && spec.VolumeName == "" && spec.Selector == nil && spec.DataSource == nil && spec.DataSourceRef == nil &&
		c.volumeNamed("pvc-"+string(claim.UID)) == nil
}

// whyUnbound returns that a claim has a selected node, but no volume; "" if it may wait.
func (l *localLife) whyUnbound(claim *corev1.PersistentVolumeClaim) string {
	node := claim.Annotations[storagehelpers.AnnSelectedNode]
	if node == "" || nodeNamed(l.API, node) == nil || !l.manages(node) {
		return ""
	}
	return fmt.Sprintf("is not bound although node %s is selected for it", node)
}

// whyWaiting returns which node a claim without a selected node could have; "" if there is none.
func (l *localLife) whyWaiting(claim *corev1.PersistentVolumeClaim) string {
	pod := l.userOf(claim)
	if claim.Annotations[storagehelpers.AnnSelectedNode] != "" || pod == nil || !needsOnly(pod, claim) {
		return ""
	}
	for _, name := range []string{schedulerComponent, localComponent} {
		if l.down[name] || !l.controllers[name] {
			return ""
		}
	}
	promised := l.promised()
	for _, obj := range l.API.List(localRecords) {
		r := localRecordOf(obj)
		if r.class == storagehelpers.GetPersistentVolumeClaimClass(claim) && l.namesNode(r.class, r.node) && l.takesPods(r.node) &&
			r.fits(requestedBytes(claim), promised[r.name]) {
			return fmt.Sprintf("has no node, and needs %d bytes; record %s shows %d free", requestedBytes(claim), r.name, r.free)
		}
	}
	return ""
}

// promised returns the bytes of each record that are promised to claims with a selected node.
func (l *localLife) promised() map[string]int64 {
	sums := map[string]int64{}
	for _, obj := range l.API.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		if node := claim.Annotations[storagehelpers.AnnSelectedNode]; node != "" && claim.Spec.VolumeName == "" {
			sums[storagehelpers.GetPersistentVolumeClaimClass(claim)+"."+node] += (requestedBytes(claim) + localExtent - 1) / localExtent * localExtent
		}
	}
	return sums
}

// takesPods reports whether a node takes any pod.
func (l *localLife) takesPods(name string) bool {
	node := nodeNamed(l.API, name)
	return node != nil && !l.down[name] && isReady(node) && !node.Spec.Unschedulable && len(node.Spec.Taints) == 0
}

// needsOnly reports whether a pod waits for a node, and needs nothing there but the volume of a claim.
func needsOnly(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	spec := &pod.Spec
	if spec.NodeName != "" || pod.DeletionTimestamp != nil || hasEnded(pod) || spec.SchedulerName != corev1.DefaultSchedulerName ||
		len(spec.NodeSelector) > 0 || spec.Affinity != nil || len(spec.TopologySpreadConstraints) > 0 || len(spec.SchedulingGates) > 0 ||
		len(spec.ResourceClaims) > 0 || spec.Resources != nil {
		return false
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if len(c.Resources.Requests) > 0 || slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 }) {
			return false
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if name := podclaims.Name(pod, v); name != "" && name != claim.Name || name == "" && v.EmptyDir == nil && v.Projected == nil {
			return false
		}
	}
	return true
}
