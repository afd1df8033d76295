package nodevolumelimits

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"
)

// limitOf returns the limit of a driver, and whether it has one.
//
// Upstream: plugins/nodevolumelimits getVolumeLimits (v1.36).
func limitOf(d *storagev1.CSINodeDriver) (limit int, limited bool) {
	if d.Allocatable == nil || d.Allocatable.Count == nil {
		return 0, false
	}
	return int(*d.Allocatable.Count), true
}

// driverOf returns what a node says about a driver; nil: nothing.
func driverOf(node *storagev1.CSINode, name string) *storagev1.CSINodeDriver {
	for i := range node.Spec.Drivers {
		if node.Spec.Drivers[i].Name == name {
			return &node.Spec.Drivers[i]
		}
	}
	return nil
}

// HasLimits reports whether a node has a volume limit for any driver. A CSINode without limits,
// before and after a change, does not concern the scheduler.
func HasLimits(node *storagev1.CSINode) bool {
	for i := range node.Spec.Drivers {
		if _, limited := limitOf(&node.Spec.Drivers[i]); limited {
			return true
		}
	}
	return false
}

// CountsAgainstLimit reports whether an attachment counts against a limit of its node, according to
// the given caches. Other attachments do not concern the scheduler.
func CountsAgainstLimit(own informers.SharedInformerFactory, attachment *storagev1.VolumeAttachment) bool {
	node, err := own.Storage().V1().CSINodes().Lister().Get(attachment.Spec.NodeName)
	if err != nil {
		return false
	}
	d := driverOf(node, attachment.Spec.Attacher)
	if d == nil {
		return false
	}
	_, limited := limitOf(d)
	return limited
}

// isLimitRaised reports whether a node has a higher limit for a driver than before. The removal of
// a limit counts.
//
// Upstream: plugins/nodevolumelimits isSchedulableAfterCSINodeUpdated (v1.36).
//
// Differs: upstream takes a missing limit for 0: its removal is ignored, and a new limit counts.
func isLimitRaised(old, node *storagev1.CSINode) bool {
	for i := range old.Spec.Drivers {
		before, was := limitOf(&old.Spec.Drivers[i])
		if !was {
			continue
		}
		d := driverOf(node, old.Spec.Drivers[i].Name)
		if d == nil {
			return true
		}
		if now, limited := limitOf(d); !limited || now > before {
			return true
		}
	}
	return false
}
