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

// An act is an action of a user or of another component. It does nothing if its object does not
// exist, so that rapid may leave out any act of a history.
type act interface {
	fmt.Stringer
	do(w *world) error
}

// A step is a list of concurrent acts, and the faults that are injected during the outage.
type step struct {
	acts        []act
	fault       histories.Fault // of the kubelet's requests
	pluginFault pluginFault
}

const (
	// rest is the time until the next step. It is longer than the outage, the back-off of
	// operations that failed during it, and the second in which volumes in use are reported.
	rest = 12 * time.Second
	// outage is how long faults last.
	outage = 2 * time.Second
)

func (s step) String() string {
	text := histories.Join(s.acts)
	if s.fault.Kind != "" {
		text += "  !" + s.fault.String()
	}
	if s.pluginFault.verb != "" {
		text += "  !" + s.pluginFault.String()
	}
	return text
}

// A pod is a pod of the node.
type pod struct {
	object     *corev1.Pod
	exists     bool // in the API server
	terminated bool // its containers have terminated

	unprocessed bool // when a kubelet started, not all its volumes could be processed
}

// createPod creates a pod.
type createPod struct {
	pod   string
	disks []string // claims; one that is listed twice has two names in the pod
}

func (r createPod) String() string {
	return fmt.Sprintf("pod %s uses %s", r.pod, strings.Join(r.disks, ", "))
}

func (r createPod) do(w *world) error {
	if p := w.pods[r.pod]; p != nil && (p.exists || !p.terminated) {
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
	p := &pod{object: o, exists: true}
	w.pods[r.pod], w.all = p, append(w.all, p)
	w.kubelet.podCreated(o)
	return nil
}

// endPod terminates the containers of a pod, removes the pod, or both.
type endPod struct{ pod, how string }

// The ways in which a pod ends.
const (
	isDeleted    = "terminates and is removed"
	isTerminated = "terminates"          // and exists
	isRemoved    = "is removed, running" // until it terminates
)

func (e endPod) String() string { return fmt.Sprintf("pod %s %s", e.pod, e.how) }

func (e endPod) do(w *world) error {
	p := w.pods[e.pod]
	if p == nil {
		return nil
	}
	switch e.how {
	case isDeleted:
		p.exists, p.terminated = false, true
		w.kubelet.podTerminated(p.object)
		w.kubelet.podRemoved(p.object)
	case isTerminated:
		p.terminated = true
		w.kubelet.podTerminated(p.object)
	default:
		if p.exists && !p.terminated && len(w.kubelet.mounted(p.object)) == len(p.object.Spec.Volumes) { // otherwise it cannot run
			p.exists = false
			w.kubelet.podRemoved(p.object)
		}
	}
	return nil
}

// bindClaim binds a claim.
type bindClaim struct{ disk string }

func (b bindClaim) String() string { return "claim " + b.disk + " is bound" }

func (b bindClaim) do(w *world) error {
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

// deleteClaim deletes a claim, which exists until it has no finalizers. It may remove the
// protection finalizer; another finalizer remains.
type deleteClaim struct {
	disk        string
	unprotected bool
}

func (d deleteClaim) String() string {
	if d.unprotected {
		return "claim " + d.disk + " is deleted, unprotected"
	}
	return "claim " + d.disk + " is deleted"
}

func (d deleteClaim) do(w *world) error {
	claims := w.client.CoreV1().PersistentVolumeClaims("default")
	if err := claims.Delete(ctx, d.disk, metav1.DeleteOptions{}); err != nil || !d.unprotected {
		return err
	}
	_, err := claims.Patch(ctx, d.disk, types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/other"]}}`), metav1.PatchOptions{})
	return err
}

// createVolume creates a volume.
type createVolume struct{ disk string }

func (m createVolume) String() string { return "volume " + m.disk + " is created" }

func (m createVolume) do(w *world) error {
	if _, exists := w.server.Get("persistentvolumes", "", m.disk); exists {
		return nil
	}
	return w.server.Add(w.disk(m.disk).volume())
}

// setController stops or starts the attach/detach controller.
type setController struct{ down bool }

func (c setController) String() string {
	if c.down {
		return "the controller stops"
	}
	return "the controller starts"
}

func (c setController) do(w *world) error {
	w.controllerDown = c.down
	return nil
}

// clearInUse clears node.status.volumesInUse, as another client.
type clearInUse struct{}

func (clearInUse) String() string { return "the volumes in use are cleared in the Node" }

func (clearInUse) do(w *world) error {
	return w.patchNode(map[string]any{"volumesInUse": nil})
}

// restart restarts the kubelet. Removed pods terminate. It does nothing if pods use devices,
// because upstream's fakes cannot reconstruct them.
type restart struct{}

func (restart) String() string { return "the kubelet restarts" }

func (restart) do(w *world) error {
	for _, p := range w.all {
		if len(p.object.Spec.Containers[0].VolumeDevices) > 0 {
			return nil
		}
	}
	for _, p := range w.all {
		p.terminated = p.terminated || !p.exists
	}
	w.restarted = true
	for _, d := range w.disks {
		if w.observer.wasCalled(d.name) {
			w.restarts[d.name]++
		}
	}
	return w.restart()
}

// useDevices begins a history in which the volumes whose names determine their behaviour are
// devices; see disksOf.
type useDevices struct{}

func (useDevices) String() string  { return "(devices)" }
func (useDevices) do(*world) error { return nil }

// attachSetting begins a history in which the kubelet attaches and detaches, on a node whose name
// determines its behaviour.
type attachSetting struct {
	node       string
	selfAttach bool
}

func (s attachSetting) String() string { return "(the kubelet attaches, on " + s.node + ")" }
func (attachSetting) do(*world) error  { return nil }

func settingOf(h history) attachSetting {
	if len(h) > 0 {
		for _, a := range h[0].acts {
			if s, is := a.(attachSetting); is {
				return s
			}
		}
	}
	return attachSetting{node: "node"}
}

// nothing does nothing.
type nothing struct{}

func (nothing) String() string  { return "nothing" }
func (nothing) do(*world) error { return nil }

// uses reports whether a pod that may run uses a disk.
func (w *world) uses(d disk) bool {
	return slices.ContainsFunc(w.all, func(p *pod) bool {
		return p.exists && !p.terminated && slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim.ClaimName == d.name
		})
	})
}
