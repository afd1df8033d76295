package attachdetach

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// These names are exported for the tests.
const (
	Attached           = stateAttached
	Uncertain          = stateUncertain
	DetachAfterUnmount = detachAfterUnmount
	AttachAfterOthers  = attachAfterOthers
	FailedAttachVolume = reasonFailedAttach
)

// Desired returns the desired state of world. It is read-only.
func (c *Controller) Desired() *desiredStateOfWorld { return c.desired }

// Actual returns the actual state of world. It is read-only.
func (c *Controller) Actual() *actualStateOfWorld { return c.actual }

// A PendingVolume is an attach or detach that has not happened yet, with the reason.
type PendingVolume struct {
	Volume corev1.UniqueVolumeName
	Node   types.NodeName
	Attach attachVerdict // attachNotNeeded for a detach
	Detach detachVerdict // detachNotNeeded for an attach
	Until  time.Time     // time at which the verdict may change by itself; zero: never
}

// Pending returns the differences between desired and actual state: detaches first, sorted by
// volume and node.
func (c *Controller) Pending() []PendingVolume {
	var pending []PendingVolume
	for _, a := range c.actual.All() {
		if d := c.decideDetach(a); d.verdict != detachNotNeeded {
			pending = append(pending, PendingVolume{Volume: a.Volume, Node: a.Node, Detach: d.verdict, Until: d.until})
		}
	}
	for _, d := range c.desired.All() {
		verdict, _, until := c.decideAttach(d)
		if c.actual.State(d.Volume, d.Node) != stateAttached {
			pending = append(pending, PendingVolume{Volume: d.Volume, Node: d.Node, Attach: verdict, Until: until})
		}
	}
	return pending
}

// String returns the pending operation in one line.
func (o PendingVolume) String() string {
	verdict := o.Attach.String()
	if o.Detach != detachNotNeeded {
		verdict = o.Detach.String()
	}
	return fmt.Sprintf("%s on %s: %s", o.Volume, o.Node, verdict)
}
