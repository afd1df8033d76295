package invariant

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// How operations are tried again, and given up.
var operationRules = []Rule{
	{"I23", "an operation begun again sooner than half a second after it failed", nodeRule(beginShortestBackoff)},
	{"I23b", "an operation begun again before its back-off, which doubles with each failure", nodeRule(beginBackoff)},
	{"L7", "an operation that failed, is wanted, and is not tried again", nodeRule(beginTriedAgain)},
}

// The back-off of operations. It is written down here once more, so that a wrong one is noticed.
const (
	backoffMin    = 500 * time.Millisecond
	backoffMax    = 2*time.Minute + 2*time.Second
	backoffForgot = 2 * backoffMax // so long after the last failure it begins anew
)

// backoffAfter is how long an operation rests after so many failures in succession.
func backoffAfter(failures int) time.Duration {
	return min(backoffMin<<min(failures-1, 20), backoffMax)
}

// driverCall is a driver call as its record tells it.
type driverCall struct {
	component string
	task      string
	rpc       string
	subject   string // "driver/volume"
	volume    string // handle, or the name it is asked for with
	node      string // of ControllerPublishVolume and ControllerUnpublishVolume
	path      string
}

func driverCallOf(r trace.Record) driverCall {
	call := driverCall{rpc: r.Verb, subject: r.Object}
	call.component, call.task, _ = strings.Cut(r.Task, "/")
	_, call.volume, _ = strings.Cut(r.Object, "/")
	for _, word := range strings.Fields(r.Detail) {
		if v, ok := strings.CutPrefix(word, "node="); ok {
			call.node = v
		}
		if v, ok := strings.CutPrefix(word, "path="); ok {
			call.path = v
		}
	}
	return call
}

// podOf is the UID of the pod below whose directory a path is, and the volume's name there; "" where it is none.
func podOf(target string) (pod types.UID, volume string) {
	_, below, ok := strings.Cut(target, "/pods/")
	words := strings.Split(below, "/")
	if !ok || len(words) < 4 || words[1] != "volumes" {
		return "", ""
	}
	return types.UID(words[0]), words[3]
}

// endedProcess is the component whose process an event ends; "*" where it may be any; "" where it is none.
func endedProcess(r trace.Record) string {
	part, _, _ := strings.Cut(r.Object, " ") // a crash may be told with what its cache begins with
	switch r.Verb {
	case "crash", "stop", "retire":
		return part
	case "reboot", "lose", "recover":
		return "kubelet(" + part + ")"
	case "tick", "start", "replicate", "relist", "expire":
		return ""
	default:
		return "*"
	}
}

// forgetComponent drops what is known of the component whose process has ended; of says which one a key is of.
func forgetComponent[K comparable, V any](m map[K]V, r trace.Record, of func(K) string) {
	if which := endedProcess(r); which != "" {
		maps.DeleteFunc(m, func(k K, _ V) bool { return which == "*" || of(k) == which })
	}
}

// operation is what the kubelet or the attach/detach controller does with a volume, and is not to do too often.
type operation struct {
	component string
	name      string // such as "volume_mount"
	object    string // what of: of other objects the failures are their own
}

// failing is how an operation has failed.
type failing struct {
	failures int // in succession
	at       time.Duration
}

// operationOf is the operation of a node's driver call; false for other calls. Mounting is one for all pods of a node that
// share a volume, unmounting is one for each.
func operationOf(call driverCall) (operation, bool) {
	name, _, _ := strings.Cut(call.task, " ")
	o := operation{call.component, name, call.subject}
	switch call.rpc {
	case "NodeStageVolume", "NodePublishVolume", "NodeUnstageVolume":
		return o, true
	case "NodeUnpublishVolume":
		o.object += " " + call.path
		return o, call.path != "" // a call that was made to fail does not tell
	default:
		return operation{}, false
	}
}

// isLast tells whether a call that succeeded is the last of its operation.
func (call driverCall) isLast() bool { return call.rpc != "NodeStageVolume" }

// backoff looks at when operations begin again.
type backoff struct {
	c         *Checker
	id        string
	wait      func(failures int) time.Duration
	failing   map[operation]failing
	endedPods map[types.UID]bool // pods that are known: whether they have ended, or are to

	deleting map[operation]types.UID // the attachments that operations have begun to delete
}

// checkStart looks at an operation that is under way: it must have begun late enough.
func (b *backoff) checkStart(o operation, what string, at time.Duration) {
	f, ok := b.failing[o]
	if !ok {
		return
	}
	if at-f.at >= backoffForgot {
		delete(b.failing, o)
		return
	}
	if wait := b.wait(f.failures); at < f.at+wait {
		b.c.report(b.id, "%s: %s was tried again %v after it had failed (%d in succession); it is to rest for %v",
			o.component, what, at-f.at, f.failures, wait)
	}
}

func (b *backoff) failed(o operation, at time.Duration) {
	b.failing[o] = failing{failures: b.failing[o].failures + 1, at: at}
}

// call: the calls of a node's operations.
func (b *backoff) call(r trace.Record) {
	call := driverCallOf(r)
	o, ok := operationOf(call)
	if !ok {
		return
	}
	b.checkStart(o, call.rpc+" of "+call.subject, r.At)
	switch {
	case r.Err != nil:
		b.failed(o, r.At)
	case call.isLast():
		delete(b.failing, o)
	}
}

// work: a pod that has ended may end a mount that has nothing to do any more, and what has nothing to do succeeds, unseen.
// The count of failures begins anew with that.
func (b *backoff) work(r trace.Record) {
	if !b.endedPods[types.UID(r.Object)] {
		return
	}
	component, _, _ := strings.Cut(r.Task, "/")
	for o, f := range b.failing {
		if o.component == component && (o.name == "volume_mount" || o.name == "map_volume") {
			b.failing[o] = failing{failures: 0, at: f.at}
		}
	}
}

func (b *backoff) commit(e fake.Commit) {
	pod := e.After.(*corev1.Pod)
	b.endedPods[pod.UID] = e.Type == "DELETED" || pod.DeletionTimestamp != nil || hasEnded(pod)
}

// hasEnded tells whether a pod has run to its end.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// request: the attach/detach controller's requests about VolumeAttachments, of which each that fails fails an operation.
func (b *backoff) request(r trace.Record) {
	component, strand, _ := strings.Cut(r.Task, "/")
	name, _, _ := strings.Cut(strand, " ")
	if name != "volume_attach" && name != "volume_detach" || !strings.HasPrefix(r.Object, "volumeattachments/") {
		return
	}
	o := operation{component, name, r.Object}
	b.checkStart(o, r.Verb+" of "+r.Object, r.At)
	if r.Err != nil && !apierrors.IsNotFound(r.Err) && !apierrors.IsAlreadyExists(r.Err) {
		b.failing[o] = failing{failures: 1, at: r.At}
	} else {
		delete(b.failing, o)
	}
}

// deletes: to detach, a VolumeAttachment is deleted; to have to do so once more is to have failed, whatever the request was
// answered with: the attacher said that the driver could not, or nothing. An attachment made anew is another.
func (b *backoff) deletes(r trace.Record) {
	component, strand, _ := strings.Cut(r.Task, "/")
	name, _, _ := strings.Cut(strand, " ")
	attachment, is := strings.CutPrefix(r.Object, "volumeattachments/")
	if name != "volume_detach" || !is || r.Verb != "delete" {
		return
	}
	o := operation{component, name, r.Object}
	obj, ok := b.c.API.Get("volumeattachments", "", attachment)
	if !ok {
		delete(b.failing, o)
		return
	}
	if uid := obj.GetUID(); b.deleting[o] != uid {
		b.deleting[o] = uid
		delete(b.failing, o)
	}
	b.checkStart(o, r.Verb+" of "+r.Object, r.At)
	b.failed(o, r.At) // or will have, if it is done once more
}

func (b *backoff) event(r trace.Record) {
	forgetComponent(b.failing, r, func(o operation) string { return o.component })
}

// beginShortestBackoff: whatever was counted, an operation that failed rests for the shortest back-off.
func beginShortestBackoff(c *Checker) watcher {
	b := &backoff{c: c, id: "I23", failing: map[operation]failing{}, wait: func(int) time.Duration { return backoffMin }}
	return watcher{call: b.call, request: b.request, event: b.event}
}

// beginBackoff: an operation rests for the back-off of its failures in succession, as far as driver calls and the deletions
// of VolumeAttachments show them. That of the first failure is I23's.
func beginBackoff(c *Checker) watcher {
	b := &backoff{
		c: c, id: "I23b", failing: map[operation]failing{}, endedPods: map[types.UID]bool{}, deleting: map[operation]types.UID{},
		wait: func(failures int) time.Duration {
			if failures < 2 {
				return 0
			}
			return backoffAfter(failures)
		},
	}
	return watcher{commits: []string{"pods"}, commit: b.commit, call: b.call, request: b.deletes, work: b.work, event: b.event}
}

// effect is something done to a volume, or undone.
type effect struct {
	component string
	what      string // of the two calls that do it and undo it
	object    string
}

// effectOfCall are the calls that do something, and those that undo it.
var effectOfCall = map[string]string{
	"CreateVolume": "create", "DeleteVolume": "delete",
	"Provision": "create", "Delete": "delete", "Recycle": "recycle",
	"ControllerPublishVolume": "attach", "ControllerUnpublishVolume": "attach",
	"NodeStageVolume": "stage", "NodeUnstageVolume": "stage",
	"NodePublishVolume": "publish", "NodeUnpublishVolume": "publish",
}

// beginTriedAgain: when nothing is left to happen, the last call to do or undo something did not fail, unless nobody
// wants it any more.
func beginTriedAgain(c *Checker) watcher {
	last := map[effect]trace.Record{} // the last call, where it failed
	return watcher{
		call: func(r trace.Record) {
			call := driverCallOf(r)
			what, ok := effectOfCall[call.rpc]
			if !ok {
				return
			}
			d := effect{call.component, what, call.subject + " " + call.node}
			if what == "publish" {
				d.object = call.subject + " " + call.path
			}
			if r.Err != nil {
				last[d] = r
				return
			}
			delete(last, d)
			d.object = call.subject + " "
			delete(last, d) // of calls that were made to fail, which tell neither node nor path
		},
		event: func(r trace.Record) { forgetComponent(last, r, func(d effect) string { return d.component }) },
		rest: func(report func(object, why string)) {
			for _, d := range slices.SortedFunc(maps.Keys(last), func(a, b effect) int {
				return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
			}) {
				r := last[d]
				if object := c.waitingObject(driverCallOf(r)); object != "" {
					report(object, fmt.Sprintf("waits for %s, which failed at %v (%v) and was not tried again", r.Verb, r.At, r.Err))
				}
			}
		},
	}
}

// waitingObject is the object, as "resource/namespace/name", for which a driver call that failed is to be made again; "" where
// there is none.
func (c *Checker) waitingObject(call driverCall) string {
	switch call.rpc {
	case "CreateVolume", "Provision":
		return c.wantsVolume(path.Base(call.volume))
	case "DeleteVolume":
		return c.wantsDeletion(call)
	case "Delete", "Recycle":
		return c.wantsReclaim(path.Base(call.volume), call.rpc)
	case "ControllerPublishVolume", "ControllerUnpublishVolume":
		return c.wantsAttachment(call)
	case "NodePublishVolume":
		pod, _ := podOf(call.path)
		return c.livePod(func(p *corev1.Pod) bool { return p.UID == pod })
	case "NodeStageVolume":
		return "" // whoever wants it mounted waits for that
	default:
		if call.rpc == "NodeUnpublishVolume" && call.path == "" {
			return ""
		}
		return "nodes/" + strings.TrimSuffix(strings.TrimPrefix(call.component, "kubelet("), ")")
	}
}

// wantsVolume finds the unbound claim for which a volume of this name is to be made.
func (c *Checker) wantsVolume(name string) string {
	for _, obj := range c.API.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		if name == "pvc-"+string(claim.UID) && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil {
			return "persistentvolumeclaims/" + path.Join(claim.Namespace, claim.Name)
		}
	}
	return ""
}

// wantsDeletion finds the released volume that is to be deleted.
func (c *Checker) wantsDeletion(call driverCall) string {
	for _, obj := range c.API.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		if v.Spec.CSI != nil && v.Spec.CSI.VolumeHandle == call.volume && v.Status.Phase == corev1.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "persistentvolumes/" + v.Name
		}
	}
	return ""
}

// wantsReclaim finds the volume of a name that a plugin is to delete, or to recycle.
func (c *Checker) wantsReclaim(name, rpc string) string {
	v := c.volumeNamed(name)
	if v == nil || string(v.Spec.PersistentVolumeReclaimPolicy) != rpc ||
		v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		return ""
	}
	return "persistentvolumes/" + v.Name
}

// wantsAttachment finds the attachment that is to be made, or to go.
func (c *Checker) wantsAttachment(call driverCall) string {
	for _, obj := range c.API.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		name := a.Spec.Source.PersistentVolumeName
		if name == nil || call.node != "" && a.Spec.NodeName != call.node {
			continue
		}
		v, ok := c.API.Get("persistentvolumes", "", *name)
		if !ok || v.(*corev1.PersistentVolume).Spec.CSI == nil || v.(*corev1.PersistentVolume).Spec.CSI.VolumeHandle != call.volume {
			continue
		}
		leaving := a.DeletionTimestamp != nil
		if leaving == (call.rpc == "ControllerUnpublishVolume") && (leaving || !a.Status.Attached) {
			return "volumeattachments/" + a.Name
		}
	}
	return ""
}

// livePod finds a pod that has neither ended nor is to.
func (c *Checker) livePod(which func(pod *corev1.Pod) bool) string {
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if which(pod) && pod.DeletionTimestamp == nil && !hasEnded(pod) {
			return "pods/" + path.Join(pod.Namespace, pod.Name)
		}
	}
	return ""
}
