package addiff

import (
	"fmt"
	"maps"
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
	"github.com/volsim/volsim/test/conformance/histories"
)

// An observer describes the state of a server in words that do not depend on the world, and what
// the controller did before. It may be used concurrently.
type observer struct {
	server *fake.Server
	events histories.Events

	mu        sync.Mutex
	calls     map[string][]string // guarded by mu: attach and detach requests, by volume; by volume and node if it is shared
	foreign   map[types.UID]bool  // guarded by mu: attachments that another client deletes
	dropped   map[string]bool     // guarded by mu: the volumes of those
	uncertain map[string]bool     // guarded by mu: volumes with a Multi-Attach error without a certain attachment
	doubled   map[string]bool     // guarded by mu: single-node volumes with a request for a second attachment
}

func observe(server *fake.Server) *observer {
	o := &observer{
		server: server, calls: map[string][]string{}, foreign: map[types.UID]bool{},
		dropped: map[string]bool{}, uncertain: map[string]bool{}, doubled: map[string]bool{},
	}
	server.OnCommit(o.record)
	return o
}

func (o *observer) record(c fake.Commit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch c.Resource {
	case "pods":
		if c.Type == watch.Added {
			o.events.Name(c.After.GetUID(), "%s#%d", c.After.GetName())
		}
	case "events":
		e := c.After.(*corev1.Event)
		o.events.Add(e, eventText(e))
		if disk := diskIn(e.Message); strings.HasPrefix(e.Message, "Multi-Attach error ") && !o.isAttached(disk) {
			o.uncertain[disk] = true
		}
	case "volumeattachments":
		va := c.After.(*storagev1.VolumeAttachment)
		switch {
		case c.Type == watch.Added:
			if o.hasOtherAttachment(va) {
				o.doubled[*va.Spec.Source.PersistentVolumeName] = true
			}
			o.call("attach", va)
		case o.foreign[va.UID] || c.Before.GetDeletionTimestamp() != nil:
		case c.Type == watch.Deleted || va.DeletionTimestamp != nil:
			o.call("detach", va)
		}
	}
}

// hasOtherAttachment reports whether a single-node volume has another attachment.
func (o *observer) hasOtherAttachment(va *storagev1.VolumeAttachment) bool {
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

// isAttached reports whether a volume is certainly attached to a node.
func (o *observer) isAttached(disk string) bool {
	return slices.ContainsFunc(o.server.List("volumeattachments"), func(obj fake.Object) bool {
		va := obj.(*storagev1.VolumeAttachment)
		return *va.Spec.Source.PersistentVolumeName == disk && va.Status.Attached && va.DeletionTimestamp == nil
	})
}

// call records a request to the attacher, unless it repeats the previous one.
func (o *observer) call(verb string, va *storagev1.VolumeAttachment) {
	volume := *va.Spec.Source.PersistentVolumeName
	if diskOf(volume).shared() {
		volume += "@" + va.Spec.NodeName
	}
	what := verb + " " + va.Spec.NodeName
	if calls := o.calls[volume]; len(calls) == 0 || calls[len(calls)-1] != what {
		o.calls[volume] = append(calls, what)
	}
}

// deletedByOther records that another client deletes an attachment.
func (o *observer) deletedByOther(va *storagev1.VolumeAttachment) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.foreign[va.UID], o.dropped[*va.Spec.Source.PersistentVolumeName] = true, true
}

// isInUse reports whether a node reports a volume as in use.
func (o *observer) isInUse(disk, node string) bool {
	obj, ok := o.server.Get("nodes", "", node)
	return ok && slices.Contains(obj.(*corev1.Node).Status.VolumesInUse, diskOf(disk).unique())
}

// has reports whether a set of the observer contains a volume.
func (o *observer) has(set map[string]bool, disk string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return set[disk]
}

// doublyAttached returns the single-node volumes with a request for a second attachment.
func (o *observer) doublyAttached() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Sorted(maps.Keys(o.doubled))
}

// state returns sorted lines for attachments, nodes, reported volumes, events and calls.
func (o *observer) state() histories.State {
	var lines []string
	for _, obj := range o.server.List("volumeattachments") {
		lines = append(lines, attachmentLine(obj.(*storagev1.VolumeAttachment)))
	}
	for _, obj := range o.server.List("nodes") {
		lines = append(lines, nodeLines(obj.(*corev1.Node))...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for volume, calls := range o.calls {
		lines = append(lines, fmt.Sprintf("calls %s: %s", volume, strings.Join(calls, ", ")))
	}
	return o.events.State(lines)
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
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("reported %s@%s %s", diskNamed(v.Name), n.Name, v.DevicePath)))
	}
	return lines
}

// diskNamed returns the disk of a unique name.
func diskNamed(name corev1.UniqueVolumeName) string {
	for _, d := range disks {
		if d.unique() == name {
			return d.name
		}
	}
	panic("no disk " + string(name))
}

// eventText returns an event in words. Upstream lists pods in map order.
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
