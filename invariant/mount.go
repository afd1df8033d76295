package invariant

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about mounts.
var mountRules = []builtIn{
	{"I25", "a file lost from a volume", nodeRule(beginFilesStay)},
	{"I26", "a mount that a restarted kubelet has not reconstructed", nodeRule(beginReconstructed)},
	{"I27", "a volume unmounted from a pod that runs, or a pod that runs without it", nodeRule(beginRunningKeeps)},
	{"I35", "a mount of a volume not reported in use, or never listed as attached", nodeRule(beginReportFirst)},
	{"I36", "a mounted volume that its node does not report in use", nodeRule(beginMountedInUse)},
	{
		"I37", "a volume mounted twice at the path of a pod, or at a path that is not its own",
		nodeRule(beginMountedOnce),
	},
}

// A fileLister is a Backend that also lists the files in volumes.
type fileLister interface {
	// Files returns the paths of the files in a volume, sorted.
	Files(handle string) []string
}

// A fileTracker records the known files of each volume.
type fileTracker struct {
	*Checker
	files map[volumeOnNode][]string // by volume, without a node
}

// beginFilesStay checks that a file seen in a volume exists as long as the volume. Only containers delete
// files in these worlds, but the removal of a directory through a mount would. It checks when the
// deletion of a pod begins and when a kubelet is restarted, before any cleanup, and after each
// mount, unmount and detach. It does not detect the removal of an empty directory.
func beginFilesStay(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	k := &fileTracker{c, reuse.Map[volumeOnNode, []string](c.Reuse)}
	c.files = k
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			pod := e.After.(*corev1.Pod)
			if pod.DeletionTimestamp == nil && e.Type != watch.Deleted {
				return
			}
			for _, name := range volumesOfPod(c.API, pod) {
				if v := csiVolumeNamed(c.API, name); v != nil {
					k.check(volumeAt(v, ""), "pod "+pod.Namespace+"/"+pod.Name+" was to be deleted")
				}
			}
		},
		call: func(r trace.Record) {
			switch r.Verb {
			case "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume":
				call := deviceCallOf(r)
				k.check(volumeOnNode{call.driver, call.handle, ""}, r.Verb)
			}
		},
		event:   func(trace.Record) { k.checkAll() },
		settled: func(func(format string, a ...any)) { k.checkAll() },
	}
}

func (k *fileTracker) checkAll() {
	for b := range k.backends() {
		if _, ok := b.(fileLister); !ok {
			continue
		}
		for _, v := range b.Volumes() {
			k.check(volumeOnNode{b.Driver(), v.Handle, ""}, "a look at all volumes")
		}
	}
}

// check compares the files of a volume with the known ones.
func (k *fileTracker) check(volume volumeOnNode, when string) {
	b := k.backend(volume.driver)
	in, ok := b.(fileLister)
	if !ok {
		return
	}
	if _, ok := b.Volume(volume.handle); !ok {
		delete(k.files, volume)
		return
	}
	files := in.Files(volume.handle)
	for _, f := range k.files[volume] {
		if _, found := slices.BinarySearch(files, f); !found {
			k.report("I25", "file %s of volume %s is gone; seen at %s", f, volume.handle, when)
		}
	}
	k.files[volume] = files
}

// relearn takes in what a container has changed.
func (k *fileTracker) relearn() {
	for volume := range k.files { // any order
		if in, lists := k.backend(volume.driver).(fileLister); lists {
			k.files[volume] = in.Files(volume.handle)
		}
	}
}

// beginReconstructed checks that, at rest, mounts and directories on a ready node whose kubelet was
// restarted belong to existing pods. Without a restart, L6 checks this.
func beginReconstructed(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	left := mountLeaks{c, reuse.Map[string, bool](c.Reuse)}
	return watcher{
		event: left.restart,
		settled: func(report func(format string, a ...any)) {
			left.each(true,
				func(node, what string) { report("node %s, whose kubelet was restarted, has %s", node, what) })
		},
	}
}

// beginRunningKeeps checks that no volume or subPath is unmounted from a running pod that is not
// being deleted. At rest, such a pod has its volumes and its containers have their subPaths,
// whatever happened to its node.
func beginRunningKeeps(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	pods := reuse.Map[types.UID, types.NamespacedName](c.Reuse)
	runs := reuse.Map[types.UID, int64](c.Reuse) // the revision since which a pod runs
	note := func(pod fake.Object) {
		pods[pod.GetUID()] = types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}
	}
	for _, pod := range c.API.List("pods") {
		note(pod)
	}
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			switch e.Type {
			case watch.Added:
				note(e.After)
			case watch.Deleted:
				delete(pods, e.After.GetUID())
				delete(runs, e.After.GetUID())
			default:
				was, is := e.Before.(*corev1.Pod), e.After.(*corev1.Pod)
				if was.Status.Phase != corev1.PodRunning && is.Status.Phase == corev1.PodRunning {
					runs[is.UID] = e.Revision
				}
			}
		},
		call: func(r trace.Record) {
			if !unmountsVolume(r) && r.Verb != "UnbindSubPath" || !tookEffect(r) {
				return
			}
			call := deviceCallOf(r)
			at, _ := podPathAt(call.path)
			key, ok := pods[types.UID(at.uid)]
			if !ok {
				return
			}
			obj, ok := c.API.Get("pods", key.Namespace, key.Name)
			if pod, _ := obj.(*corev1.Pod); ok && string(pod.UID) == at.uid && pod.Status.Phase == corev1.PodRunning &&
				pod.DeletionTimestamp == nil && !(r.Verb == "UnbindSubPath" && c.sawBefore(r, key, runs[pod.UID])) {
				c.report("I27",
					"volume %s is unmounted from pod %s, which runs on node %s", call.handle, key, call.node)
			}
		},
		settled: c.checkRunningPods,
	}
}

// sawBefore reports whether the kubelet that made a call has a pod in a state older than a
// revision. With an old list it prepares the containers of a running pod again, and binds a subPath
// once more that leads to another file now.
func (c *Checker) sawBefore(r trace.Record, pod types.NamespacedName, revision int64) bool {
	records := c.Log.Records()
	i := lastDelivery(records, componentOf(r.Task), "pods/"+pod.String())
	return i >= 0 && revisionInDetail(records[i].Detail) < revision
}

// checkRunningPods reports the volumes that are not mounted for running pods of ready nodes.
func (c *Checker) checkRunningPods(report func(format string, a ...any)) {
	mounted := map[podMount]bool{}
	for _, node := range c.Devices.Nodes() {
		for _, m := range c.Devices.Mounts(node) {
			if at, ok := podMountAt(m.Path); ok {
				mounted[at] = true
			}
		}
	}
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil ||
			!isReady(nodeNamed(c.API, pod.Spec.NodeName)) {
			continue
		}
		for _, name := range volumesOfPod(c.API, withMounts(pod)) {
			if !mounted[podMount{string(pod.UID), name}] && !c.hidesMounts(csiVolumeNamed(c.API, name).Spec.CSI.Driver) {
				report("pod %s/%s runs on node %s, and its volume %s is not mounted", pod.Namespace,
					pod.Name, pod.Spec.NodeName, name)
			}
		}
		c.checkOwnVolumes(pod, report)
		c.checkSubPathsPresent(pod, report)
	}
}

// withMounts returns a pod with only those volumes that its containers mount.
func withMounts(pod *corev1.Pod) *corev1.Pod {
	mounts := map[string]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, m := range containers[i].VolumeMounts {
				mounts[m.Name] = true
			}
		}
	}
	with := *pod
	with.Spec.Volumes = slices.DeleteFunc(slices.Clone(pod.Spec.Volumes),
		func(v corev1.Volume) bool { return !mounts[v.Name] })
	return &with
}

// beginReportFirst checks that a volume is in the node's volumesInUse when it is staged or
// published, and was in volumesAttached at some time since it was added there. It need not be in
// volumesAttached now: the attach/detach controller removes a volume from it before it checks
// whether the node uses it. Nodes that do not exist, or were created again while their kubelet ran,
// are ignored.
func beginReportFirst(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	told := reuse.Map[volumeOnNode, bool](c.Reuse) // in use, and attached at some time since
	recreated := reuse.Map[string, bool](c.Reuse)  // nodes that were deleted once
	look := func(was, is *corev1.Node) {
		for _, at := range dropped(was, is) {
			delete(told, at)
		}
		for _, name := range is.Status.VolumesInUse {
			if driver, handle, ok := splitUniqueVolume(name); ok && lists(is, name) {
				told[volumeOnNode{driver, handle, is.Name}] = true
			}
		}
	}
	for _, node := range c.API.List("nodes") {
		look(nil, node.(*corev1.Node))
	}
	return watcher{
		commits: []string{"nodes"},
		commit: func(e fake.Commit) {
			was, _ := e.Before.(*corev1.Node)
			if e.Type == watch.Deleted {
				recreated[was.Name] = true
				return
			}
			look(was, e.After.(*corev1.Node))
		},
		call: func(r trace.Record) {
			if r.Verb != "NodeStageVolume" && r.Verb != "NodePublishVolume" || !tookEffect(r) {
				return
			}
			call := deviceCallOf(r)
			node := nodeNamed(c.API, call.node)
			switch {
			case node == nil || recreated[call.node] || !c.mustBeAttached(call):
			case !slices.Contains(node.Status.VolumesInUse, uniqueVolume(call.driver, call.handle)):
				c.report("I35",
					"volume %s is mounted on node %s, which has not reported it in use", call.handle, call.node)
			case !told[call.at()]:
				c.report("I35",
					"volume %s is mounted on node %s, which never listed it as attached", call.handle, call.node)
			}
		},
	}
}

// mustBeAttached reports whether the volume of a node's call is one that is attached first. Those of other
// drivers than that of Devices are not if the drivers say so, or if they are in the pods' manifests.
func (c *Checker) mustBeAttached(call deviceCall) bool {
	return !c.isOther(call.driver) || c.isAttachable(call.driver) && c.csiVolumeOf(call.driver, call.handle) != nil
}

// beginMountedInUse checks that a volume leaves a node's volumesInUse only when it is not mounted
// on the node. I35 checks that it is added before the mount.
func beginMountedInUse(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{
		commits: []string{"nodes"},
		commit: func(e fake.Commit) {
			was, _ := e.Before.(*corev1.Node)
			if e.Type == watch.Deleted {
				return
			}
			for _, at := range dropped(was, e.After.(*corev1.Node)) {
				if mounts := c.mountsOf(at); len(mounts) > 0 {
					c.report("I36", "node %s no longer reports volume %s in use, which is mounted at %s",
						was.Name, at.handle, mounts[0].Path)
				}
			}
		},
	}
}

// beginMountedOnce checks that one volume is mounted at a path after a publish, and that the path
// is that of a pod's volume.
func beginMountedOnce(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	return watcher{call: func(r trace.Record) {
		if r.Verb != "NodePublishVolume" || !tookEffect(r) {
			return
		}
		call := deviceCallOf(r)
		if _, ok := podMountAt(call.path); !ok {
			c.report("I37", "volume %s is published on node %s at %s, which is not the path of a pod's volume",
				call.handle, call.node, call.path)
		}
		if n := len(mountsAt(c.Devices.Mounts(call.node), call.path)); n > 1 {
			c.report("I37", "volume %s is published on node %s at %s, where there are %d mounts now",
				call.handle, call.node, call.path, n)
		}
	}}
}
