package invariant

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about scheduling.
var scheduleRules = []builtIn{
	{"I29", "a pod that mounts, for its ephemeral volume, a claim that is not its own", nodeRule(beginOwnClaim)},
	{"I30", "a pod assigned to a node on which its volume cannot be used", beginReachableVolumes},
	{"I31", "more volumes on a node than its driver can attach", nodeRule(beginAttachLimit)},
	{"I32", "a ReadWriteOncePod claim mounted for two pods", nodeRule(beginOnePod)},
	{"L3", "a claim with a selected node that is not bound", beginSelectedBound},
}

// podKeys maps UIDs to pods.
type podKeys map[types.UID]types.NamespacedName

func (k podKeys) commit(e fake.Commit) {
	if pod, ok := e.After.(*corev1.Pod); ok {
		k[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	}
}

// pod returns the pod of a UID; nil if it does not exist.
func (c *Checker) pod(keys podKeys, uid types.UID) *corev1.Pod {
	key := keys[uid]
	obj, ok := c.API.Get("pods", key.Namespace, key.Name)
	if !ok || obj.GetUID() != uid {
		return nil
	}
	return obj.(*corev1.Pod)
}

// claimOfVolume returns the claim of a PersistentVolume; nil if it does not exist.
func (c *Checker) claimOfVolume(name string) *corev1.PersistentVolumeClaim {
	obj, ok := c.API.Get("persistentvolumes", "", name)
	if !ok {
		return nil
	}
	ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, ok := c.API.Get("persistentvolumeclaims", ref.Namespace, ref.Name)
	if !ok || claim.GetUID() != ref.UID {
		return nil
	}
	return claim.(*corev1.PersistentVolumeClaim)
}

// beginOwnClaim checks that a volume published for a pod's ephemeral volume is of a claim that the
// pod controls.
func beginOwnClaim(c *Checker) watcher {
	keys := podKeys{}
	return watcher{
		commits: []string{"pods"},
		commit:  keys.commit,
		call: func(r trace.Record) {
			call := driverCallOf(r)
			if call.rpc != "NodePublishVolume" || !tookEffect(r) {
				return
			}
			uid, volume := podOf(call.path)
			pod, claim := c.pod(keys, uid), c.claimOfVolume(volume)
			if pod == nil || claim == nil || claim.Namespace != pod.Namespace {
				return
			}
			if usesEphemeral(pod, claim.Name) && !metav1.IsControlledBy(claim, pod) {
				c.report("I29", "pod %s/%s mounts volume %s of claim %s, which has the name of its ephemeral volume but is not its own",
					pod.Namespace, pod.Name, volume, claim.Name)
			}
		},
	}
}

func usesEphemeral(pod *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.Ephemeral != nil && pod.Name+"-"+v.Name == claim
	})
}

// volumesOf returns the PersistentVolumes bound to a pod's claims.
func (c *Checker) volumesOf(pod *corev1.Pod) []*corev1.PersistentVolume {
	var volumes []*corev1.PersistentVolume
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = pod.Name + "-" + v.Name
		}
		obj, ok := c.API.Get("persistentvolumeclaims", pod.Namespace, name)
		if name == "" || !ok {
			continue
		}
		claim := obj.(*corev1.PersistentVolumeClaim)
		obj, ok = c.API.Get("persistentvolumes", "", claim.Spec.VolumeName)
		if !ok {
			continue
		}
		if ref := obj.(*corev1.PersistentVolume).Spec.ClaimRef; ref != nil && ref.UID == claim.UID {
			volumes = append(volumes, obj.(*corev1.PersistentVolume))
		}
	}
	return volumes
}

// scheduled returns the pod that a commit assigns to a node; nil if it does not.
func scheduled(e fake.Commit) *corev1.Pod {
	is, ok := e.After.(*corev1.Pod)
	if !ok || e.Type != "MODIFIED" || e.Before.(*corev1.Pod).Spec.NodeName != "" || is.Spec.NodeName == "" {
		return nil
	}
	return is
}

// beginReachableVolumes checks that a pod is assigned to a node that the node affinity of its
// volumes admits. A scheduler whose caches lag may decide by an earlier state. So volumes and
// claims that replaced others of the same name, and nodes whose labels have changed, are ignored.
func beginReachableVolumes(c *Checker) watcher {
	unsteady := reuse.Map[string, bool](c.Reuse) // "resource/namespace/name"
	return watcher{
		commits: []string{"pods", "nodes", "persistentvolumes", "persistentvolumeclaims"},
		commit: func(e fake.Commit) {
			if pod := scheduled(e); pod != nil {
				c.checkReachable(pod, unsteady)
			} else if changesPlace(e) {
				unsteady[path.Join(e.Resource, e.After.GetNamespace(), e.After.GetName())] = true
			}
		},
	}
}

// changesPlace reports whether a commit may change where a pod can run.
func changesPlace(e fake.Commit) bool {
	if e.Resource == "pods" || e.Type == "ADDED" {
		return false
	}
	if e.Type == "DELETED" {
		return true
	}
	switch after := e.After.(type) {
	case *corev1.Node:
		return !maps.Equal(e.Before.GetLabels(), after.Labels)
	case *corev1.PersistentVolume:
		return !apiequality.Semantic.DeepEqual(e.Before.(*corev1.PersistentVolume).Spec.NodeAffinity,
			after.Spec.NodeAffinity)
	default:
		return false
	}
}

func (c *Checker) checkReachable(pod *corev1.Pod, unsteady map[string]bool) {
	node, ok := c.API.Get("nodes", "", pod.Spec.NodeName)
	if !ok || unsteady["nodes/"+pod.Spec.NodeName] {
		return
	}
	for _, v := range c.volumesOf(pod) {
		ref := v.Spec.ClaimRef
		if unsteady["persistentvolumes/"+v.Name] ||
			unsteady[path.Join("persistentvolumeclaims", ref.Namespace, ref.Name)] {
			continue
		}
		if err := storagehelpers.CheckNodeAffinity(v, node.GetLabels()); err != nil {
			c.report("I30", "pod %s/%s was assigned to node %s, where volume %s of claim %s cannot be used: %v",
				pod.Namespace, pod.Name, pod.Spec.NodeName, v.Name, ref.Name, err)
		}
	}
}

// beginAttachLimit checks that a pod is not assigned to a node that has a volume limit if one of
// its volumes would exceed it. A scheduler decides by its cache: the highest limit ever counts, and
// nothing is checked after a restart with old lists.
func beginAttachLimit(c *Checker) watcher {
	highest := reuse.Map[volumeOnNode, int](c.Reuse) // by driver and node
	outdated := false
	learn := func(node *storagev1.CSINode) {
		for _, d := range node.Spec.Drivers {
			at := volumeOnNode{driver: d.Name, node: node.Name}
			switch _, known := highest[at]; {
			case d.Allocatable == nil || d.Allocatable.Count == nil:
				highest[at] = math.MaxInt
			case !known:
				highest[at] = int(*d.Allocatable.Count)
			default:
				highest[at] = max(highest[at], int(*d.Allocatable.Count))
			}
		}
	}
	for _, obj := range c.API.List("csinodes") {
		learn(obj.(*storagev1.CSINode))
	}
	return watcher{
		commits: []string{"pods", "csinodes"},
		commit: func(e fake.Commit) {
			if node, is := e.After.(*storagev1.CSINode); is {
				learn(node)
				return
			}
			pod := scheduled(e)
			if pod == nil || outdated {
				return
			}
			obj, ok := c.API.Get("csinodes", "", pod.Spec.NodeName)
			if !ok {
				return
			}
			for _, d := range obj.(*storagev1.CSINode).Spec.Drivers {
				c.checkLimit(pod, d.Name, highest[volumeOnNode{driver: d.Name, node: pod.Spec.NodeName}])
			}
		},
		event: func(r trace.Record) {
			outdated = outdated || r.Verb == "crash" && strings.HasPrefix(r.Object, "scheduler with ")
		},
	}
}

func (c *Checker) checkLimit(pod *corev1.Pod, driver string, limit int) {
	before, after := map[string]bool{}, map[string]bool{}
	for _, obj := range c.API.List("pods") {
		other := obj.(*corev1.Pod)
		if other.Spec.NodeName != pod.Spec.NodeName || hasEnded(other) {
			continue
		}
		for _, v := range c.volumesOf(other) {
			if v.Spec.CSI == nil || v.Spec.CSI.Driver != driver {
				continue
			}
			after[v.Spec.CSI.VolumeHandle] = true
			if other.UID != pod.UID {
				before[v.Spec.CSI.VolumeHandle] = true
			}
		}
	}
	if len(after) > limit && len(after) > len(before) {
		c.report("I31", "pod %s/%s was assigned to node %s, which has %d volumes of %s now and can have %d",
			pod.Namespace, pod.Name, pod.Spec.NodeName, len(after), driver, limit)
	}
}

// A publication is a volume at a pod's path.
type publication struct {
	component, path string
}

// beginOnePod checks that a volume of a ReadWriteOncePod claim is not published for two pods at
// once.
func beginOnePod(c *Checker) watcher {
	keys := podKeys{}
	published := reuse.Map[types.UID, map[publication]types.UID](c.Reuse) // claim: where: pod
	return watcher{
		commits: []string{"pods"},
		commit:  keys.commit,
		call: func(r trace.Record) {
			call := driverCallOf(r)
			if call.rpc != "NodePublishVolume" && call.rpc != "NodeUnpublishVolume" || !tookEffect(r) {
				return
			}
			pod, volume := podOf(call.path)
			claim := c.claimOfVolume(volume)
			if claim == nil || !slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod) {
				return
			}
			at := publication{call.component, call.path}
			if call.rpc == "NodeUnpublishVolume" {
				delete(published[claim.UID], at)
				return
			}
			if published[claim.UID] == nil {
				published[claim.UID] = map[publication]types.UID{}
			}
			published[claim.UID][at] = pod
			c.checkOnePod(claim, keys, at, published[claim.UID])
		},
		event: func(r trace.Record) {
			if r.Verb != "reboot" {
				return
			}
			for _, where := range published { // the node's mounts are gone
				maps.DeleteFunc(where,
					func(at publication, _ types.UID) bool { return at.component == endedProcess(r) })
			}
		},
	}
}

// checkOnePod checks a claim's volume that is published for a pod. On the same node it must not be
// published for another pod, even an ended or deleted one. On other nodes this applies to existing
// pods that have not ended: the mounts of a node that was given up are unknown.
func (c *Checker) checkOnePod(claim *corev1.PersistentVolumeClaim, keys podKeys, at publication,
	published map[publication]types.UID,
) {
	pod := c.pod(keys, published[at])
	if pod == nil {
		return
	}
	for _, place := range slices.SortedFunc(maps.Keys(published), func(a, b publication) int {
		return cmp.Or(cmp.Compare(a.component, b.component), cmp.Compare(a.path, b.path))
	}) {
		other := c.pod(keys, published[place])
		if published[place] == pod.UID || place.component != at.component && (other == nil || hasEnded(other)) {
			continue
		}
		c.report("I32", "claim %s/%s, for one pod alone, was mounted for pod %s by %s while it is mounted for pod %s by %s",
			claim.Namespace, claim.Name, pod.Name, at.component, keys[published[place]].Name, place.component)
		return
	}
}

// beginSelectedBound checks that, at rest, a claim with a selected node is bound if its driver
// exists and has not refused to provision.
func beginSelectedBound(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		for _, obj := range c.API.List("persistentvolumeclaims") {
			claim := obj.(*corev1.PersistentVolumeClaim)
			node := claim.Annotations[storagehelpers.AnnSelectedNode]
			bound := claim.Spec.VolumeName != "" && claim.Status.Phase == corev1.ClaimBound
			if node == "" || bound || claim.DeletionTimestamp != nil || !c.hasProvisioner(claim) ||
				c.wasRefused(claim) {
				continue
			}
			report(path.Join("persistentvolumeclaims", claim.Namespace, claim.Name),
				fmt.Sprintf("is not bound although node %s is selected for it", node))
		}
	}}
}

// hasProvisioner reports whether the driver of the claim's class exists.
func (c *Checker) hasProvisioner(claim *corev1.PersistentVolumeClaim) bool {
	class, ok := c.API.Get("storageclasses", "", storagehelpers.GetPersistentVolumeClaimClass(claim))
	if !ok {
		return false
	}
	_, ok = c.API.Get("csidrivers", "", class.(*storagev1.StorageClass).Provisioner)
	return ok
}

// wasRefused reports whether an event says that a claim's volume cannot be provisioned.
func (c *Checker) wasRefused(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(c.API.List("events"), func(obj fake.Object) bool {
		e := obj.(*corev1.Event)
		return e.InvolvedObject.UID == claim.UID && e.Reason == "ProvisioningFailed"
	})
}
