package invariant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about attachments and nodes once the world is at rest. A node that does not exist or is not
// ready must only lose its volumes.
var nodeLivenessRules = []builtIn{
	{"L4", "an attachment that no pod of its node needs", nodeRule(beginDetached)},
	{"L5", "a backend, attachments and nodes that disagree about what is attached", nodeRule(beginAgreed)},
	{"L6", "a mount or a directory for a pod that is gone", nodeRule(beginNoLeaks)},
}

// volumeUsers maps the PersistentVolumes used on a node to their first pod by name.
type volumeUsers map[volumeOnNode]*corev1.Pod

// usedVolumes returns what the existing pods that have not ended need, as far as their claims are
// bound.
func usedVolumes(api *fake.Server) volumeUsers {
	used := volumeUsers{}
	for _, obj := range api.List("pods") {
		pod := obj.(*corev1.Pod)
		if pod.Spec.NodeName == "" || hasEnded(pod) {
			continue
		}
		for _, name := range volumesOfPod(api, pod) {
			if at := volumeAt(csiVolumeNamed(api, name), pod.Spec.NodeName); used[at] == nil {
				used[at] = pod
			}
		}
	}
	return used
}

// volumesOfPod returns the names of the PersistentVolumes behind a pod's volumes, as far as its
// claims are bound.
func volumesOfPod(api *fake.Server, pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.Volumes {
		name := podclaims.Name(pod, &pod.Spec.Volumes[i])
		if name == "" {
			continue
		}
		obj, ok := api.Get("persistentvolumeclaims", pod.Namespace, name)
		if !ok {
			continue
		}
		claim := obj.(*corev1.PersistentVolumeClaim)
		if v := csiVolumeNamed(api,
			claim.Spec.VolumeName); v != nil && v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID &&
			claim.Status.Phase == corev1.ClaimBound {
			names = append(names, v.Name)
		}
	}
	return names
}

// beginDetached checks that a pod of its node needs each VolumeAttachment. A pod that is being
// deleted still needs it until its node has unmounted it. An attachment without a PersistentVolume
// is ignored: a restarted controller cannot identify it. Its deletion must begin in time; see
// detachDeadline.
//
// Upstream: pkg/controller/volume/attachdetach processVolumeAttachments (v1.36), for an attachment
// without a PersistentVolume.
func beginDetached(c *Checker) watcher {
	l := &detachDeadline{Checker: c, needed: reuse.Map[volumeOnNode, time.Time](c.Reuse), pods: reuse.Map[types.UID, []volumeOnNode](c.Reuse)}
	w := watcher{
		commits: []string{"pods", "nodes", "volumeattachments"}, commit: l.commit, call: l.failed,
		request: l.failed, event: l.onEvent,
	}
	w.rest = func(report func(object, why string)) {
		used := usedVolumes(c.API)
		for _, obj := range c.API.List("volumeattachments") {
			a := obj.(*storagev1.VolumeAttachment)
			v := volumeOf(c.API, a)
			if v == nil || used[volumeAt(v, a.Spec.NodeName)] != nil {
				continue
			}
			report("volumeattachments/"+a.Name, fmt.Sprintf("is of volume %s to node %s, where no pod needs it: %s",
				v.Name, a.Spec.NodeName, c.whyAttached(a, v)))
		}
	}
	return w
}

// whyAttached returns what keeps an unneeded attachment.
func (c *Checker) whyAttached(a *storagev1.VolumeAttachment, v *corev1.PersistentVolume) string {
	node := nodeNamed(c.API, a.Spec.NodeName)
	name := uniqueVolume(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)
	switch {
	case a.DeletionTimestamp != nil && a.Status.DetachError != nil:
		return "the driver has not detached it: " + a.Status.DetachError.Message
	case a.DeletionTimestamp != nil:
		return fmt.Sprintf("it is being deleted, and waits for %v", a.Finalizers)
	case node == nil:
		return "the node is gone, and the attachment was not deleted"
	case slices.Contains(node.Status.VolumesInUse, name):
		return "the node reports it in use"
	case lists(node, name):
		return "the node does not use it, and lists it as attached"
	default:
		return "no component knows of it"
	}
}

// beginAgreed checks that backend, attachments and nodes agree. What the backend has attached has a
// VolumeAttachment that is attached, and vice versa, and the nodes' volumesAttached list the same.
// volumesInUse has nothing that is neither needed nor mounted. What a pod needs is attached, unless
// it is for one node and another node with a user has it.
func beginAgreed(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		if c.Devices != nil {
			c.checkBackend(report)
		}
		used := usedVolumes(c.API)
		c.checkNodes(used, report)
		c.checkNeededAttached(used, report)
	}}
}

// checkBackend checks what the drivers have attached, according to their backends or, if those are not
// known, to the last calls.
func (c *Checker) checkBackend(report func(object, why string)) {
	check := func(at volumeOnNode) {
		if attachmentOf(c.API, at.driver, at.handle, at.node) == nil {
			report("volumes/"+at.handle,
				fmt.Sprintf("is attached to node %s by the driver, and there is no attachment", at.node))
		}
	}
	for b := range c.backends() {
		for _, v := range b.Volumes() {
			for _, node := range v.Attached {
				check(volumeOnNode{b.Driver(), v.Handle, node})
			}
		}
	}
	for _, at := range c.others.sorted() {
		if c.backend(at.driver) == nil && c.others.volumes[at].attached == yes {
			check(at)
		}
	}
	for _, obj := range c.API.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		v := volumeOf(c.API, a)
		if v == nil || !a.Status.Attached || !c.isAttachable(v.Spec.CSI.Driver) {
			continue
		}
		if c.isAttached(volumeAt(v, a.Spec.NodeName)) == no {
			report("volumeattachments/"+a.Name, fmt.Sprintf("says that volume %s is attached to node %s, and the driver does not", v.Name, a.Spec.NodeName))
		}
	}
}

func (c *Checker) checkNodes(used volumeUsers, report func(object, why string)) {
	for _, obj := range c.API.List("nodes") {
		node := obj.(*corev1.Node)
		for _, listed := range node.Status.VolumesAttached {
			driver, handle, ok := splitUniqueVolume(listed.Name)
			if a := attachmentOf(c.API, driver, handle, node.Name); ok && (a == nil || !a.Status.Attached) {
				report("nodes/"+node.Name,
					fmt.Sprintf("lists volume %s as attached, and no attachment says so", handle))
			}
		}
		if isReady(node) && c.Devices != nil {
			c.checkInUse(node, used, report)
		}
	}
	for _, obj := range c.API.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		node, v := nodeNamed(c.API, a.Spec.NodeName), volumeOf(c.API, a)
		if node != nil && v != nil && a.Status.Attached &&
			!lists(node, uniqueVolume(v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle)) {
			report("nodes/"+node.Name,
				fmt.Sprintf("does not list volume %s as attached, as its attachment says", v.Name))
		}
	}
}

// checkInUse checks whether a node uses what it reports in use.
func (c *Checker) checkInUse(node *corev1.Node, used volumeUsers, report func(object, why string)) {
	for _, name := range node.Status.VolumesInUse {
		driver, handle, ok := splitUniqueVolume(name)
		at := volumeOnNode{driver, handle, node.Name}
		if !ok || used[at] != nil || len(c.mountsOf(at)) > 0 {
			continue
		}
		report("nodes/"+node.Name,
			fmt.Sprintf("reports volume %s in use, which no pod needs and is not mounted", handle))
	}
}

func (c *Checker) checkNeededAttached(used volumeUsers, report func(object, why string)) {
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if pod.DeletionTimestamp != nil || hasEnded(pod) || !isReady(nodeNamed(c.API, pod.Spec.NodeName)) {
			continue
		}
		for _, name := range volumesOfPod(c.API, pod) {
			v := csiVolumeNamed(c.API, name)
			if !c.isAttachable(v.Spec.CSI.Driver) || c.isUsedElsewhere(v, pod.Spec.NodeName, used) {
				continue
			}
			a := attachmentOf(c.API, v.Spec.CSI.Driver, v.Spec.CSI.VolumeHandle, pod.Spec.NodeName)
			if a == nil || !a.Status.Attached {
				report("pods/"+pod.Namespace+"/"+pod.Name, fmt.Sprintf("needs volume %s, which is not attached to node %s: %s", name, pod.Spec.NodeName, whyNotAttached(a)))
			}
		}
	}
}

func whyNotAttached(a *storagev1.VolumeAttachment) string {
	switch {
	case a == nil:
		return "no attachment exists"
	case a.DeletionTimestamp != nil:
		return "it is being detached"
	case a.Status.AttachError != nil:
		return a.Status.AttachError.Message
	default:
		return "the attacher has reported nothing"
	}
}

// isAttachable reports whether a driver's volumes need an attach.
func (c *Checker) isAttachable(driver string) bool {
	obj, ok := c.API.Get("csidrivers", "", driver)
	if !ok {
		return true
	}
	required := obj.(*storagev1.CSIDriver).Spec.AttachRequired
	return required == nil || *required
}

// isUsedElsewhere reports whether a volume for one node is needed on another one, too.
func (c *Checker) isUsedElsewhere(v *corev1.PersistentVolume, node string, used volumeUsers) bool {
	for at := range used {
		if at.node != node && at == volumeAt(v, at.node) && forOneNode(v) {
			return true
		}
	}
	return false
}

// beginNoLeaks checks that what is mounted on a ready node is mounted for an existing pod that is
// not being deleted and has not ended. The same holds for directories of pods and of staged
// volumes. For a node whose kubelet was restarted, I26 checks this.
func beginNoLeaks(c *Checker) watcher {
	if c.Devices == nil {
		return watcher{}
	}
	left := mountLeaks{c, reuse.Map[string, bool](c.Reuse)}
	return watcher{
		event: left.restart,
		rest: func(report func(object, why string)) {
			left.each(false, func(node, what string) { report("nodes/"+node, "has "+what) })
		},
	}
}

// mountLeaks finds mounts that no pod needs, separately on nodes whose kubelets were restarted and
// on others.
type mountLeaks struct {
	*Checker
	restarted map[string]bool
}

func (l mountLeaks) restart(r trace.Record) { l.restarted[restartedNode(r)] = true }

// each calls f for the mounts that no pod needs on the ready nodes whose kubelets were restarted,
// or were not.
func (l mountLeaks) each(afterRestart bool, f func(node, what string)) {
	pods := map[string]*corev1.Pod{} // by UID
	used := volumeUsers{}
	for _, obj := range l.API.List("pods") {
		pod := obj.(*corev1.Pod)
		pods[string(pod.UID)] = pod
		if pod.DeletionTimestamp != nil || hasEnded(pod) {
			continue
		}
		for _, name := range volumesOfPod(l.API, pod) {
			used[volumeAt(csiVolumeNamed(l.API, name), pod.Spec.NodeName)] = pod
		}
	}
	for _, node := range l.Devices.Nodes() {
		if l.restarted[node] != afterRestart || !isReady(nodeNamed(l.API, node)) {
			continue
		}
		for _, m := range l.Devices.Mounts(node) {
			if why := l.leakReason(m, node, pods, used); why != "" {
				f(node, fmt.Sprintf("volume %s mounted at %s, %s", m.Source, m.Path, why))
			}
		}
		if on, ok := l.Devices.(directoryLister); ok {
			for _, dir := range on.Directories(node) {
				if why := dirLeakReason(dir, node, pods, used); why != "" {
					f(node, fmt.Sprintf("directory %s, %s", dir, why))
				}
			}
		}
	}
}

// A directoryLister is a Devices that also returns the directories that a kubelet created.
type directoryLister interface {
	// Directories returns those of pods and those in which volumes are staged, sorted.
	Directories(node string) []string
}

// dirLeakReason returns why no pod needs a directory; "" if one does.
func dirLeakReason(dir, node string, pods map[string]*corev1.Pod, used volumeUsers) string {
	if path.Base(path.Dir(dir)) == "pods" {
		if pods[path.Base(dir)] == nil {
			return "of a pod that is gone"
		}
		return ""
	}
	if used.stages(path.Base(path.Dir(dir)), path.Base(dir), node) {
		return ""
	}
	return "and no pod of the node needs what is staged there"
}

// stages reports whether a pod of a node needs the volume of a driver that is staged in a directory of a
// name.
func (used volumeUsers) stages(driver, name, node string) bool {
	for at := range used {
		sum := sha256.Sum256([]byte(at.handle))
		if at.node == node && at.driver == driver && name == hex.EncodeToString(sum[:]) {
			return true
		}
	}
	return false
}

// stagedAt parses the path at which a kubelet has a volume staged:
// "…/plugins/kubernetes.io/csi/<driver>/<name>/globalmount".
func stagedAt(path string) (driver, name string, ok bool) {
	_, rest, found := strings.Cut(path, "/plugins/kubernetes.io/csi/")
	words := strings.Split(rest, "/")
	if !found || len(words) != 3 || words[2] != "globalmount" {
		return "", "", false
	}
	return words[0], words[1], true
}

// leakReason returns why no pod needs a mount; "" if one does.
func (l mountLeaks) leakReason(m nodefs.Mount, node string, pods map[string]*corev1.Pod, used volumeUsers) string {
	at, ofPod := podPathAt(m.Path)
	if !ofPod {
		at, ofPod = otherMountAt(m.Path)
	}
	pod := pods[at.uid]
	switch volume, isLocal := localMountAt(m.Path); {
	case isLocal:
		return l.localLeakReason(volume, node, pods)
	case !ofPod:
		driver, name, staged := stagedAt(m.Path)
		switch {
		case staged && l.isOther(driver):
			if used.stages(driver, name, node) {
				return ""
			}
		case used[volumeOnNode{l.Devices.Driver(), m.Source, node}] != nil, l.isOwnMount(m.Path):
			return ""
		}
		return "and no pod of the node needs it"
	case pod == nil:
		return "for a pod that is gone"
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("for pod %s/%s, which is being deleted", pod.Namespace, pod.Name)
	case hasEnded(pod):
		return fmt.Sprintf("for pod %s/%s, which has ended", pod.Namespace, pod.Name)
	default:
		return ""
	}
}

// isOwnMount reports whether a path is in the directory of a driver, which may mount there what it likes.
func (l mountLeaks) isOwnMount(path string) bool {
	_, rest, found := strings.Cut(path, "/plugins/")
	driver, _, below := strings.Cut(rest, "/")
	if !found || !below || !l.isOther(driver) {
		return false
	}
	_, installed := l.API.Get("csidrivers", "", driver)
	return installed
}

// otherMountAt parses the path of a pod's volume of any plugin; ok is false if it is not below
// "…/pods/<uid>/volumes" or "…/pods/<uid>/volumeDevices".
func otherMountAt(path string) (at podMount, ok bool) {
	_, rest, found := strings.Cut(path, "/pods/")
	words := strings.Split(rest, "/")
	if !found || len(words) < 4 || words[1] != "volumes" && words[1] != "volumeDevices" {
		return podMount{}, false
	}
	return podMount{uid: words[0], volume: words[3]}, true
}

// localMountAt returns the local PersistentVolume that is mounted or mapped at a path for the node.
func localMountAt(path string) (volume string, ok bool) {
	for _, dir := range []string{"/plugins/kubernetes.io/local-volume/mounts/", "/plugins/kubernetes.io~local-volume/volumeDevices/"} {
		if _, rest, found := strings.Cut(path, dir); found {
			volume, _, _ = strings.Cut(rest, "/")
			return volume, true
		}
	}
	return "", false
}

// localLeakReason returns why no pod needs a local volume that is mounted or mapped for the node; ""
// if one does.
func (l mountLeaks) localLeakReason(volume, node string, pods map[string]*corev1.Pod) string {
	obj, ok := l.API.Get("persistentvolumes", "", volume)
	if !ok || obj.(*corev1.PersistentVolume).Spec.ClaimRef == nil {
		return "and no claim has it"
	}
	claim := obj.(*corev1.PersistentVolume).Spec.ClaimRef
	for _, pod := range pods {
		if pod.Spec.NodeName != node || pod.Namespace != claim.Namespace || pod.DeletionTimestamp != nil || hasEnded(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			if podclaims.Name(pod, &pod.Spec.Volumes[i]) == claim.Name {
				return ""
			}
		}
	}
	return "and no pod of the node needs it"
}
