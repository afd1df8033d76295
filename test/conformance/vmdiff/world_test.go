package vmdiff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/test/conformance/histories"
)

// A kubelet is what a world uses of a kubelet.
type kubelet interface {
	podCreated(*corev1.Pod)
	podRemoved(*corev1.Pod)    // from the API server
	podTerminated(*corev1.Pod) // its containers have terminated
	mounted(*corev1.Pod) []string
	hasVolumes(*corev1.Pod) bool
	report() error // reports the volumes in use, unless the kubelet has a task for that
}

// A world is an API server, its users and an attach/detach controller: all but the kubelet.
type world struct {
	server   *fake.Server
	client   kubernetes.Interface
	observer *observer
	faults   *histories.Faults // of the kubelet's requests
	kubelet  kubelet
	restart  func() error // restarts the kubelet

	restarted bool           // in this step
	restarts  map[string]int // by disk: restarts of the kubelet after the plugin was called for it

	attachSetting
	disks          []disk
	pods           map[string]*pod // the last one of each name
	counts         map[string]int  // pods of a name
	all            []*pod
	controllerDown bool
}

func newWorld(h history, server *fake.Server, client kubernetes.Interface, faults *histories.Faults) *world {
	return &world{
		attachSetting: settingOf(h), disks: disksOf(h),
		server: server, client: client, observer: newObserver(), faults: faults, pods: map[string]*pod{}, counts: map[string]int{}, restarts: map[string]int{},
	}
}

// disksOf returns the disks of a history's world. Those whose names determine their behaviour are
// devices if the history begins with useDevices.
func disksOf(h history) []disk {
	if len(h) == 0 || !slices.Contains(h[0].acts, act(useDevices{})) {
		return disks
	}
	all := slices.Clone(disks)
	for i := range all {
		all[i].block = all[i].block || all[i].hasBehaviour()
	}
	return all
}

// disk returns the disk of a name.
func (w *world) disk(name string) disk {
	return w.disks[slices.IndexFunc(w.disks, func(d disk) bool { return d.name == name })]
}

// createObjects creates the node, and the initial claims and volumes.
func (w *world) createObjects() error {
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}}
	for _, d := range w.disks {
		objects = append(objects, d.claim())
		if !d.noVolume {
			objects = append(objects, d.volume())
		}
	}
	return w.server.Add(objects...)
}

func (w *world) nodeObject() *corev1.Node {
	object, exists := w.server.Get("nodes", "", w.node)
	if !exists {
		panic("the node does not exist")
	}
	return object.(*corev1.Node)
}

func (w *world) patchNode(status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, w.node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// markUnprocessed marks the pods with volumes that a restarted kubelet cannot process.
func (w *world) markUnprocessed(f histories.Fault) {
	for _, p := range w.all {
		p.unprocessed = p.unprocessed || strings.HasPrefix(f.Request, "get ") || slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool {
			return !w.usable(v.PersistentVolumeClaim.ClaimName)
		})
	}
}

// usable reports whether a claim can be used.
func (w *world) usable(name string) bool {
	object, exists := w.server.Get("persistentvolumeclaims", "default", name)
	if !exists {
		return false
	}
	claim := object.(*corev1.PersistentVolumeClaim)
	protected := claim.DeletionTimestamp == nil || slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection")
	_, hasVolume := w.server.Get("persistentvolumes", "", name)
	return claim.Status.Phase == corev1.ClaimBound && protected && hasVolume && !w.disk(name).foreign
}

// users returns the number of pods, existing or not, that use a disk.
func (w *world) users(disk string) int {
	return len(slices.DeleteFunc(slices.Clone(w.all), func(p *pod) bool { return !p.uses(disk) }))
}

// tick is the period in which volumes in use are reported and the controller acts.
const tick = time.Second

// runController attaches volumes that pods use, and detaches those that neither pods nor the node
// use.
func (w *world) runController() error {
	if w.controllerDown || w.selfAttach {
		return nil
	}
	status := w.nodeObject().Status
	var want []corev1.AttachedVolume
	for _, d := range w.disks {
		attached := slices.ContainsFunc(status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == d.unique() })
		if d.attachable() && (w.uses(d) || attached && slices.Contains(status.VolumesInUse, d.unique())) {
			want = append(want, corev1.AttachedVolume{Name: d.unique(), DevicePath: devicePath})
		}
	}
	if slices.Equal(want, status.VolumesAttached) {
		return nil
	}
	return w.patchNode(map[string]any{"volumesAttached": want})
}

// execute executes a history. It stops at a state that differs from want, unless want is nil. pass
// lets time pass.
func (w *world) execute(h history, pass func(time.Duration) error, want []histories.State) histories.Execution[*world] {
	execution := histories.Execution[*world]{World: w}
	for i, s := range h {
		execution.States = append(execution.States, w.step(s, pass))
		if want != nil && !slices.Equal(execution.States[i], want[i]) {
			break
		}
	}
	return execution
}

func (w *world) step(s step, pass func(time.Duration) error) histories.State {
	w.faults.Arm(s.fault)
	w.observer.arm(s.pluginFault)
	w.restarted = false
	for _, a := range s.acts {
		if err := a.do(w); err != nil {
			return histories.State{fmt.Sprintf("act failed: %v", err)}
		}
	}
	if w.restarted {
		w.markUnprocessed(s.fault)
	}
	for passed := time.Duration(0); passed < rest; passed += tick {
		if passed >= outage {
			w.faults.Arm(histories.Fault{})
			w.observer.arm(pluginFault{})
		}
		for _, err := range []error{pass(tick), w.kubelet.report(), w.runController()} {
			if err != nil {
				return histories.State{fmt.Sprintf("world stopped: %v", err)}
			}
		}
	}
	if err := pass(0); err != nil {
		return histories.State{fmt.Sprintf("world stopped: %v", err)}
	}
	return w.state()
}
