package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// The labels of the objects that a provisioner publishes.
//
// Upstream: external-provisioner pkg/capacity DriverNameLabel, ManagedByLabel (6.3.0).
const (
	driverNameLabel = "csi.storage.k8s.io/drivername"
	managedByLabel  = "csi.storage.k8s.io/managed-by"
	managedBy       = "external-provisioner"
)

// pollPeriodDefault is how often the driver is asked for its capacity.
//
// Upstream: external-provisioner --capacity-poll-interval.
const pollPeriodDefault = time.Minute

// capacities publishes the free capacity of a driver.
//
// Upstream: external-provisioner pkg/capacity Controller (6.3.0).
//
// Differs: requests to the API server are not limited to one a second. Duplicates are found in the order
// of the cache, and the object to keep is the first.
type capacities struct {
	c     *Controller
	queue *sim.Queue[capacityItem]
	poll  *sim.Timer
	nodes topology
	ready bool // the segments are known

	segments map[string]segmentSet // by text
	// objects has an entry for each object that must exist; nil: the cache has none.
	objects map[capacityItem]*storagev1.CSIStorageCapacity
	items   map[types.UID]capacityItem // of the objects in objects
}

// A capacityItem is a unit of work: a class and a segment whose capacity is published, an object to
// remove, or, if it is empty, the segments themselves.
type capacityItem struct{ class, segment, remove string }

// String returns the item for the trace.
func (i capacityItem) String() string {
	switch {
	case i.remove != "":
		return "remove " + i.remove
	case i.class == "":
		return "segments"
	default:
		return i.class + " " + i.segment
	}
}

// text returns the segments in the order of their keys.
func (p segmentSet) text() string {
	words := make([]string, 0, len(p))
	for _, key := range p.keys() {
		words = append(words, key+"="+p[key])
	}
	return strings.Join(words, ",")
}

// publishCapacity starts the publication.
func (c *Controller) publishCapacity() {
	queue := c.cfg.queue("capacity")
	queue.Background = true
	p := &capacities{
		c: c, queue: sim.NewQueue[capacityItem](c.cfg.Process, queue), segments: map[string]segmentSet{},
		objects: map[capacityItem]*storagev1.CSIStorageCapacity{}, items: map[types.UID]capacityItem{},
	}
	c.capacities = p
	p.poll = c.cfg.Process.NewBackgroundTimer("capacity period", p.refreshAll)
	storage := c.cfg.Informers.Storage().V1()
	eventhandler.Add(storage.StorageClasses().Informer(), func(_, class *storagev1.StorageClass) { p.addClass(class) }, p.removeClass)
	eventhandler.Add(storage.CSIStorageCapacities().Informer(), func(_, o *storagev1.CSIStorageCapacity) { p.observe(o) }, p.observeDeletion)
	p.watchNodes()
	p.queue.Add(capacityItem{})
	p.queue.Work(p.sync)
}

// watchNodes watches the nodes of which the segments are. A provisioner of one node has that node's.
func (p *capacities) watchNodes() {
	c := p.c
	if c.node != nil {
		p.nodes = c.node.place(c.cfg.DriverName, false)
		return
	}
	core, storage := c.cfg.Informers.Core().V1(), c.cfg.Informers.Storage().V1()
	eventhandler.Add(storage.CSINodes().Informer(),
		func(_, _ *storagev1.CSINode) { p.queue.Add(capacityItem{}) }, func(*storagev1.CSINode) { p.queue.Add(capacityItem{}) })
	eventhandler.Add(core.Nodes().Informer(), func(old, node *corev1.Node) {
		if old == nil || !maps.Equal(old.Labels, node.Labels) {
			p.queue.Add(capacityItem{})
		}
	}, func(*corev1.Node) { p.queue.Add(capacityItem{}) })
	p.nodes = topology{driver: c.cfg.DriverName, nodes: core.Nodes().Lister(), csiNodes: storage.CSINodes().Lister()}
}

// concerns reports whether the capacity for a class is published.
func (p *capacities) concerns(class *storagev1.StorageClass) bool {
	late := class.VolumeBindingMode == nil || *class.VolumeBindingMode != storagev1.VolumeBindingImmediate
	return class.Provisioner == p.c.cfg.DriverName && (late || p.c.cfg.CapacityImmediate)
}

func (p *capacities) addClass(class *storagev1.StorageClass) {
	if !p.concerns(class) {
		return
	}
	for _, segment := range slices.Sorted(maps.Keys(p.segments)) {
		p.add(capacityItem{class: class.Name, segment: segment})
	}
}

func (p *capacities) removeClass(class *storagev1.StorageClass) {
	if class.Provisioner != p.c.cfg.DriverName {
		return
	}
	for _, segment := range slices.Sorted(maps.Keys(p.segments)) {
		p.forget(capacityItem{class: class.Name, segment: segment})
	}
}

// add makes an item wanted, and refreshes it.
func (p *capacities) add(item capacityItem) {
	if _, ok := p.objects[item]; !ok {
		p.objects[item] = nil
	}
	p.queue.Add(item)
}

// forget ends an item. Its object is removed.
func (p *capacities) forget(item capacityItem) {
	object := p.objects[item]
	delete(p.objects, item)
	if object != nil {
		delete(p.items, object.UID)
		p.queue.Add(capacityItem{remove: object.Name})
	}
}

// sorted returns the wanted items in a fixed order.
func (p *capacities) sorted() []capacityItem {
	return slices.SortedFunc(maps.Keys(p.objects), func(a, b capacityItem) int { return strings.Compare(a.String(), b.String()) })
}

// refreshAll asks the driver again about everything.
func (p *capacities) refreshAll() {
	p.poll.Reset(cmp.Or(p.c.cfg.CapacityPollPeriod, pollPeriodDefault))
	for _, item := range p.sorted() {
		p.queue.Add(item)
	}
}

// refresh refreshes what a volume may have changed: the segments of its node affinity, or its class.
//
// Upstream: external-provisioner pkg/capacity provisionWrapper, refreshTopology, refreshSC (6.3.0).
func (p *capacities) refresh(affinity *corev1.VolumeNodeAffinity, class string) {
	if p == nil {
		return
	}
	if affinity == nil {
		p.refreshIf(func(item capacityItem) bool { return item.class == class })
		return
	}
	if affinity.Required == nil {
		return
	}
	for _, term := range affinity.Required.NodeSelectorTerms {
		if segment, ok := segmentOf(term); ok {
			p.refreshIf(func(item capacityItem) bool { return item.segment == segment.text() })
		}
	}
}

func (p *capacities) refreshIf(matches func(item capacityItem) bool) {
	for _, item := range p.sorted() {
		if matches(item) {
			p.queue.Add(item)
		}
	}
}

// segmentOf returns the segment that a term of a volume's node affinity selects.
//
// Upstream: external-provisioner pkg/capacity termToSegment (6.3.0).
func segmentOf(term corev1.NodeSelectorTerm) (segmentSet, bool) {
	segment := segmentSet{}
	for _, r := range term.MatchExpressions {
		if r.Operator != corev1.NodeSelectorOpIn || len(r.Values) != 1 {
			return nil, false
		}
		segment[r.Key] = r.Values[0]
	}
	return segment, len(term.MatchFields) == 0
}

// sync does one unit of work.
func (p *capacities) sync(ctx context.Context, item capacityItem) error {
	switch {
	case item.remove != "":
		err := p.c.cfg.Client.StorageV1().CSIStorageCapacities(p.c.cfg.CapacityNamespace).Delete(ctx, item.remove, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	case item.class == "":
		p.syncSegments()
		return nil
	default:
		return p.syncCapacity(ctx, item)
	}
}

// syncSegments finds the segments of the nodes on which the driver runs.
//
// Upstream: external-provisioner pkg/capacity/topology nodeTopology.sync (6.3.0).
func (p *capacities) syncSegments() {
	found := p.nodes.segments()
	classes, err := p.c.classes.List(labels.Everything())
	if err != nil {
		panic("provisioner: list classes: " + err.Error()) // the cache has no errors
	}
	slices.SortFunc(classes, func(a, b *storagev1.StorageClass) int { return strings.Compare(a.Name, b.Name) })
	old := p.segments
	p.segments = found
	for _, class := range classes {
		if !p.concerns(class) {
			continue
		}
		for _, segment := range slices.Sorted(maps.Keys(found)) {
			if _, known := old[segment]; !known {
				p.add(capacityItem{class: class.Name, segment: segment})
			}
		}
	}
	for _, item := range p.sorted() {
		if _, ok := found[item.segment]; !ok {
			p.forget(item)
		}
	}
	if !p.ready {
		p.ready = true
		p.observeAll()
		p.poll.Reset(cmp.Or(p.c.cfg.CapacityPollPeriod, pollPeriodDefault))
	}
}

// segments returns the segments of all nodes on which the driver runs, by text. A node that lacks a label
// has none yet.
func (t topology) segments() map[string]segmentSet {
	found := map[string]segmentSet{}
	csiNodes, err := t.csiNodes.List(labels.Everything())
	if err != nil {
		panic("provisioner: list CSINodes: " + err.Error()) // the cache has no errors
	}
	for _, csiNode := range csiNodes {
		i := slices.IndexFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == t.driver })
		node, err := t.nodes.Get(csiNode.Name)
		if i < 0 || err != nil {
			continue
		}
		if segment, ok := segmentSetOf(node.Labels, csiNode.Spec.Drivers[i].TopologyKeys); ok {
			found[segment.text()] = segment
		}
	}
	return found
}

// syncCapacity asks the driver for a capacity and publishes it.
//
// Upstream: external-provisioner pkg/capacity syncCapacity (6.3.0).
func (p *capacities) syncCapacity(ctx context.Context, item capacityItem) error {
	class, err := p.c.classes.Get(item.class)
	segment, known := p.segments[item.segment]
	if _, wanted := p.objects[item]; !wanted || !known || err != nil {
		return nil //nolint:nilerr // the class is gone
	}
	response, err := p.c.driver.GetCapacity(ctx, &csispec.GetCapacityRequest{
		Parameters: class.Parameters, AccessibleTopology: &csispec.Topology{Segments: segment},
	})
	if err != nil {
		return fmt.Errorf("CSI GetCapacity for %v: %w", item, err)
	}
	free := resource.NewQuantity(response.GetAvailableCapacity(), resource.BinarySI)
	var largest *resource.Quantity
	if size := response.GetMaximumVolumeSize(); size != nil {
		largest = resource.NewQuantity(size.GetValue(), resource.BinarySI)
	}
	object := p.objects[item] // as the cache has it after the call
	client := p.c.cfg.Client.StorageV1().CSIStorageCapacities(p.c.cfg.CapacityNamespace)
	switch {
	case object == nil:
		_, err = client.Create(ctx, p.newObject(item.class, segment, free, largest), metav1.CreateOptions{})
		if err != nil {
			err = fmt.Errorf("create CSIStorageCapacity for %v: %w", item, err)
		}
	case object.Capacity.Cmp(*free) == 0 && equal(object.MaximumVolumeSize, largest) && p.isOwned(object):
	default:
		object = object.DeepCopy()
		object.Capacity, object.MaximumVolumeSize = free, largest
		if !p.isOwned(object) {
			object.OwnerReferences = append(object.OwnerReferences, *p.c.cfg.CapacityOwner)
		}
		if _, err = client.Update(ctx, object, metav1.UpdateOptions{}); err != nil {
			err = fmt.Errorf("update CSIStorageCapacity for %v: %w", item, err)
		}
	}
	return err
}

func (p *capacities) newObject(class string, segment segmentSet, free, largest *resource.Quantity) *storagev1.CSIStorageCapacity {
	object := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: "csisc-", Namespace: p.c.cfg.CapacityNamespace,
			Labels: map[string]string{driverNameLabel: p.c.cfg.DriverName, managedByLabel: p.c.cfg.publisher()},
		},
		StorageClassName: class, NodeTopology: &metav1.LabelSelector{MatchLabels: segment}, Capacity: free, MaximumVolumeSize: largest,
	}
	if p.c.cfg.CapacityOwner != nil {
		object.OwnerReferences = []metav1.OwnerReference{*p.c.cfg.CapacityOwner}
	}
	return object
}

func equal(a, b *resource.Quantity) bool { return a == b || a != nil && b != nil && a.Cmp(*b) == 0 }

// isOwned reports whether an object has its owner.
func (p *capacities) isOwned(object *storagev1.CSIStorageCapacity) bool {
	return p.c.cfg.CapacityOwner == nil || slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return ptr.Deref(owner.Controller, false) && owner.UID == p.c.cfg.CapacityOwner.UID
	})
}

// manages reports whether an object is one of the provisioner's.
//
// Upstream: external-provisioner pkg/capacity isManaged (6.3.0).
func (p *capacities) manages(object *storagev1.CSIStorageCapacity) bool {
	return object.Namespace == p.c.cfg.CapacityNamespace && object.Labels[driverNameLabel] == p.c.cfg.DriverName &&
		object.Labels[managedByLabel] == p.c.cfg.publisher()
}

// observe takes an object for what it is about, or removes it.
//
// Upstream: external-provisioner pkg/capacity onCAddOrUpdate (6.3.0).
func (p *capacities) observe(object *storagev1.CSIStorageCapacity) {
	item, known := p.items[object.UID]
	switch {
	case !p.manages(object):
		if known {
			p.observeDeletion(object)
		}
		return
	case known:
		p.objects[item] = object
		return
	}
	if item, ok := itemOf(object); ok {
		if other, wanted := p.objects[item]; wanted && other == nil {
			p.objects[item], p.items[object.UID] = object, item
			return
		}
	}
	if p.ready { // otherwise the object may be one that will be wanted
		p.queue.Add(capacityItem{remove: object.Name})
	}
}

// observeAll looks at the objects that existed before the segments were known.
func (p *capacities) observeAll() {
	objects, err := p.c.cfg.Informers.Storage().V1().CSIStorageCapacities().Lister().List(labels.Everything())
	if err != nil {
		panic("provisioner: list CSIStorageCapacities: " + err.Error()) // the cache has no errors
	}
	slices.SortFunc(objects, func(a, b *storagev1.CSIStorageCapacity) int { return strings.Compare(a.Name, b.Name) })
	for _, object := range objects {
		p.observe(object)
	}
}

// itemOf returns what an object is about.
func itemOf(object *storagev1.CSIStorageCapacity) (capacityItem, bool) {
	if object.NodeTopology == nil || len(object.NodeTopology.MatchExpressions) > 0 {
		return capacityItem{}, false
	}
	return capacityItem{class: object.StorageClassName, segment: segmentSet(object.NodeTopology.MatchLabels).text()}, true
}

// observeDeletion publishes again what is still wanted.
func (p *capacities) observeDeletion(object *storagev1.CSIStorageCapacity) {
	item, known := p.items[object.UID]
	if !known {
		return
	}
	delete(p.items, object.UID)
	p.objects[item] = nil
	p.queue.Add(item)
}
