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
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about retries of operations.
var operationRules = []builtIn{
	{"I23", "an operation retried less than half a second after it failed", nodeRule(beginShortestBackoff)},
	{"I23b", "an operation retried before its back-off, which doubles with each failure", nodeRule(beginBackoff)},
	{"L7", "a failed operation that is still needed and not retried", nodeRule(beginTriedAgain)},
}

// The back-off of operations, independent of the code under test so that errors in it are detected.
const (
	backoffMin    = 500 * time.Millisecond
	backoffMax    = 2*time.Minute + 2*time.Second
	backoffForgot = 2 * backoffMax // time after the last failure at which the back-off is reset
)

// backoffAfter returns the back-off of an operation after a number of consecutive failures.
func backoffAfter(failures int) time.Duration {
	return min(backoffMin<<min(failures-1, 20), backoffMax)
}

// A driverCall is a driver call as recorded.
type driverCall struct {
	component string
	task      string
	rpc       string
	subject   string // "driver/volume"
	volume    string // handle, or the requested name
	node      string // of ControllerPublishVolume and ControllerUnpublishVolume
	path      string
}

func driverCallOf(r trace.Record) driverCall {
	call := driverCall{rpc: r.Verb, subject: r.Object}
	call.component, call.task, _ = strings.Cut(r.Task, "/")
	_, call.volume, _ = strings.Cut(r.Object, "/")
	for word := range strings.FieldsSeq(r.Detail) {
		if v, ok := strings.CutPrefix(word, "node="); ok {
			call.node = v
		}
		if v, ok := strings.CutPrefix(word, "path="); ok {
			call.path = v
		}
	}
	return call
}

// podOf returns the UID of the pod whose directory contains a path, and the volume's name there; ""
// if there is none.
func podOf(target string) (pod types.UID, volume string) {
	_, below, ok := strings.Cut(target, "/pods/")
	words := strings.Split(below, "/")
	if !ok || len(words) < 4 || words[1] != "volumes" {
		return "", ""
	}
	return types.UID(words[0]), words[3]
}

// endedProcess returns the component whose process an event ends; "*" if it may be any; "" if there
// is none.
func endedProcess(r trace.Record) string {
	part, _, _ := strings.Cut(r.Object, " ") // the record of a crash may include the delay of its caches
	switch r.Verb {
	case "crash", "stop", "retire":
		return part
	case "reboot", "partition", "restore":
		return "kubelet(" + part + ")"
	case "tick", "start", "replicate", "relist", "expire":
		return ""
	default:
		return "*"
	}
}

// forgetComponent deletes the entries of the component whose process has ended; of returns the
// component of a key.
func forgetComponent[K comparable, V any](m map[K]V, r trace.Record, of func(K) string) {
	if which := endedProcess(r); which != "" {
		maps.DeleteFunc(m, func(k K, _ V) bool { return which == "*" || of(k) == which })
	}
}

// An operation identifies an operation of the kubelet or the attach/detach controller that has a
// back-off.
type operation struct {
	component string
	name      string // such as "volume_mount"
	object    string // failures count per object
}

// A failing records the failures of an operation.
type failing struct {
	failures int // consecutive
	at       time.Duration
}

// operationOf returns the operation of a node's driver call; false for other calls. Pods of a node
// that share a volume share the mount operation; unmounts are separate.
func operationOf(call driverCall) (operation, bool) {
	name, _, _ := strings.Cut(call.task, " ")
	o := operation{call.component, name, call.subject}
	switch call.rpc {
	case "NodeStageVolume", "NodePublishVolume", "NodeUnstageVolume":
		return o, true
	case "NodeUnpublishVolume":
		o.object += " " + call.path
		return o, call.path != "" // a call with an injected fault has no path
	default:
		return operation{}, false
	}
}

// isLast reports whether a successful call is the last one of its operation.
func (call driverCall) isLast() bool { return call.rpc != "NodeStageVolume" }

// backoff is the state of I23 and I23b: when operations start again.
type backoff struct {
	c         *Checker
	id        string
	wait      func(failures int) time.Duration
	failing   map[operation]failing
	endedPods map[types.UID]bool // known pods: whether they have ended or are being deleted

	deleting map[operation]types.UID // the attachments that operations have started to delete
}

// checkStart checks that a running operation did not start too early.
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
		b.c.report(b.id, "%s: %s was retried %v after it had failed (%d in a row); its back-off is %v",
			o.component, what, at-f.at, f.failures, wait)
	}
}

func (b *backoff) failed(o operation, at time.Duration) {
	b.failing[o] = failing{failures: b.failing[o].failures + 1, at: at}
}

// call observes the calls of a node's operations.
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

// work observes that a worker takes up a pod. A mount for an ended pod succeeds without a call,
// which resets the count of failures.
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

// hasEnded reports whether a pod has succeeded or failed.
func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// request observes the attach/detach controller's requests about VolumeAttachments. A failed one
// fails the operation.
func (b *backoff) request(r trace.Record) {
	component, task, _ := strings.Cut(r.Task, "/")
	name, _, _ := strings.Cut(task, " ")
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

// deletes observes the deletion of VolumeAttachments for a detach. A repeated deletion means that
// the detach has failed, whatever the response was: the attacher reported an error of the driver,
// or nothing. A VolumeAttachment created again is another one.
func (b *backoff) deletes(r trace.Record) {
	component, task, _ := strings.Cut(r.Task, "/")
	name, _, _ := strings.Cut(task, " ")
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
	b.failed(o, r.At) // at least if it is repeated
}

func (b *backoff) event(r trace.Record) {
	forgetComponent(b.failing, r, func(o operation) string { return o.component })
}

// beginShortestBackoff checks that a failed operation waits for the shortest back-off, whatever the
// number of failures.
func beginShortestBackoff(c *Checker) watcher {
	b := &backoff{
		c: c, id: "I23", failing: map[operation]failing{},
		wait: func(int) time.Duration { return backoffMin },
	}
	return watcher{call: b.call, request: b.request, event: b.event}
}

// beginBackoff checks that an operation waits for the back-off of its consecutive failures, as far
// as driver calls and deletions of VolumeAttachments show them. I23 checks that of the first
// failure.
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
	return watcher{
		commits: []string{"pods"}, commit: b.commit, call: b.call,
		request: b.deletes, work: b.work, event: b.event,
	}
}

// An effect identifies what a call does to a volume or undoes.
type effect struct {
	component string
	what      string // common to the two calls that do and undo it
	object    string
}

// effectOfCall maps the calls that do something, and those that undo it, to a common name.
var effectOfCall = map[string]string{
	"CreateVolume": "create", "DeleteVolume": "delete",
	"Provision": "create", "Delete": "delete", "Recycle": "recycle",
	"ControllerPublishVolume": "attach", "ControllerUnpublishVolume": "attach",
	"NodeStageVolume": "stage", "NodeUnstageVolume": "stage",
	"NodePublishVolume": "publish", "NodeUnpublishVolume": "publish",
}

// beginTriedAgain checks that, at rest, the last call to do or undo something did not fail, unless
// no object needs it any more.
func beginTriedAgain(c *Checker) watcher {
	last := reuse.Map[effect, trace.Record](c.Reuse) // the last call, if it failed
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
			delete(last, d) // of calls with an injected fault, which have neither node nor path
		},
		event: func(r trace.Record) { forgetComponent(last, r, func(d effect) string { return d.component }) },
		rest: func(report func(object, why string)) {
			for _, d := range slices.SortedFunc(maps.Keys(last), func(a, b effect) int {
				return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
			}) {
				r := last[d]
				if object := c.waitingObject(driverCallOf(r)); object != "" {
					report(object,
						fmt.Sprintf("waits for %s, which failed at %v (%v) and was not retried", r.Verb, r.At, r.Err))
				}
			}
		},
	}
}

// waitingObject returns the object, as "resource/namespace/name", for which a failed driver call
// must be retried; "" if there is none.
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
		return "" // the publish waits for it
	default:
		if call.rpc == "NodeUnpublishVolume" && call.path == "" {
			return ""
		}
		return "nodes/" + strings.TrimSuffix(strings.TrimPrefix(call.component, "kubelet("), ")")
	}
}

// wantsVolume returns the unbound claim for which a volume of this name must be created.
func (c *Checker) wantsVolume(name string) string {
	for _, obj := range c.API.List("persistentvolumeclaims") {
		claim := obj.(*corev1.PersistentVolumeClaim)
		if name == "pvc-"+string(claim.UID) && claim.Spec.VolumeName == "" && claim.DeletionTimestamp == nil {
			return "persistentvolumeclaims/" + path.Join(claim.Namespace, claim.Name)
		}
	}
	return ""
}

// wantsDeletion returns the Released volume that must be deleted.
func (c *Checker) wantsDeletion(call driverCall) string {
	for _, obj := range c.API.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		if v.Spec.CSI != nil && handleKey(v) == call.subject && v.Status.Phase == corev1.VolumeReleased &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			return "persistentvolumes/" + v.Name
		}
	}
	return ""
}

// wantsReclaim returns the volume of a name that a plugin must delete or recycle.
func (c *Checker) wantsReclaim(name, rpc string) string {
	v := c.volumeNamed(name)
	if v == nil || string(v.Spec.PersistentVolumeReclaimPolicy) != rpc ||
		v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		return ""
	}
	return "persistentvolumes/" + v.Name
}

// wantsAttachment returns the attachment that must be attached or detached.
func (c *Checker) wantsAttachment(call driverCall) string {
	driver, _, _ := strings.Cut(call.subject, "/")
	node := c.nodeName(driver, call.node)
	for _, obj := range c.API.List("volumeattachments") {
		a := obj.(*storagev1.VolumeAttachment)
		name := a.Spec.Source.PersistentVolumeName
		if name == nil || node != "" && a.Spec.NodeName != node {
			continue
		}
		v, ok := c.API.Get("persistentvolumes", "", *name)
		if !ok || v.(*corev1.PersistentVolume).Spec.CSI == nil ||
			handleKey(v.(*corev1.PersistentVolume)) != call.subject {
			continue
		}
		leaving := a.DeletionTimestamp != nil
		if leaving == (call.rpc == "ControllerUnpublishVolume") && (leaving || !a.Status.Attached) {
			return "volumeattachments/" + a.Name
		}
	}
	return ""
}

// livePod returns a matching pod that has not ended and is not being deleted.
func (c *Checker) livePod(which func(pod *corev1.Pod) bool) string {
	for _, obj := range c.API.List("pods") {
		pod := obj.(*corev1.Pod)
		if which(pod) && pod.DeletionTimestamp == nil && !hasEnded(pod) {
			return "pods/" + path.Join(pod.Namespace, pod.Name)
		}
	}
	return ""
}
