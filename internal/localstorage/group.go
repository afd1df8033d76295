package localstorage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/resourceversion"
	"github.com/volsim/volsim/internal/volumegroup"
)

// recordFinalizer keeps a record until its volume group is removed.
const recordFinalizer = Provisioner + "/volume-group"

// The reasons of events of classes.
const (
	reasonDiskRefused = "DiskRefused"
	reasonDiskInUse   = "DiskInUse"
	reasonDiskLost    = "DiskLost"
)

// The types of the conditions of a record.
const (
	conditionReady    = "Ready"
	conditionAccepted = "DisksAccepted"
)

// record returns the record of a class on this node as this process knows it, or nil.
func (m *Manager) record(class string) *NodeLocalStorage {
	name := recordName(class, m.cfg.Node)
	seen, written := m.records.Get("", name), m.written[name]
	if seen == nil || written == nil || seen.UID != written.UID {
		delete(m.written, name)
		return seen
	}
	if order, err := resourceversion.Compare(seen.ResourceVersion, written.ResourceVersion); err != nil || order >= 0 {
		delete(m.written, name)
		return seen
	}
	return written
}

// syncClass makes the group of a class on this node what the class says, and reports it in the
// record.
func (m *Manager) syncClass(ctx context.Context, name string) error {
	class, r := m.class(name), m.record(name)
	disks, valid := m.disksOf(class)
	switch {
	case r == nil && disks == nil:
		return nil
	case r == nil:
		if _, err := m.nodes.Get(m.cfg.Node); err != nil {
			return nil //nolint:nilerr // the kubelet has not registered it
		}
		return m.createRecord(ctx, class, disks)
	case !valid: // the record keeps its disks
	case disks == nil:
		return m.release(ctx, r)
	case r.DeletionTimestamp != nil: // deleted by a user: it is created again
		return m.dropFinalizer(ctx, r)
	case !slices.Equal(r.Spec.Disks, disks):
		r.Spec.Disks = disks
		return m.keep(records.Client(m.cfg.Dynamic).Update(ctx, r))
	}
	return m.refresh(ctx, name)
}

// disksOf returns the disks of a class on this node. It reports false if its parameters are invalid,
// so that its disks are unknown.
func (m *Manager) disksOf(class *storagev1.StorageClass) (disks []string, valid bool) {
	if class == nil || class.DeletionTimestamp != nil {
		return nil, true
	}
	p, err := parseClass(class)
	return p.disksOf(m.cfg.Node), err == nil
}

// createRecord creates the record of a class. The class owns it, and the finalizer keeps it while
// the group exists.
func (m *Manager) createRecord(ctx context.Context, class *storagev1.StorageClass, disks []string) error {
	r := &NodeLocalStorage{
		ObjectMeta: metav1.ObjectMeta{
			Name: recordName(class.Name, m.cfg.Node), Finalizers: []string{recordFinalizer},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "storage.k8s.io/v1", Kind: "StorageClass", Name: class.Name, UID: class.UID,
			}},
		},
		Spec: Spec{StorageClassName: class.Name, NodeName: m.cfg.Node, Disks: disks},
	}
	_, err := records.Client(m.cfg.Dynamic).Create(ctx, r)
	if apierrors.IsAlreadyExists(err) {
		return nil // the cache will show it
	}
	return err
}

// release removes the group of a class that is gone, or that no longer names this node, and then the
// record. Both stay while there are volumes.
func (m *Manager) release(ctx context.Context, r *NodeLocalStorage) error {
	class := r.Spec.StorageClassName
	report, err := m.ensure(ctx, class, nil)
	if err != nil {
		return err
	}
	if err := m.finishVolumes(ctx, class, &report); err != nil {
		return err
	}
	if len(report.Volumes) > 0 {
		if owner := m.class(class); owner != nil {
			m.tellClass(owner, "release", reasonDiskInUse, fmt.Sprintf("%s: volume group %s is kept while it has volumes: %s",
				m.cfg.Node, report.Group, volumeNames(report.Volumes)))
		}
		return m.writeReport(ctx, r, report)
	}
	err = m.call("RemoveVolumeGroup", class, func() error { return m.cfg.Groups.Destroy(ctx, class) })
	if err != nil {
		return err
	}
	if r.DeletionTimestamp == nil {
		err := records.Client(m.cfg.Dynamic).Delete(ctx, "", r.Name,
			metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(r.UID))})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err // its finalizer is dropped when the cache shows the deletion
	}
	return m.dropFinalizer(ctx, r)
}

func volumeNames(volumes []volumegroup.Volume) string {
	names := make([]string, len(volumes))
	for i, v := range volumes {
		names[i] = v.Name
	}
	return strings.Join(names, ", ")
}

func (m *Manager) dropFinalizer(ctx context.Context, r *NodeLocalStorage) error {
	if !slices.Contains(r.Finalizers, recordFinalizer) {
		return nil
	}
	r.Finalizers = slices.DeleteFunc(r.Finalizers, func(f string) bool { return f == recordFinalizer })
	err := m.keep(records.Client(m.cfg.Dynamic).Update(ctx, r))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// keep keeps a record that was written until the cache shows it.
func (m *Manager) keep(written *NodeLocalStorage, err error) error {
	if err == nil {
		m.written[written.Name] = written
	}
	return err
}

// refresh makes the group of a record, removes unfinished volumes that no claim waits for, and
// reports what there is. Without a record it does nothing.
func (m *Manager) refresh(ctx context.Context, class string) error {
	r := m.record(class)
	if _, err := m.nodes.Get(m.cfg.Node); err != nil || r == nil {
		return nil //nolint:nilerr // the controller reports a node that does not exist
	}
	report, err := m.ensure(ctx, class, r.Spec.Disks)
	if err != nil {
		return err
	}
	if err := m.finishVolumes(ctx, class, &report); err != nil {
		return err
	}
	return m.writeReport(ctx, r, report)
}

// finishVolumes finishes those unfinished volumes that have a PersistentVolume, and removes those
// that no claim waits for. The creation of either was interrupted.
func (m *Manager) finishVolumes(ctx context.Context, class string, report *volumegroup.Report) error {
	left := report.Volumes[:0:0]
	removed := false
	for _, v := range report.Volumes {
		if !v.Unfinished || m.isAwaited(v) {
			left = append(left, v)
			continue
		}
		volume, err := m.cfg.Client.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
		switch {
		case err == nil && isOn(volume, m.cfg.Node):
			err = m.call("FinishLogicalVolume", v.Name, func() error { return m.cfg.Groups.Finish(ctx, class, v.Name) })
			v.Unfinished = false
			left = append(left, v)
		case err == nil || apierrors.IsNotFound(err):
			removed = true
			err = m.call("RemoveLogicalVolume", v.Name, func() error { return m.cfg.Groups.Remove(ctx, class, v.Name) })
		}
		if err != nil {
			return err
		}
	}
	if !removed {
		report.Volumes = left
		return nil
	}
	var disks []string
	for _, disk := range report.Disks {
		disks = append(disks, disk.Path)
	}
	again, err := m.ensure(ctx, class, disks)
	*report = again
	return err
}

// isAwaited reports whether a claim waits for an unfinished volume on this node.
func (m *Manager) isAwaited(v volumegroup.Volume) bool {
	namespace, name, _ := strings.Cut(v.Owner, "/")
	claim, err := m.claims.PersistentVolumeClaims(namespace).Get(name)
	return err == nil && volumeName(claim) == v.Name && claim.Spec.VolumeName == "" && isSelected(claim, m.cfg.Node)
}

// writeReport writes the status of a record, if it differs. When there is more space than before,
// claims that wait for it are tried again.
func (m *Manager) writeReport(ctx context.Context, r *NodeLocalStorage, report volumegroup.Report) error {
	before := r.Status
	status := m.statusOf(r, report)
	class := r.Spec.StorageClassName
	if before.Free.Cmp(status.Free) < 0 {
		m.freed[class] = true // also if the write takes effect and its response is lost
	}
	if !equality.Semantic.DeepEqual(before, status) {
		written := *r
		written.Status = status
		if err := m.keep(records.Client(m.cfg.Dynamic).UpdateStatus(ctx, &written)); err != nil {
			return err
		}
		m.tellDisks(r, status)
	}
	if m.freed[class] {
		delete(m.freed, class)
		m.addGrowing(class)
	}
	return nil
}

// statusOf returns the status of a record.
func (m *Manager) statusOf(r *NodeLocalStorage, report volumegroup.Report) Status {
	s := Status{
		ObservedGeneration: r.Generation, VolumeGroup: report.Group, Phase: phaseReady,
		Capacity: quantity(report.Size), Free: quantity(report.Free), MaximumVolumeSize: quantity(report.Largest),
		Conditions: slices.Clone(r.Status.Conditions),
	}
	var lost, refused []string
	for _, disk := range report.Disks {
		s.Disks = append(s.Disks, DiskStatus{Path: disk.Path, Size: quantity(disk.Size), State: string(disk.State), Message: disk.Message})
		switch text := disk.Path + " " + disk.Message; disk.State {
		case volumegroup.Lost:
			lost = append(lost, text)
		case volumegroup.Missing, volumegroup.Refused:
			refused = append(refused, text)
		}
	}
	for _, v := range report.Volumes {
		s.Volumes = append(s.Volumes, VolumeStatus{Name: v.Name, Size: quantity(v.Size), Lost: v.Lost})
		if v.Lost {
			lost = append(lost, "volume "+v.Name+" is on a lost disk")
		}
	}
	ready := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: "VolumeGroupReady"}
	switch {
	case report.Group == "":
		s.Phase, ready.Status, ready.Reason, ready.Message = phaseFailed, metav1.ConditionFalse, "NoUsableDisk", "no disk can be used"
	case len(lost) > 0:
		s.Phase, ready.Status, ready.Reason, ready.Message = phaseDegraded, metav1.ConditionFalse, reasonDiskLost, strings.Join(lost, "; ")
	}
	accepted := metav1.Condition{Type: conditionAccepted, Status: metav1.ConditionTrue, Reason: "AllDisksInUse"}
	if len(refused) > 0 {
		accepted.Status, accepted.Reason, accepted.Message = metav1.ConditionFalse, reasonDiskRefused, strings.Join(refused, "; ")
	}
	for _, each := range []metav1.Condition{ready, accepted} {
		each.ObservedGeneration, each.LastTransitionTime = r.Generation, metav1.NewTime(m.cfg.Process.Now())
		meta.SetStatusCondition(&s.Conditions, each)
	}
	return s
}

// quantity returns a number of bytes as a quantity.
func quantity(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// tellDisks reports to the class which disks are refused, lost, or kept although it no longer names
// them.
func (m *Manager) tellDisks(r *NodeLocalStorage, status Status) {
	class := m.class(r.Spec.StorageClassName)
	if class == nil {
		return
	}
	for _, c := range status.Conditions {
		if c.Status == metav1.ConditionFalse && c.Reason != "NoUsableDisk" {
			m.tellClass(class, c.Type, c.Reason, m.cfg.Node+": "+c.Message)
		} else if c.Status == metav1.ConditionTrue {
			delete(m.told, class.Name+"/"+c.Type)
		}
	}
	for _, disk := range status.Disks {
		if disk.State == string(volumegroup.InUse) && !slices.Contains(r.Spec.Disks, disk.Path) {
			m.tellClass(class, disk.Path, reasonDiskInUse,
				fmt.Sprintf("%s: disk %s is kept: it is part of volume group %s", m.cfg.Node, disk.Path, status.VolumeGroup))
		}
	}
}

// tellClass records a warning at a class, unless it was the last one about a subject.
func (m *Manager) tellClass(class *storagev1.StorageClass, about, reason, text string) {
	if key := class.Name + "/" + about; m.told[key] != text {
		m.told[key] = text
		m.cfg.Recorder.Event(class, corev1.EventTypeWarning, reason, text)
	}
}

// addGrowing queues the claims of a class whose volumes are smaller than they request.
func (m *Manager) addGrowing(class string) {
	for _, claim := range m.selected() {
		if storagehelpers.GetPersistentVolumeClaimClass(claim) == class && claim.Spec.VolumeName != "" {
			m.queue.Add(work{claimWork, claim.Namespace, claim.Name})
		}
	}
}
