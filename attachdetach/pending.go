package attachdetach

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Desired is what the controller wants. It is read-only.
func (c *Controller) Desired() *desiredStateOfWorld { return c.desired }

// Actual is what the controller believes. It is read-only.
func (c *Controller) Actual() *actualStateOfWorld { return c.actual }

// All returns everything that is wanted, by volume and node.
func (d *desiredStateOfWorld) All() []*desiredVolume {
	var all []*desiredVolume
	for _, nodes := range sortedValues(d.volumes) {
		all = append(all, sortedValues(nodes)...)
	}
	return all
}

// All returns every attachment, by volume and node.
func (w *actualStateOfWorld) All() []*attachedVolume {
	var all []*attachedVolume
	for _, nodes := range sortedValues(w.volumes) {
		all = append(all, sortedValues(nodes)...)
	}
	return all
}

// PendingVolume is something that the controller has not brought about yet, and why.
type PendingVolume struct {
	Volume corev1.UniqueVolumeName
	Node   types.NodeName
	Attach attachVerdict // of what is to be attached; AttachNotNeeded otherwise
	Detach detachVerdict // of what is to be detached; DetachNotNeeded otherwise
	Until  time.Time     // when time alone may change that; zero: never
}

// Pending returns what is not as it is wanted, detaches first, by volume and node. It is empty when desired and actual state
// agree.
func (c *Controller) Pending() []PendingVolume {
	var owed []PendingVolume
	for _, a := range c.actual.All() {
		if d := c.decideDetach(a); d.verdict != detachNotNeeded {
			owed = append(owed, PendingVolume{Volume: a.Volume, Node: a.Node, Detach: d.verdict, Until: d.until})
		}
	}
	for _, d := range c.desired.All() {
		verdict, _, until := c.decideAttach(d)
		if c.actual.State(d.Volume, d.Node) != Attached {
			owed = append(owed, PendingVolume{Volume: d.Volume, Node: d.Node, Attach: verdict, Until: until})
		}
	}
	return owed
}

// String tells what is owed, in a line.
func (o PendingVolume) String() string {
	verdict := o.Attach.String()
	if o.Detach != detachNotNeeded {
		verdict = o.Detach.String()
	}
	return fmt.Sprintf("%s on %s: %s", o.Volume, o.Node, verdict)
}

// String draws both pictures and the operations, a line each.
func (c *Controller) String() string {
	var b strings.Builder
	for _, d := range c.desired.All() {
		fmt.Fprintf(&b, "desired %s on %s by", d.Volume, d.Node)
		for _, pod := range d.Pods() {
			fmt.Fprintf(&b, " %s/%s", pod.Namespace, pod.Name)
		}
		b.WriteByte('\n')
	}
	for _, a := range c.actual.All() {
		fmt.Fprintf(&b, "actual %s\n", a)
	}
	b.WriteString(c.executor.String())
	return b.String()
}
