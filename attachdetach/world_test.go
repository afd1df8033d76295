package attachdetach_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// world is an API server, a backend, minimal kubelets and the controller, on a stepped host.
type world struct {
	*testworld.World
	backend    *backend
	kubelets   map[types.NodeName]*kubelet
	controller *attachdetach.Controller
	onCommit   []func()

	patchFaults []fault            // fail the controller's next writes of volumesAttached; call is ignored
	getFaults   []error            // fail the controller's next reads of a node
	afterGet    func(*corev1.Node) // changes the controller's reads of a node
}

func newWorld(t *testing.T, chooser sim.Chooser) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser}), kubelets: map[types.NodeName]*kubelet{}}
	w.Explain = func() string { return w.controller.String() }
	w.Server.OnCommit(func(fake.Commit) {
		for _, f := range w.onCommit {
			f()
		}
	})
	w.backend = &backend{w: w, attached: map[string]map[types.NodeName]bool{}}
	return w
}

// start starts the controller in the current state. It returns its process.
func (w *world) start(configure ...func(*attachdetach.Config)) *sim.Process {
	w.Helper()
	c := w.Host.Process("attachdetach")
	manager := &plugins.Manager{}
	w.NoError(manager.Register(disk{c: c, b: w.backend}))
	client := flakyClient{Interface: w.Server.Client(c), w: w}
	cfg := attachdetach.Config{
		Process: c, Client: client, Informers: w.Server.Informers(c), Plugins: manager,
		Recorder: events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: attachdetach.EventSource}),
	}
	for _, f := range configure {
		f(&cfg)
	}
	w.controller = attachdetach.New(cfg)
	return c
}

// node creates a managed, ready node with a kubelet.
func (w *world) node(name string) {
	w.Helper()
	w.nodeObject(name)
	if w.kubelets[types.NodeName(name)] == nil {
		w.kubelets[types.NodeName(name)] = newKubelet(w, name)
	}
}

func (w *world) nodeObject(name string) {
	w.Helper()
	_, err := w.User.CoreV1().Nodes().Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{attachdetach.ManagedAnnotation: "true"},
	}}, metav1.CreateOptions{})
	w.NoError(err)
	w.ready(name, corev1.ConditionTrue)
}

func (w *world) ready(node string, status corev1.ConditionStatus) {
	w.Helper()
	w.status(node, "conditions", []map[string]any{{"type": "Ready", "status": status}})
}

func (w *world) status(node, field string, value any) {
	w.Helper()
	w.NoError(patchStatus(context.Background(), w.User, node, map[string]any{field: value}))
}

// disk creates a claim and a volume, bound to each other, both named as the handle.
func (w *world) disk(name string, modes ...corev1.PersistentVolumeAccessMode) {
	w.Helper()
	claim := w.claim(newClaim(name, modes...))
	w.volume(name, claim.UID, modes...)
	w.phase(name, corev1.ClaimBound)
}

func newClaim(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	class := ""
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}
}

func (w *world) claim(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	w.Helper()
	created, err := w.User.CoreV1().PersistentVolumeClaims("default").Create(context.Background(),
		claim, metav1.CreateOptions{})
	w.NoError(err)
	return created
}

// volume creates a PersistentVolume for the claim with a name and UID.
func (w *world) volume(name string, uid types.UID, modes ...corev1.PersistentVolumeAccessMode) {
	w.Helper()
	_, err := w.User.CoreV1().PersistentVolumes().Create(context.Background(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind:      "PersistentVolumeClaim",
				Namespace: "default", Name: name, UID: uid,
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
			},
		},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func (w *world) phase(claim string, phase corev1.PersistentVolumeClaimPhase) {
	w.Helper()
	object, _ := w.Server.Get("persistentvolumeclaims", "default", claim)
	c := object.(*corev1.PersistentVolumeClaim).DeepCopy()
	c.Status.Phase = phase
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(context.Background(), c,
		metav1.UpdateOptions{})
	w.NoError(err)
}

func newPod(name, node string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, claim := range claims {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return p
}

func (w *world) pod(name, node string, claims ...string) {
	w.Helper()
	_, err := w.User.CoreV1().Pods("default").Create(context.Background(),
		newPod(name, node, claims...), metav1.CreateOptions{})
	w.NoError(err)
}

func (w *world) deletePod(name string) {
	w.Helper()
	w.NoError(deletePod(context.Background(), w.User, name))
}

func deletePod(ctx context.Context, client kubernetes.Interface, name string) error {
	now := int64(0)
	return client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}

func (w *world) attachment(volume, node string) {
	w.Helper()
	_, err := w.User.StorageV1().VolumeAttachments().Create(context.Background(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume + "." + node},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk.example.com", NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

// nodeNow returns the stored node, or nil.
func (w *world) nodeNow(name string) *corev1.Node {
	if object, ok := w.Server.Get("nodes", "", name); ok {
		return object.(*corev1.Node)
	}
	return nil
}

// wantedOn returns the volumes of the pods of a node.
func (w *world) wantedOn(node string) []string {
	var volumes []string
	for _, object := range w.Server.List("pods") {
		pod := object.(*corev1.Pod)
		for i := range pod.Spec.Volumes {
			if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
				volumes = append(volumes, pod.Spec.Volumes[i].PersistentVolumeClaim.ClaimName)
			}
		}
	}
	return volumes
}

func (w *world) attachedIn(node string) []string {
	var names []string
	for _, a := range w.nodeNow(node).Status.VolumesAttached {
		names = append(names, string(a.Name)+"="+a.DevicePath)
	}
	return names
}

// events returns the events so far: "xcount type reason pod: message", sorted by name.
func (w *world) events() []string {
	var lines []string
	for _, object := range w.Server.List("events") {
		e := object.(*corev1.Event)
		lines = append(lines,
			fmt.Sprintf("x%d %s %s %s: %s", e.Count, e.Type, e.Reason, e.InvolvedObject.Name, e.Message))
	}
	slices.Sort(lines)
	return lines
}

// quiet checks that no violation has occurred and nothing is pending: exactly the wanted volumes
// are attached (L5), and the nodes' statuses agree (I20).
func (w *world) quiet() {
	w.Helper()
	testcheck.Equal(w, "violations", nil, w.backend.wrong)
	testcheck.Equal(w, "waiting tasks", nil, w.Host.Waiting())
	for _, pending := range w.controller.Pending() {
		w.Errorf("pending: %s", pending)
	}
	for node := range w.kubelets {
		if w.nodeNow(string(node)) == nil {
			continue
		}
		var want []string
		for _, a := range w.controller.Actual().OnNode(node) {
			want = append(want, string(a.Volume)+"="+a.DevicePath)
		}
		testcheck.Equal(w, "volumes attached of "+string(node), want, w.attachedIn(string(node)))
	}
}

// flakyClient fails writes of volumesAttached on request.
type flakyClient struct {
	kubernetes.Interface
	w *world
}

type flakyCore struct {
	typedcorev1.CoreV1Interface
	w *world
}

type flakyNodes struct {
	typedcorev1.NodeInterface
	w *world
}

func (c flakyClient) CoreV1() typedcorev1.CoreV1Interface {
	return flakyCore{CoreV1Interface: c.Interface.CoreV1(), w: c.w}
}

func (c flakyCore) Nodes() typedcorev1.NodeInterface {
	return flakyNodes{NodeInterface: c.CoreV1Interface.Nodes(), w: c.w}
}

func (n flakyNodes) Patch(
	ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	if len(n.w.patchFaults) > 0 {
		f := n.w.patchFaults[0]
		n.w.patchFaults = n.w.patchFaults[1:]
		n.w.backend.calls = append(n.w.backend.calls,
			fmt.Sprintf("%v patch %s: %v", n.w.Host.Now().Sub(sim.Epoch), name, f.err))
		if f.after {
			_, _ = n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
		}
		return nil, f.err
	}
	return n.NodeInterface.Patch(ctx, name, pt, data, opts, subresources...)
}

func (n flakyNodes) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error) {
	if len(n.w.getFaults) > 0 {
		err := n.w.getFaults[0]
		n.w.getFaults = n.w.getFaults[1:]
		return nil, err
	}
	node, err := n.NodeInterface.Get(ctx, name, opts)
	if f := n.w.afterGet; f != nil && err == nil {
		node = node.DeepCopy()
		f(node)
	}
	return node, err
}

var (
	errBroken = errors.New("broken")
	errBusy   = apierrors.NewTooManyRequests("busy", 1)
	rwo       = corev1.ReadWriteOnce
	rwx       = corev1.ReadWriteMany
	size      = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
)
