package invariant

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about dynamic local storage: package internal/localstorage.
var localStorageRules = []builtIn{
	{"I59", "a local volume that is not on the node that its PersistentVolume names, or also on another one", localRule(beginLocalVolumes)},
	{"I60", "a volume group that is promised more than it has", localRule(beginGroups)},
	{"I61", "a selected node removed from a claim although its record shows space", localRule(beginCleared)},
	{"I62", "a full node selected again for a claim, although the extender knew that it is full", localRule(beginSelectedAgain)},
	{"L16", "a claim that waits although a node has local storage for it", localRule(beginLocalClaims)},
}

const (
	// localProvisioner is the provisioner of the classes, and the host of the extender.
	localProvisioner = "localstorage.volsim.dev"
	// localRecords is the resource of records, as the server names it; traces have the first part.
	localRecords       = localRecordsTraced + "." + localProvisioner
	localRecordsTraced = "nodelocalstorages"
	// localComponent is the component that is the extender; that of a node has the node in parentheses.
	localComponent = "localstorage"
	// localCalls is the prefix of the objects of calls of a volume group.
	localCalls = "localstorage/"
	// localExtent is the unit in which volumes have space.
	localExtent = 4 << 20
)

// localManager returns the component that keeps the volume groups of a node.
func localManager(node string) string { return localComponent + "(" + node + ")" }

// A localRecord is what the rules read of a record.
type localRecord struct {
	name, class, node, phase string
	revision                 int64
	capacity, free, largest  int64
	volumes                  map[string]int64
}

// fits reports whether a record shows space for a volume, of which some is promised to others.
func (r localRecord) fits(bytes, promised int64) bool {
	bytes = (bytes + localExtent - 1) / localExtent * localExtent
	return r.phase == "Ready" && r.free-promised >= bytes && r.largest >= bytes
}

func localRecordOf(obj fake.Object) localRecord {
	content := obj.(*fake.CustomObject).Content
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(content, fields...)
		return s
	}
	r := localRecord{
		name: obj.GetName(), class: text("spec", "storageClassName"), node: text("spec", "nodeName"), phase: text("status", "phase"),
		revision: revisionOf(obj.GetResourceVersion()), volumes: map[string]int64{},
		capacity: bytesOf(text("status", "capacity")), free: bytesOf(text("status", "free")), largest: bytesOf(text("status", "maximumVolumeSize")),
	}
	volumes, _, _ := unstructured.NestedSlice(content, "status", "volumes")
	for _, each := range volumes {
		v, _ := each.(map[string]any)
		name, _ := v["name"].(string)
		size, _ := v["size"].(string)
		r.volumes[name] = bytesOf(size)
	}
	return r
}

// bytesOf returns a quantity as a number; 0 if it is none.
func bytesOf(text string) int64 {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0
	}
	return q.Value()
}

// localRecord returns the record of a class on a node.
func (c *Checker) localRecord(class, node string) (localRecord, bool) {
	obj, ok := c.API.Get(localRecords, "", class+"."+node)
	if !ok {
		return localRecord{}, false
	}
	return localRecordOf(obj), true
}

// localVolumes returns the PersistentVolumes of local storage.
func (c *Checker) localVolumes() []*corev1.PersistentVolume {
	var all []*corev1.PersistentVolume
	for _, obj := range c.API.List("persistentvolumes") {
		if v := obj.(*corev1.PersistentVolume); isLocalVolume(v) {
			all = append(all, v)
		}
	}
	return all
}

func isLocalVolume(v *corev1.PersistentVolume) bool {
	return v.Spec.Local != nil && v.Annotations[storagehelpers.AnnDynamicallyProvisioned] == localProvisioner
}

// nodeOfVolume returns the host name in the affinity of a local volume. A node here has its name as its
// host name.
func nodeOfVolume(v *corev1.PersistentVolume) string {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return ""
	}
	for _, term := range v.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, each := range term.MatchExpressions {
			if each.Key == corev1.LabelHostname && len(each.Values) == 1 {
				return each.Values[0]
			}
		}
	}
	return ""
}

func requestedBytes(claim *corev1.PersistentVolumeClaim) int64 {
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return requested.Value()
}

// A localLife follows which components of local storage run.
type localLife struct {
	*Checker
	down map[string]bool // components, and nodes without connection
}

func newLocalLife(c *Checker) *localLife { return &localLife{Checker: c, down: map[string]bool{}} }

func (l *localLife) event(r trace.Record) {
	object, _, _ := strings.Cut(r.Object, " ")
	switch r.Verb {
	case "stop", "partition":
		l.down[object] = true
	case "start", "restore":
		delete(l.down, object)
	}
}

// manages reports whether the manager of a node runs and can reach the API server.
func (l *localLife) manages(node string) bool {
	return !l.down[node] && !l.down[localManager(node)] && l.controllers[localManager(node)]
}

// A localVolumeTracker is the state of I59: which nodes have a logical volume of a name.
type localVolumeTracker struct {
	*localLife
	nodes    map[string]map[string]bool // by volume
	retained map[string]bool            // volumes whose PersistentVolume was deleted and that stay
}

// beginLocalVolumes checks at rest that each PersistentVolume has its logical volume on the node that it
// names, and that no other logical volume exists, unless it is retained.
func beginLocalVolumes(c *Checker) watcher {
	t := &localVolumeTracker{localLife: newLocalLife(c), nodes: reuse.Map[string, map[string]bool](c.Reuse), retained: reuse.Map[string, bool](c.Reuse)}
	return watcher{
		commits: volumesOnly,
		commit: func(e fake.Commit) {
			v := e.After.(*corev1.PersistentVolume)
			if e.Type == watch.Deleted && isLocalVolume(v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
				t.retained[v.Name] = true
			}
		},
		call:    t.call,
		event:   t.event,
		settled: t.settled,
	}
}

func (t *localVolumeTracker) call(r trace.Record) {
	name, ok := strings.CutPrefix(r.Object, localCalls)
	if !ok || !tookEffect(r) {
		return
	}
	_, node, _ := strings.Cut(r.Detail, "node=")
	node, _, _ = strings.Cut(node, " ")
	switch r.Verb {
	case "CreateLogicalVolume":
		if t.nodes[name] == nil {
			t.nodes[name] = map[string]bool{}
		}
		t.nodes[name][node] = true
	case "RemoveLogicalVolume":
		delete(t.nodes[name], node)
	}
}

func (t *localVolumeTracker) settled(report func(format string, a ...any)) {
	named := map[string]string{}
	for _, v := range t.localVolumes() {
		named[v.Name] = nodeOfVolume(v)
		if !t.nodes[v.Name][named[v.Name]] {
			report("PersistentVolume %s is of node %q, which has no such logical volume", v.Name, named[v.Name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		for _, node := range slices.Sorted(maps.Keys(t.nodes[name])) {
			if named[name] != node && t.manages(node) && !t.retained[name] && nodeNamed(t.API, node) != nil {
				report("node %s has a logical volume %s, and no PersistentVolume is of it", node, name)
			}
		}
	}
}

// beginGroups checks at rest that the volumes of a group, and what its record has free, are what the
// group has. The record of a group with a lost disk, or without a manager, is not checked.
func beginGroups(c *Checker) watcher {
	life := newLocalLife(c)
	return watcher{event: life.event, settled: func(report func(format string, a ...any)) {
		promised := map[string]int64{}
		for _, v := range c.localVolumes() {
			size := v.Spec.Capacity[corev1.ResourceStorage]
			promised[v.Spec.StorageClassName+"."+nodeOfVolume(v)] += size.Value()
		}
		for _, obj := range c.API.List(localRecords) {
			r := localRecordOf(obj)
			if r.phase != "Ready" || !life.manages(r.node) {
				continue
			}
			listed := int64(0)
			for _, size := range r.volumes {
				listed += size
			}
			if promised[r.name] > r.capacity {
				report("record %s: PersistentVolumes of %d bytes, of %d", r.name, promised[r.name], r.capacity)
			} else if listed+r.free != r.capacity || promised[r.name] > listed {
				report("record %s: %d bytes are free and %d used, of %d, by PersistentVolumes of %d", r.name, r.free, listed, r.capacity, promised[r.name])
			}
		}
	}}
}

// beginCleared checks that a manager removes itself from a claim only if its record does not show space
// for it.
func beginCleared(c *Checker) watcher {
	return watcher{writes: claimsOnly, write: func(r trace.Record) {
		before, _ := r.Before.(*corev1.PersistentVolumeClaim)
		after, _ := r.After.(*corev1.PersistentVolumeClaim)
		if before == nil || after == nil || !tookEffect(r) || after.Annotations[storagehelpers.AnnSelectedNode] != "" {
			return
		}
		node, class := before.Annotations[storagehelpers.AnnSelectedNode], storagehelpers.GetPersistentVolumeClaimClass(after)
		if node == "" || componentOf(r.Task) != localManager(node) || !c.namesNode(class, node) {
			return
		}
		if record, ok := c.localRecord(class, node); ok && record.phase == "Ready" && record.free >= requestedBytes(after) {
			c.report("I61", "%s removed %s from claim %s/%s, which requests %d bytes; record %s shows %d free",
				r.Task, node, after.Namespace, after.Name, requestedBytes(after), record.name, record.free)
		}
	}}
}

// namesNode reports whether a class of local storage exists and names disks of a node.
func (c *Checker) namesNode(class, node string) bool {
	obj, ok := c.API.Get("storageclasses", "", class)
	if !ok || obj.(*storagev1.StorageClass).Provisioner != localProvisioner {
		return false
	}
	var nodes []struct{ Node string }
	err := json.Unmarshal([]byte(obj.(*storagev1.StorageClass).Parameters["nodes"]), &nodes)
	return err == nil && slices.ContainsFunc(nodes, func(n struct{ Node string }) bool { return n.Node == node })
}

// userOf returns the pod that uses a claim, nil if there is none.
func (c *Checker) userOf(claim *corev1.PersistentVolumeClaim) *corev1.Pod {
	for _, obj := range c.API.List("pods") {
		if pod := obj.(*corev1.Pod); pod.Namespace == claim.Namespace && keeps(pod, claim) {
			return pod
		}
	}
	return nil
}
