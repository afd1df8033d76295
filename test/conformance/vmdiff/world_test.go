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

// kubelet is what of a kubelet the world sees.
type kubelet interface {
	runs(*corev1.Pod)   // the API server has a new pod
	leaves(*corev1.Pod) // the API server has it no more
	ended(*corev1.Pod)  // its containers have ended
	mounted(*corev1.Pod) []string
	holds(*corev1.Pod) bool
	report() error // the volumes in use, where the kubelet does not do so by itself
}

// world is everybody but the kubelet.
type world struct {
	server  *fake.Server
	client  kubernetes.Interface
	seen    *observer
	faults  *histories.Faults // of the kubelet's requests
	kubelet kubelet
	restart func() error // of the kubelet

	restarted bool           // in this step
	found     map[string]int // by disk: how often the kubelet began anew after the plugin was called for it

	setting
	disks  []disk
	pods   map[string]*pod // the last one of each name
	counts map[string]int  // pods there were of a name
	all    []*pod
	down   bool // the attach/detach controller is
}

func newWorld(h history, server *fake.Server, client kubernetes.Interface, faults *histories.Faults) *world {
	return &world{
		setting: settingOf(h), disks: disksOf(h),
		server: server, client: client, seen: newObserver(), faults: faults, pods: map[string]*pod{}, counts: map[string]int{}, found: map[string]int{},
	}
}

// disksOf are the disks of a history's world: in one that begins so, those that behave by their names are devices.
func disksOf(h history) []disk {
	if len(h) == 0 || !slices.Contains(h[0].acts, act(asDevices{})) {
		return disks
	}
	all := slices.Clone(disks)
	for i := range all {
		all[i].block = all[i].block || all[i].magic()
	}
	return all
}

// disk is the disk of a name.
func (w *world) disk(name string) disk {
	return w.disks[slices.IndexFunc(w.disks, func(d disk) bool { return d.name == name })]
}

// furnish makes the node, and what there is of claims and volumes at first.
func (w *world) furnish() error {
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: w.node}}}
	for _, d := range w.disks {
		objects = append(objects, d.claim())
		if !d.lost {
			objects = append(objects, d.volume())
		}
	}
	return w.server.Add(objects...)
}

func (w *world) nodeObject() *corev1.Node {
	object, there := w.server.Get("nodes", "", w.node)
	if !there {
		panic("the node is gone")
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

// noteUnprocessed notes of which pods not all volumes can be processed by a kubelet that has just begun.
func (w *world) noteUnprocessed(f histories.Fault) {
	for _, p := range w.all {
		p.unprocessed = p.unprocessed || strings.HasPrefix(f.Request, "get ") || slices.ContainsFunc(p.object.Spec.Volumes, func(v corev1.Volume) bool {
			return !w.usable(v.PersistentVolumeClaim.ClaimName)
		})
	}
}

// usable tells whether a claim can be used.
func (w *world) usable(name string) bool {
	object, there := w.server.Get("persistentvolumeclaims", "default", name)
	if !there {
		return false
	}
	claim := object.(*corev1.PersistentVolumeClaim)
	protected := claim.DeletionTimestamp == nil || slices.Contains(claim.Finalizers, "kubernetes.io/pvc-protection")
	_, made := w.server.Get("persistentvolumes", "", name)
	return claim.Status.Phase == corev1.ClaimBound && protected && made && !w.disk(name).others
}

// users are how many pods there were that use a disk.
func (w *world) users(disk string) int {
	return len(slices.DeleteFunc(slices.Clone(w.all), func(p *pod) bool { return !p.names(disk) }))
}

// tick is how often volumes in use are reported, and the controller looks at the world.
const tick = time.Second

// attach lets the controller attach what pods use, and detach what they do not and the node does not say that it uses.
func (w *world) attach() error {
	if w.down || w.itself {
		return nil
	}
	status := w.nodeObject().Status
	var want []corev1.AttachedVolume
	for _, d := range w.disks {
		is := slices.ContainsFunc(status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == d.unique() })
		if d.attachable() && (w.uses(d) || is && slices.Contains(status.VolumesInUse, d.unique())) {
			want = append(want, corev1.AttachedVolume{Name: d.unique(), DevicePath: devicePath})
		}
	}
	if slices.Equal(want, status.VolumesAttached) {
		return nil
	}
	return w.patchNode(map[string]any{"volumesAttached": want})
}

// live lives through a history, as long as the states are as wanted, unless want is nil. Time passes by pass.
func (w *world) live(h history, pass func(time.Duration) error, want []histories.State) histories.Execution[*world] {
	l := histories.Execution[*world]{World: w}
	for i, s := range h {
		l.States = append(l.States, w.step(s, pass))
		if want != nil && !slices.Equal(l.States[i], want[i]) {
			break
		}
	}
	return l
}

func (w *world) step(s step, pass func(time.Duration) error) histories.State {
	w.faults.Arm(s.fault)
	w.seen.breakdown(s.broke)
	w.restarted = false
	for _, a := range s.acts {
		if err := a.do(w); err != nil {
			return histories.State{fmt.Sprintf("the act was refused: %v", err)}
		}
	}
	if w.restarted {
		w.noteUnprocessed(s.fault)
	}
	for passed := time.Duration(0); passed < rest; passed += tick {
		if passed >= outage {
			w.faults.Arm(histories.Fault{})
			w.seen.breakdown(breakage{})
		}
		for _, err := range []error{pass(tick), w.kubelet.report(), w.attach()} {
			if err != nil {
				return histories.State{fmt.Sprintf("does not go on: %v", err)}
			}
		}
	}
	if err := pass(0); err != nil {
		return histories.State{fmt.Sprintf("does not go on: %v", err)}
	}
	return w.state()
}
