package invariant

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A directory is a directory of a node's disk that is a volume.
type directory struct{ node, path string }

// A directoryTracker is the state of I41.
type directoryTracker struct {
	*Checker
	files   map[directory][]string
	owner   map[directory]types.UID // of an emptyDir: the pod with which it ends
	volumes map[directory]string    // of a PersistentVolume: its name
}

// beginDirectoriesKeep checks that a file seen in a volume that is a directory of the node exists
// as long as the volume: an emptyDir as long as its pod, in memory also only until the node boots,
// and a hostPath or local volume that is retained indefinitely. Only containers delete files in these
// worlds. It checks when a kubelet has called a plugin of such volumes, at each event, and at rest.
func beginDirectoriesKeep(c *Checker) watcher {
	if _, ok := c.Devices.(diskReader); !ok {
		return watcher{}
	}
	t := &directoryTracker{c, reuse.Map[directory, []string](c.Reuse), reuse.Map[directory, types.UID](c.Reuse), reuse.Map[directory, string](c.Reuse)}
	c.directories = t
	for _, pod := range c.API.List("pods") {
		t.observe(pod.(*corev1.Pod))
	}
	return watcher{
		commits: []string{"pods"},
		commit: func(e fake.Commit) {
			pod := e.After.(*corev1.Pod)
			if e.Type == watch.Deleted || pod.DeletionTimestamp != nil || hasEnded(pod) {
				t.checkPod(pod)
				t.forget(pod)
				return
			}
			t.observe(pod)
		},
		call: func(r trace.Record) {
			if changesPodFiles(r.Verb) {
				t.checkNode(nodeOfTask(r.Task))
			}
		},
		event: func(r trace.Record) {
			t.checkNode(restartedNode(r))
			if r.Verb == "reboot" {
				t.reboot(restartedNode(r))
			}
		},
		settled: func(func(format string, a ...any)) {
			for _, node := range c.Devices.Nodes() {
				t.checkNode(node)
			}
		},
	}
}

// changesPodFiles reports whether a call may change a volume that is a directory.
func changesPodFiles(verb string) bool {
	switch verb {
	case "SetUp", "TearDown", "WriteFiles", "ReplaceFiles", "LinkFiles", "UnbindSubPath", "RemoveSubPaths":
		return true
	default:
		return false
	}
}

// observe adds the directories of a pod that has a node.
func (t *directoryTracker) observe(pod *corev1.Pod) {
	_, root := t.diskOf(pod.Spec.NodeName)
	if root == "" {
		return
	}
	add := func(dir string) directory {
		at := directory{pod.Spec.NodeName, dir}
		if _, known := t.files[at]; !known {
			t.files[at] = nil
		}
		return at
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch name := podclaims.Name(pod, v); {
		case v.EmptyDir != nil:
			plugin, _ := ownPlugin(v)
			t.owner[add(ownPath(root, pod.UID, plugin, v.Name))] = pod.UID
		case v.HostPath != nil:
			if !isKubeletDir(v.HostPath.Path) {
				add(path.Join(root, v.HostPath.Path))
			}
		case name != "":
			if pv, dir := t.retained(pod.Namespace, name); dir != "" && !isKubeletDir(dir) {
				t.volumes[add(path.Join(root, dir))] = pv
			}
		}
	}
}

// isKubeletDir reports whether a directory of a machine has the directories of its pods, or is one.
func isKubeletDir(dir string) bool {
	dir = path.Clean(dir)
	return dir == "/" || dir == "/pods" || strings.HasPrefix(dir, "/pods/") || dir == "/var" || dir == "/var/lib" ||
		dir == "/var/lib/kubelet" || strings.HasPrefix(dir, "/var/lib/kubelet/")
}

// retained returns the PersistentVolume of a claim and its directory on the node; "" if it has none,
// or it may be deleted.
func (t *directoryTracker) retained(namespace, claim string) (name, dir string) {
	obj, ok := t.API.Get("persistentvolumeclaims", namespace, claim)
	if !ok {
		return "", ""
	}
	v := t.volumeNamed(obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
	switch {
	case !keepsData(v):
		return "", ""
	case v.Spec.HostPath != nil:
		return v.Name, v.Spec.HostPath.Path
	case v.Spec.Local != nil:
		return v.Name, v.Spec.Local.Path
	default:
		return "", ""
	}
}

func keepsData(v *corev1.PersistentVolume) bool {
	return v != nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// forget removes the directories that end with a pod.
func (t *directoryTracker) forget(pod *corev1.Pod) {
	maps.DeleteFunc(t.owner, func(at directory, uid types.UID) bool {
		if uid != pod.UID {
			return false
		}
		delete(t.files, at)
		return true
	})
}

// reboot forgets what the memory of a node holds.
func (t *directoryTracker) reboot(node string) {
	for _, m := range t.Devices.Mounts(node) {
		if m.FSType != "tmpfs" {
			continue
		}
		for at := range t.files {
			if at.node == node && (at.path == m.Path || strings.HasPrefix(at.path, m.Path+"/")) {
				t.files[at] = nil
			}
		}
	}
}

// checkPod checks the directories that end with a pod.
func (t *directoryTracker) checkPod(pod *corev1.Pod) {
	for _, at := range t.sorted() {
		if t.owner[at] == pod.UID {
			t.check(at)
		}
	}
}

// checkNode checks the directories of a node.
func (t *directoryTracker) checkNode(node string) {
	if len(t.files) == 0 || node == "" {
		return
	}
	for _, at := range t.sorted() {
		if at.node == node {
			t.check(at)
		}
	}
}

func (t *directoryTracker) sorted() []directory {
	return slices.SortedFunc(maps.Keys(t.files), func(a, b directory) int {
		return strings.Compare(a.node+a.path, b.node+b.path)
	})
}

// check compares the files of a directory with the known ones.
func (t *directoryTracker) check(at directory) {
	if name, of := t.volumes[at]; of && !keepsData(t.volumeNamed(name)) {
		delete(t.files, at)
		delete(t.volumes, at)
		return
	}
	now := t.filesIn(at)
	for _, f := range t.files[at] {
		if _, found := slices.BinarySearch(now, f); !found {
			t.report("I41", "file %s is gone from %s of node %s", f, at.path, at.node)
		}
	}
	t.files[at] = now
}

// filesIn returns the files of a directory, sorted.
func (t *directoryTracker) filesIn(at directory) []string {
	disk, _ := t.diskOf(at.node)
	files := map[string]string{}
	readFiles(disk, at.path, "", files)
	return slices.Sorted(maps.Keys(files))
}

// relearn takes in what a container of a node has changed.
func (t *directoryTracker) relearn(node string) {
	for at := range t.files { // any order
		if at.node == node {
			t.files[at] = t.filesIn(at)
		}
	}
}
