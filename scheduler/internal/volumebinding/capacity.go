package volumebinding

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// publishes reports whether a driver publishes its capacities. Others are not looked at.
func publishes(driver *storagev1.CSIDriver) bool {
	return ptr.Deref(driver.Spec.StorageCapacity, false)
}

// isLimited reports whether the capacity must be looked at for a claim, and returns how many bytes it
// requests.
func (p *Plugin) isLimited(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (size int64, limited bool) {
	request, ok := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if !ok {
		return 0, false
	}
	driver, err := p.drivers.Get(class.Provisioner)
	return request.Value(), err == nil && publishes(driver)
}

// capacityFor returns a capacity that is large enough for a claim, of its class, to which a node has access: the
// first of them by name. nil: there is none.
//
// Upstream: hasEnoughCapacity (v1.36), which takes any of them.
func (p *Plugin) capacityFor(d *delayedClaim, node *corev1.Node) *storagev1.CSIStorageCapacity {
	var found *storagev1.CSIStorageCapacity
	consider := func(value string) {
		for _, obj := range byIndex(p.capacitiesBy, indexByTopology, value) {
			capacity := obj.(*storagev1.CSIStorageCapacity)
			if suffices(capacity, d.size) && hasAccess(node, capacity) && (found == nil || isBefore(capacity, found)) {
				found = capacity
			}
		}
	}
	consider(d.class.Name)
	for key, value := range node.Labels { // in any order: the first by name is returned
		consider(topologyValue(d.class.Name, key, value))
	}
	return found
}

func isBefore(a, b *storagev1.CSIStorageCapacity) bool {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

// indexByTopology is the name of the index of capacities by class and the first label that nodes must
// have, or only by class if no label is named.
const indexByTopology = "volumebinding-topology"

func topologyOfCapacity(obj any) ([]string, error) {
	capacity := obj.(*storagev1.CSIStorageCapacity)
	if capacity.NodeTopology == nil {
		return nil, nil // available to no node
	}
	first := ""
	for key := range capacity.NodeTopology.MatchLabels {
		if first == "" || key < first {
			first = key
		}
	}
	if first == "" {
		return []string{capacity.StorageClassName}, nil
	}
	return []string{topologyValue(capacity.StorageClassName, first, capacity.NodeTopology.MatchLabels[first])}, nil
}

func topologyValue(class, key, value string) string { return class + " " + key + "=" + value }

// suffices reports whether a volume of a size, in bytes, can be provisioned.
//
// Upstream: capacitySufficient (v1.36).
func suffices(capacity *storagev1.CSIStorageCapacity, size int64) bool {
	limit := volumeLimit(capacity)
	return limit != nil && limit.Value() >= size
}

// volumeLimit returns the largest size that a volume may have; nil: unknown.
func volumeLimit(capacity *storagev1.CSIStorageCapacity) *resource.Quantity {
	if capacity.MaximumVolumeSize != nil {
		return capacity.MaximumVolumeSize
	}
	return capacity.Capacity
}

// hasAccess reports whether a node has access to a capacity.
//
// Upstream: nodeHasAccess (v1.36).
func hasAccess(node *corev1.Node, capacity *storagev1.CSIStorageCapacity) bool {
	topology := capacity.NodeTopology
	if topology == nil {
		return false
	}
	if len(topology.MatchExpressions) == 0 {
		for key, value := range topology.MatchLabels {
			if has, ok := node.Labels[key]; !ok || has != value {
				return false
			}
		}
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(topology)
	return err == nil && selector.Matches(labels.Set(node.Labels))
}
