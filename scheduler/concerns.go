package scheduler

import (
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/scheduler/internal/nodevolumelimits"
)

// HasLimits reports whether a node has a volume limit for any driver. A CSINode without limits,
// before and after a change, does not concern the scheduler.
func HasLimits(node *storagev1.CSINode) bool { return nodevolumelimits.HasLimits(node) }

// CountsAgainstLimit reports whether an attachment counts against a limit of its node, according to
// the given caches. Other attachments do not concern the scheduler.
func CountsAgainstLimit(own informers.SharedInformerFactory, attachment *storagev1.VolumeAttachment) bool {
	return nodevolumelimits.CountsAgainstLimit(own, attachment)
}
