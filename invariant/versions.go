package invariant

import (
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// A source is an object of which a pod's volume has files.
type source struct {
	object string             // "configmaps/default/config"
	items  []corev1.KeyToPath // empty: all keys
	whole  bool               // the volume has no other files
}

// A fileVolume is a volume of a pod that has files of objects.
type fileVolume struct {
	pod     *corev1.Pod
	name    string
	path    string // relative to the kubelet's directory
	sources []source
}

// A versionTracker is the state of I42.
type versionTracker struct {
	*Checker
	versions map[string][]map[string]string // of each object: its data, oldest first
	pods     map[types.UID][]fileVolume     // those of running pods
	restarts map[types.UID]int32            // of pods whose node was booted: their restarts before
}

// beginWholeVersions checks that the volumes of a running pod have all the files of one version of
// each object, and of a single object no others. At rest it must be the current version. It checks
// when a pod becomes Running and after each change of a volume. A pod whose node was booted counts
// again when its containers were restarted.
func beginWholeVersions(c *Checker) watcher {
	if _, ok := c.Devices.(diskReader); !ok {
		return watcher{}
	}
	t := &versionTracker{c, reuse.Map[string, []map[string]string](c.Reuse), reuse.Map[types.UID, []fileVolume](c.Reuse), reuse.Map[types.UID, int32](c.Reuse)}
	for _, resource := range []string{"configmaps", "secrets"} {
		for _, obj := range c.API.List(resource) {
			t.addVersion(resource, obj)
		}
	}
	for _, pod := range c.API.List("pods") {
		t.observe(pod.(*corev1.Pod))
	}
	return watcher{
		commits: []string{"pods", "configmaps", "secrets"},
		commit: func(e fake.Commit) {
			switch pod, ok := e.After.(*corev1.Pod); {
			case !ok && e.Type == watch.Deleted:
				key := e.Resource + "/" + e.After.GetNamespace() + "/" + e.After.GetName()
				t.versions[key] = append(t.versions[key], nil)
			case !ok:
				t.addVersion(e.Resource, e.After)
			case e.Type == watch.Deleted:
				delete(t.pods, pod.UID)
				delete(t.restarts, pod.UID)
			case t.observe(pod):
				t.checkAll(pod.UID)
			}
		},
		call: func(r trace.Record) {
			if len(t.pods) == 0 || !changesPodFiles(r.Verb) {
				return
			}
			if at, ok := podVolumeAt(deviceCallOf(r).path); ok {
				t.checkAll(types.UID(at.uid))
			}
		},
		event: func(r trace.Record) {
			if r.Verb == "reboot" {
				t.reboot(restartedNode(r))
			}
		},
		settled: t.checkCurrent,
	}
}

// addVersion adds a version of a ConfigMap or a Secret.
func (t *versionTracker) addVersion(resource string, obj fake.Object) {
	data := map[string]string{}
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		maps.Copy(data, o.Data)
		for key, value := range o.BinaryData { // independent of the order
			data[key] = string(value)
		}
	case *corev1.Secret:
		for key, value := range o.Data { // independent of the order
			data[key] = string(value)
		}
	}
	key := resource + "/" + obj.GetNamespace() + "/" + obj.GetName()
	t.versions[key] = append(t.versions[key], data)
}

// observe reports whether a pod has become one that runs with such volumes.
func (t *versionTracker) observe(pod *corev1.Pod) bool {
	runs := pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil
	if before, stopped := t.restarts[pod.UID]; runs && stopped {
		if runs = restartsOf(pod) > before && !hasWaiting(pod); runs {
			delete(t.restarts, pod.UID)
		}
	}
	if !runs {
		delete(t.pods, pod.UID)
		return false
	}
	if _, known := t.pods[pod.UID]; known {
		return false
	}
	t.pods[pod.UID] = fileVolumesOf(pod)
	return true
}

func restartsOf(pod *corev1.Pod) (n int32) {
	for i := range pod.Status.ContainerStatuses {
		n += pod.Status.ContainerStatuses[i].RestartCount
	}
	return n
}

func hasWaiting(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(s corev1.ContainerStatus) bool { return s.State.Waiting != nil })
}

// reboot ends the containers of a node.
func (t *versionTracker) reboot(node string) {
	for _, obj := range t.API.List("pods") {
		if pod := obj.(*corev1.Pod); pod.Spec.NodeName == node && t.pods[pod.UID] != nil {
			t.restarts[pod.UID] = restartsOf(pod)
			delete(t.pods, pod.UID)
		}
	}
}

// fileVolumesOf returns the volumes of a pod that have files of objects.
func fileVolumesOf(pod *corev1.Pod) []fileVolume {
	volumes := []fileVolume{} // not nil: the pod is known
	all := withMounts(pod).Spec.Volumes
	for i := range all {
		v := &all[i]
		plugin, _ := ownPlugin(v)
		of := fileVolume{pod: pod, name: v.Name, path: ownPath("", pod.UID, plugin, v.Name)}
		add := func(resource, name string, items []corev1.KeyToPath, whole bool) {
			of.sources = append(of.sources, source{resource + "/" + pod.Namespace + "/" + name, items, whole})
		}
		switch {
		case v.ConfigMap != nil:
			add("configmaps", v.ConfigMap.Name, v.ConfigMap.Items, true)
		case v.Secret != nil:
			add("secrets", v.Secret.SecretName, v.Secret.Items, true)
		case v.Projected != nil:
			for j := range v.Projected.Sources {
				switch from := &v.Projected.Sources[j]; {
				case from.ConfigMap != nil:
					add("configmaps", from.ConfigMap.Name, from.ConfigMap.Items, false)
				case from.Secret != nil:
					add("secrets", from.Secret.Name, from.Secret.Items, false)
				}
			}
		}
		if len(of.sources) > 0 {
			volumes = append(volumes, of)
		}
	}
	return volumes
}

// checkAll checks the volumes of a running pod.
func (t *versionTracker) checkAll(uid types.UID) {
	for _, v := range t.pods[uid] {
		files := t.filesOf(v)
		for i, from := range v.sources {
			versions := t.versions[from.object]
			if !slices.ContainsFunc(versions, func(data map[string]string) bool { return t.isIn(files, v, i, data) }) &&
				len(versions) > 0 {
				t.report("I42", "pod %s/%s runs, and its volume %s has the files of no version of %s: %v",
					v.pod.Namespace, v.pod.Name, v.name, from.object, slices.Sorted(maps.Keys(files)))
			}
		}
	}
}

// checkCurrent reports the volumes of running pods that do not have the current versions.
func (t *versionTracker) checkCurrent(report func(format string, a ...any)) {
	for _, uid := range slices.Sorted(maps.Keys(t.pods)) {
		for _, v := range t.pods[uid] {
			if !isReady(nodeNamed(t.API, v.pod.Spec.NodeName)) {
				continue
			}
			files := t.filesOf(v)
			for i, from := range v.sources {
				versions := t.versions[from.object]
				if n := len(versions); n > 0 && versions[n-1] != nil && !t.isIn(files, v, i, versions[n-1]) {
					report("pod %s/%s runs, and its volume %s does not have the files of %s: %v", v.pod.Namespace,
						v.pod.Name, v.name, from.object, slices.Sorted(maps.Keys(files)))
				}
			}
		}
	}
}

// filesOf returns the files of a volume, by path: those to which the kubelet's link leads.
func (t *versionTracker) filesOf(v fileVolume) map[string]string {
	files := map[string]string{}
	disk, root := t.diskOf(v.pod.Spec.NodeName)
	if disk == nil {
		return files
	}
	dir := path.Join(root, v.path)
	if current, err := disk.Readlink(path.Join(dir, "..data")); err == nil {
		readFiles(disk, path.Join(dir, current), "", files)
	}
	return files
}

// isIn reports whether the files of a volume are those of a version of its i-th source. Later sources
// may have replaced some.
func (t *versionTracker) isIn(files map[string]string, v fileVolume, i int, data map[string]string) bool {
	want := v.sources[i].files(data)
	if v.sources[i].whole {
		return maps.Equal(files, want)
	}
	for name, value := range want { // independent of the order
		replaced := slices.ContainsFunc(v.sources[i+1:], func(later source) bool {
			return slices.ContainsFunc(t.versions[later.object], func(data map[string]string) bool {
				_, has := later.files(data)[name]
				return has
			})
		})
		if files[name] != value && !replaced {
			return false
		}
	}
	return true
}

// files returns the files of a version of the source, by path.
func (s source) files(data map[string]string) map[string]string {
	if len(s.items) == 0 {
		return data
	}
	files := map[string]string{}
	for _, item := range s.items {
		if value, ok := data[item.Key]; ok {
			files[path.Clean(item.Path)] = value
		}
	}
	return files
}
