package vmdiff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/test/conformance/histories"
)

var ctx = context.Background()

// act is one thing that somebody does. An act upon what is not there does nothing, so that a history stays one whatever is left
// out of it.
type act interface {
	fmt.Stringer
	do(w *world) error
}

// step is what happens at once, and what goes wrong for the kubelet at first.
type step struct {
	acts  []act
	fault histories.Fault
	broke breakage
}

// rest is how long the world is left to itself after a step: longer than the outage, and than the back-off of what failed during
// it, and the second in which volumes in use are reported.
const (
	rest   = 12 * time.Second
	outage = 2 * time.Second
)

// String tells of the step.
func (s step) String() string {
	var acts []string
	for _, a := range s.acts {
		acts = append(acts, a.String())
	}
	text := strings.Join(acts, "; ")
	if s.fault.Kind != "" {
		text += "  !" + s.fault.String()
	}
	if s.broke.verb != "" {
		text += "  !" + s.broke.String()
	}
	return text
}

// pod is a pod of the node.
type pod struct {
	object *corev1.Pod
	here   bool // the API server has it
	ended  bool // its containers have ended

	unprocessed bool // not all its volumes could be processed when a kubelet began
}

// runPod is a pod that comes.
type runPod struct {
	pod   string
	disks []string // each by a claim; one that is there twice has two names in the pod
}

func (r runPod) String() string {
	return fmt.Sprintf("pod %s uses %s", r.pod, strings.Join(r.disks, ", "))
}

func (r runPod) do(w *world) error {
	if p := w.pods[r.pod]; p != nil && (p.here || !p.ended) {
		return nil
	}
	w.counts[r.pod]++
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: r.pod, UID: types.UID(fmt.Sprintf("%s-%d", r.pod, w.counts[r.pod])),
	}}
	c := corev1.Container{Name: "c", Image: "i"}
	for i, d := range r.disks {
		name := fmt.Sprintf("%s.%d", d, i)
		o.Spec.Volumes = append(o.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d},
		}})
		if w.disk(d).block {
			c.VolumeDevices = append(c.VolumeDevices, corev1.VolumeDevice{Name: name, DevicePath: "/dev/" + name})
		} else {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
	o.Spec.Containers = []corev1.Container{c}
	p := &pod{object: o, here: true}
	w.pods[r.pod], w.all = p, append(w.all, p)
	w.kubelet.runs(o)
	return nil
}

// endPod is a pod whose containers end, that goes, or both.
type endPod struct{ pod, how string }

// The ways in which a pod ends.
const (
	isDeleted = "is deleted"
	ends      = "ends"            // and stays
	leaves    = "leaves, running" // until it ends
)

func (e endPod) String() string { return fmt.Sprintf("pod %s %s", e.pod, e.how) }

func (e endPod) do(w *world) error {
	p := w.pods[e.pod]
	if p == nil {
		return nil
	}
	switch e.how {
	case isDeleted:
		p.here, p.ended = false, true
		w.kubelet.ended(p.object)
		w.kubelet.leaves(p.object)
	case ends:
		p.ended = true
		w.kubelet.ended(p.object)
	default:
		if p.here && !p.ended && len(w.kubelet.mounted(p.object)) == len(p.object.Spec.Volumes) { // else nothing of it can run
			p.here = false
			w.kubelet.leaves(p.object)
		}
	}
	return nil
}

// bind has a claim bound that was not.
type bind struct{ disk string }

func (b bind) String() string { return "claim " + b.disk + " is bound" }

func (b bind) do(w *world) error {
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	c, err := claims.Get(ctx, b.disk, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if c.Status.Phase == corev1.ClaimBound {
		return nil
	}
	c.Status.Phase = corev1.ClaimBound
	_, err = claims.UpdateStatus(ctx, c, metav1.UpdateOptions{})
	return err
}

// dropClaim is a claim that is deleted: it stays as long as nobody takes away what protects it. Somebody may do so, and
// something else may hold it.
type dropClaim struct {
	disk        string
	unprotected bool
}

func (d dropClaim) String() string {
	if d.unprotected {
		return "claim " + d.disk + " is deleted, and not protected"
	}
	return "claim " + d.disk + " is deleted"
}

func (d dropClaim) do(w *world) error {
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	if err := claims.Delete(ctx, d.disk, metav1.DeleteOptions{}); err != nil || !d.unprotected {
		return err
	}
	_, err := claims.Patch(ctx, d.disk, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/other"]}}`), metav1.PatchOptions{})
	return err
}

// makeVolume makes a volume that was not there.
type makeVolume struct{ disk string }

func (m makeVolume) String() string { return "volume " + m.disk + " is made" }

func (m makeVolume) do(w *world) error {
	if _, there := w.server.Get("persistentvolumes", "", m.disk); there {
		return nil
	}
	return w.server.Add(w.disk(m.disk).volume())
}

// control lets the attach/detach controller go down, or come up again.
type control struct{ down bool }

func (c control) String() string {
	if c.down {
		return "the controller goes down"
	}
	return "the controller comes up"
}

func (c control) do(w *world) error {
	w.down = c.down
	return nil
}

// forget has somebody write into the Node that nothing is in use.
type forget struct{}

func (forget) String() string { return "the Node says that nothing is in use" }

func (forget) do(w *world) error {
	return w.patchNode(map[string]any{"volumesInUse": nil})
}

// restart is the kubelet going down and coming up again. What it has lost track of ends. Where there were devices nothing happens:
// upstream's fakes cannot find them again.
type restart struct{}

func (restart) String() string { return "the kubelet restarts" }

func (restart) do(w *world) error {
	for _, p := range w.all {
		if len(p.object.Spec.Containers[0].VolumeDevices) > 0 {
			return nil
		}
	}
	for _, p := range w.all {
		p.ended = p.ended || !p.here
	}
	w.restarted = true
	for _, d := range w.disks {
		if w.seen.knows(d.name) {
			w.found[d.name]++
		}
	}
	return w.restart()
}

// asDevices begins a history in which the volumes that behave by their names are devices; see disksOf.
type asDevices struct{}

func (asDevices) String() string  { return "(devices)" }
func (asDevices) do(*world) error { return nil }

// setting begins a history in which the kubelet attaches and detaches itself, on a node that behaves by its name.
type setting struct {
	node   string
	itself bool
}

func (s setting) String() string { return "(the kubelet attaches, on " + s.node + ")" }
func (setting) do(*world) error  { return nil }

func settingOf(h history) setting {
	if len(h) > 0 {
		for _, a := range h[0].acts {
			if s, is := a.(setting); is {
				return s
			}
		}
	}
	return setting{node: "node"}
}

// nothing is that time passes.
type nothing struct{}

func (nothing) String() string  { return "nothing" }
func (nothing) do(*world) error { return nil }

// uses tells whether a pod that may run uses a disk that can be had.
func (w *world) uses(d disk) bool {
	return slices.ContainsFunc(w.all, func(p *pod) bool {
		return p.here && !p.ended && slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim.ClaimName == d.name
		})
	})
}
