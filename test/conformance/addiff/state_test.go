package addiff

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/csi"
)

// observer tells of the state of a server in words that another server has, too, and of what the controller did on the way.
type observer struct {
	server *fake.Server

	mu      sync.Mutex
	uids    []string            // guarded by mu: pairs for a strings.Replacer
	counts  map[string]int      // guarded by mu: by pod: how many there were of that name
	told    map[string]bool     // guarded by mu: every event
	talk    map[types.UID]int   // guarded by mu: events told about an object
	calls   map[string][]string // guarded by mu: by volume, or volume and node where it may be on several: what was asked of the attacher
	others  map[types.UID]bool  // guarded by mu: attachments that somebody else deletes
	dropped map[string]bool     // guarded by mu: and the volumes that they are of
	unsure  map[string]bool     // guarded by mu: volumes of which was told that they are elsewhere, when no attachment of them was certain
	doubled map[string]bool     // guarded by mu: volumes for one node that were to be attached to one while they had an attachment to another
}

func observe(server *fake.Server) *observer {
	o := &observer{
		server: server, counts: map[string]int{}, told: map[string]bool{}, talk: map[types.UID]int{},
		calls: map[string][]string{}, others: map[types.UID]bool{}, dropped: map[string]bool{}, doubled: map[string]bool{}, unsure: map[string]bool{},
	}
	server.OnCommit(o.note)
	return o
}

func (o *observer) note(c fake.Commit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch c.Resource {
	case "pods":
		if c.Type == watch.Added {
			o.counts[c.After.GetName()]++
			o.uids = append(o.uids, string(c.After.GetUID()), fmt.Sprintf("%s#%d", c.After.GetName(), o.counts[c.After.GetName()]))
		}
	case "events":
		e := c.After.(*corev1.Event)
		o.talk[e.InvolvedObject.UID]++
		o.told[eventText(e)] = true
		if disk := diskIn(e.Message); strings.HasPrefix(e.Message, "Multi-Attach error ") && !o.isAttached(disk) {
			o.unsure[disk] = true
		}
	case "volumeattachments":
		va := c.After.(*storagev1.VolumeAttachment)
		switch {
		case c.Type == watch.Added:
			o.doubled[*va.Spec.Source.PersistentVolumeName] = o.doubled[*va.Spec.Source.PersistentVolumeName] || o.isElsewhere(va)
			o.call("attach", va)
		case o.others[va.UID] || c.Before.GetDeletionTimestamp() != nil:
		case c.Type == watch.Deleted || va.DeletionTimestamp != nil:
			o.call("detach", va)
		}
	}
}

// isElsewhere tells whether a volume for one node has another attachment.
func (o *observer) isElsewhere(va *storagev1.VolumeAttachment) bool {
	name := *va.Spec.Source.PersistentVolumeName
	if diskOf(name).shared() {
		return false
	}
	for _, obj := range o.server.List("volumeattachments") {
		other := obj.(*storagev1.VolumeAttachment)
		if other.UID != va.UID && *other.Spec.Source.PersistentVolumeName == name {
			return true
		}
	}
	return false
}

// isAttached tells whether a volume is attached somewhere for certain.
func (o *observer) isAttached(disk string) bool {
	return slices.ContainsFunc(o.server.List("volumeattachments"), func(obj fake.Object) bool {
		va := obj.(*storagev1.VolumeAttachment)
		return *va.Spec.Source.PersistentVolumeName == disk && va.Status.Attached && va.DeletionTimestamp == nil
	})
}

// call notes what was asked of the attacher, unless that is what was asked before.
func (o *observer) call(verb string, va *storagev1.VolumeAttachment) {
	volume := *va.Spec.Source.PersistentVolumeName
	if diskOf(volume).shared() {
		volume += "@" + va.Spec.NodeName
	}
	what := verb + " " + va.Spec.NodeName
	if was := o.calls[volume]; len(was) == 0 || was[len(was)-1] != what {
		o.calls[volume] = append(was, what)
	}
}

// foreign notes that somebody else deletes an attachment.
func (o *observer) foreign(va *storagev1.VolumeAttachment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.others[va.UID], o.dropped[*va.Spec.Source.PersistentVolumeName] = true, true
}

// isInUse tells whether a node, in the end, says that it uses a volume.
func (o *observer) isInUse(disk, node string) bool {
	obj, ok := o.server.Get("nodes", "", node)
	return ok && slices.Contains(obj.(*corev1.Node).Status.VolumesInUse, diskOf(disk).unique())
}

// is tells whether a set of the observer's has a volume.
func (o *observer) is(set map[string]bool, disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return set[disk]
}

// twice are the volumes for one node that were to be attached to one while they had an attachment to another.
func (o *observer) twice() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var names []string
	for name, was := range o.doubled {
		if was {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// spamBurst is how many events about an object upstream's recorder lets through at once.
//
// Upstream: client-go tools/record defaultSpamBurst.
const spamBurst = 25

// chatty tells whether so much was told about an object that upstream's recorder may drop what comes then.
func (o *observer) chatty() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.talk {
		if n >= spamBurst-1 {
			return true
		}
	}
	return false
}

// state is what there is on a server and what was told and asked: a line for each attachment, node, reported volume, event and
// volume, sorted.
func (o *observer) state() []string {
	var lines []string
	for _, obj := range o.server.List("volumeattachments") {
		lines = append(lines, attachmentLine(obj.(*storagev1.VolumeAttachment)))
	}
	for _, obj := range o.server.List("nodes") {
		lines = append(lines, nodeLines(obj.(*corev1.Node))...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for text := range o.told {
		lines = append(lines, text)
	}
	for volume, calls := range o.calls {
		lines = append(lines, fmt.Sprintf("calls %s: %s", volume, strings.Join(calls, ", ")))
	}
	names := strings.NewReplacer(o.uids...)
	for i := range lines {
		lines[i] = names.Replace(lines[i])
	}
	slices.Sort(lines)
	return lines
}

func attachmentLine(va *storagev1.VolumeAttachment) string {
	disk := *va.Spec.Source.PersistentVolumeName
	line := fmt.Sprintf("attachment %s@%s: by %s", disk, va.Spec.NodeName, va.Spec.Attacher)
	if va.Name != csi.AttachmentName(diskOf(disk).handle, driverName, types.NodeName(va.Spec.NodeName)) {
		line += ", named " + va.Name
	}
	if va.Status.Attached {
		line += ", attached"
	}
	if e := va.Status.AttachError; e != nil {
		line += ", " + e.Message
	}
	if e := va.Status.DetachError; e != nil {
		line += ", " + e.Message
	}
	if va.DeletionTimestamp != nil {
		line += ", being deleted"
	}
	return line
}

func nodeLines(n *corev1.Node) []string {
	lines := []string{"node " + n.Name}
	if n.Annotations[attachdetach.ManagedAnnotation] == "" {
		lines[0] += ", unmanaged"
	}
	for _, v := range n.Status.VolumesAttached {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("reported %s@%s %s", named(v.Name), n.Name, v.DevicePath)))
	}
	return lines
}

// named is the disk of a unique name.
func named(name corev1.UniqueVolumeName) string {
	for _, d := range disks {
		if d.unique() == name {
			return d.name
		}
	}
	panic("no disk " + string(name))
}

// eventText is what an event tells, and about what. Upstream lists pods in the order of a map.
func eventText(e *corev1.Event) string {
	message := e.Message
	if before, list, ok := strings.Cut(message, " used by pod(s) "); ok {
		list, more, _ := strings.Cut(list, " and ")
		names := strings.Split(list, ", ")
		slices.Sort(names)
		message = before + " used by pod(s) " + strings.Join(names, ", ") + more
	}
	return fmt.Sprintf("event about %s: %s %s: %s", e.InvolvedObject.UID, e.Type, e.Reason, message)
}
