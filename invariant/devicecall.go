package invariant

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// A deviceCall is a driver call about a volume, as recorded. A call that failed before it took
// effect has no path, and a controller's call then has no node.
type deviceCall struct {
	driver string // or the plugin
	handle string
	node   string
	path   string
	bytes  int64 // requested size; 0: none
}

// deviceCallOf parses a record. The node is that of the call, as the driver knows it, or that of the
// calling kubelet.
func deviceCallOf(r trace.Record) deviceCall {
	driver, handle, _ := strings.Cut(r.Object, "/")
	call := deviceCall{driver: driver, handle: handle}
	if strings.HasPrefix(r.Task, "kubelet(") {
		call.node = nodeOfTask(r.Task)
	}
	for word := range strings.SplitSeq(r.Detail, " ") {
		if node, ok := strings.CutPrefix(word, "node="); ok {
			call.node = node
		}
		if path, ok := strings.CutPrefix(word, "path="); ok {
			call.path = path
		}
		if bytes, ok := strings.CutPrefix(word, "bytes="); ok {
			call.bytes, _ = strconv.ParseInt(bytes, 10, 64)
		}
	}
	return call
}

// nodeOfTask returns "node-1" for "kubelet(node-1)/task", and "" for a task without brackets.
func nodeOfTask(actor string) string {
	_, rest, _ := strings.Cut(actor, "(")
	node, _, _ := strings.Cut(rest, ")")
	return node
}

// restartedNode returns the node whose kubelet an event started again or ended: "node-1" of "crash
// kubelet(node-1) with pods 1 behind" and of "reboot node-1". For an event of no kubelet it returns
// "" or another target.
func restartedNode(r trace.Record) string {
	switch r.Verb {
	case "crash", "stop", "start", "reboot", "partition", "restore":
	default:
		return ""
	}
	object, _, _ := strings.Cut(r.Object, " ")
	if kubelet, ok := strings.CutPrefix(object, "kubelet("); ok {
		return strings.TrimSuffix(kubelet, ")")
	}
	return object
}

// A volumeOnNode is a volume of a driver, by handle, and a node.
type volumeOnNode struct{ driver, handle, node string }

// csiVolumes is the prefix of the unique names of CSI volumes; see uniqueVolume.
const csiVolumes = "kubernetes.io/csi/"

// uniqueVolume returns the name of a volume in a Node's status.
//
// Upstream: pkg/volume/util GetUniqueVolumeName, pkg/volume/csi GetVolumeName (v1.36).
func uniqueVolume(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(csiVolumes + driver + "^" + handle)
}

// splitUniqueVolume splits a unique name; ok is false for a volume without CSI driver.
func splitUniqueVolume(name corev1.UniqueVolumeName) (driver, handle string, ok bool) {
	rest, csi := strings.CutPrefix(string(name), csiVolumes)
	driver, handle, ok = strings.Cut(rest, "^")
	return driver, handle, csi && ok
}

// attachmentName returns the name of the VolumeAttachment of a volume on a node.
//
// Upstream: pkg/volume/csi getAttachmentName.
func attachmentName(handle, driver, node string) string {
	sum := sha256.Sum256([]byte(handle + driver + node))
	return "csi-" + hex.EncodeToString(sum[:])
}

// attachmentOf returns the VolumeAttachment of a volume on a node; nil if there is none.
func attachmentOf(api *fake.Server, driver, handle, node string) *storagev1.VolumeAttachment {
	obj, ok := api.Get("volumeattachments", "", attachmentName(handle, driver, node))
	if !ok {
		return nil
	}
	a := obj.(*storagev1.VolumeAttachment)
	if v := volumeOf(api, a); v != nil && (v.Spec.CSI.Driver != driver || v.Spec.CSI.VolumeHandle != handle) {
		return nil // of another volume with the same name
	}
	return a
}

// volumeOf returns the PersistentVolume of a VolumeAttachment; nil if it does not exist or has no
// CSI driver.
func volumeOf(api *fake.Server, a *storagev1.VolumeAttachment) *corev1.PersistentVolume {
	if a.Spec.Source.PersistentVolumeName == nil {
		return nil
	}
	return csiVolumeNamed(api, *a.Spec.Source.PersistentVolumeName)
}

// csiVolumeNamed returns a PersistentVolume; nil if it does not exist or has no CSI driver.
func csiVolumeNamed(api *fake.Server, name string) *corev1.PersistentVolume {
	obj, ok := api.Get("persistentvolumes", "", name)
	if !ok {
		return nil
	}
	v := obj.(*corev1.PersistentVolume)
	if v.Spec.CSI == nil {
		return nil
	}
	return v
}

// nodeNamed returns a Node; nil if it does not exist.
func nodeNamed(api *fake.Server, name string) *corev1.Node {
	obj, ok := api.Get("nodes", "", name)
	if !ok {
		return nil
	}
	return obj.(*corev1.Node)
}

// isReady reports whether a node is Ready; false for nil.
func isReady(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// lists reports whether a node's status lists a volume as attached.
func lists(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached,
		func(a corev1.AttachedVolume) bool { return a.Name == volume })
}

// forOneNode reports whether a volume may be attached to one node only.
//
// Upstream: pkg/volume/util IsMultiAttachAllowed (v1.36).
func forOneNode(v *corev1.PersistentVolume) bool {
	return len(v.Spec.AccessModes) > 0 &&
		!slices.ContainsFunc(v.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
		})
}

// A podMount is what the path of a pod's mount contains.
type podMount struct{ uid, volume string }

// podMountAt parses a path; ok is false if it is not that of a pod's CSI volume. A mounted volume
// has "…/pods/<uid>/volumes/kubernetes.io~csi/<volume>/mount". A block volume has
// "publish/<volume>/<uid>" below "…/kubernetes.io/csi/volumeDevices/" where the driver publishes
// it, and "<volume>/dev/<uid>" where the kubelet maps it.
func podMountAt(path string) (podMount, bool) {
	if _, rest, found := strings.Cut(path, "/plugins/kubernetes.io/csi/volumeDevices/"); found {
		switch words := strings.Split(rest, "/"); {
		case len(words) != 3:
			return podMount{}, false
		case words[0] == "publish":
			return podMount{uid: words[2], volume: words[1]}, true
		case words[1] == "dev":
			return podMount{uid: words[2], volume: words[0]}, true
		default:
			return podMount{}, false
		}
	}
	_, rest, found := strings.Cut(path, "/pods/")
	words := strings.Split(rest, "/")
	if !found || len(words) != 5 || words[1] != "volumes" || words[2] != "kubernetes.io~csi" || words[4] != "mount" {
		return podMount{}, false
	}
	return podMount{uid: words[0], volume: words[3]}, true
}

// A podVolume is a volume in the directory of a pod. plugin is escaped, as in the path.
type podVolume struct {
	podMount
	plugin string
}

// podVolumeAt parses a path; ok is false if it is not that of a pod's volume of any plugin:
// "…/pods/<uid>/volumes/<plugin>/<volume>", with "/mount" for one of a CSI driver.
func podVolumeAt(path string) (podVolume, bool) {
	if at, ok := podMountAt(path); ok {
		return podVolume{at, "kubernetes.io~csi"}, true
	}
	_, rest, found := strings.Cut(path, "/pods/")
	words := strings.Split(rest, "/")
	if !found || len(words) != 4 || words[1] != "volumes" {
		return podVolume{}, false
	}
	return podVolume{podMount{uid: words[0], volume: words[3]}, words[2]}, true
}
