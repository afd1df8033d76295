package invariant_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Initial objects of a hand's world: two nodes, and the claim default/data bound to the volume pv,
// which is ReadWriteOnce and has the handle disk.
const (
	stubDriver = "array"
	handle     = "disk"
	node1      = "node-1"
	node2      = "node-2"
	staging    = "/plugins/kubernetes.io/csi/array/x/globalmount"
)

// podPath is the path of pv for the pod of a UID.
func podPath(uid string) string { return "/pods/" + uid + "/volumes/kubernetes.io~csi/pv/mount" }

// stubDevices is a state of a backend and of nodes' disks that a test sets.
type stubDevices struct {
	volumes map[string]*invariant.Volume
	mounts  map[string][]nodefs.Mount
	files   map[string][]string
	owners  map[string]map[string]nodefs.Info
	disk    *nodefs.Memory // of each node
}

func (d *stubDevices) Disk(string) (nodefs.Reader, string) { return d.disk, "/" }

func (d *stubDevices) Plugins() []invariant.Backend { return nil }
func (d *stubDevices) Driver() string               { return stubDriver }

func (d *stubDevices) Volumes() []invariant.Volume {
	var all []invariant.Volume
	for _, h := range slices.Sorted(maps.Keys(d.volumes)) {
		all = append(all, *d.volumes[h])
	}
	return all
}

func (d *stubDevices) Volume(handle string) (invariant.Volume, bool) {
	v, ok := d.volumes[handle]
	if !ok {
		return invariant.Volume{}, false
	}
	return *v, true
}

func (d *stubDevices) Nodes() []string { return []string{node1, node2} }

func (d *stubDevices) Mounts(node string) []nodefs.Mount { return d.mounts[node] }

func (d *stubDevices) Owners(handle string) map[string]nodefs.Info { return d.owners[handle] }

func (d *stubDevices) Files(handle string) []string { return d.files[handle] }

// hand is a world without processes: a test performs each action.
type hand struct {
	t       *testing.T
	server  *fake.Server
	client  kubernetes.Interface
	log     *trace.Log
	now     time.Time
	devices *stubDevices
	checker *invariant.Checker
}

// newHand returns such a world with one rule.
func newHand(t *testing.T, rule string) *hand {
	t.Helper()
	w := &hand{
		t: t, log: &trace.Log{}, now: sim.Epoch,
		devices: &stubDevices{
			volumes: map[string]*invariant.Volume{handle: {Handle: handle}}, mounts: map[string][]nodefs.Mount{}, files: map[string][]string{},
			owners: map[string]map[string]nodefs.Info{}, disk: nodefs.NewMemory("/"),
		},
	}
	w.server = fake.NewServer(fake.Config{Now: w.Now, SkipBootstrap: true})
	w.client = w.server.Client(w)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim-uid"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName:  "pv",
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	w.add(readyNode(node1), readyNode(node2), claim, csiVolume("pv", handle, corev1.ReadWriteOnce))
	rules, err := invariant.Select(rule)
	testcheck.NoError(w.t, err)
	w.checker = invariant.Watch(invariant.World{API: w.server, Log: w.log, Now: w.Now, Devices: w.devices}, rules...)
	return w
}

func readyNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type:   corev1.NodeReady,
			Status: corev1.ConditionTrue,
		}}},
	}
}

func csiVolume(name, handle string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef:    &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "claim-uid"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: stubDriver, VolumeHandle: handle},
			},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
	}
}

// Call serves a request immediately and records it.
func (w *hand) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	out := effect()
	w.log.Append(trace.Record{Task: "hand", Action: action, Outcome: out})
	return out
}

// Now returns the world's time.
func (w *hand) Now() time.Time { return w.now }

func (w *hand) add(objects ...runtime.Object) {
	w.t.Helper()
	testcheck.NoError(w.t, w.server.Add(objects...))
}

// problems returns the violations and, at rest, what is pending.
func (w *hand) problems(rest bool) []string {
	var pending []invariant.Pending
	if rest {
		pending = w.checker.CheckAtRest()
	}
	var told []string
	for _, v := range w.checker.Violations() {
		told = append(told, v.Message)
	}
	for _, o := range pending {
		told = append(told, o.Object+" "+o.Why)
	}
	return told
}

// wide makes pv a ReadWriteMany volume.
func (w *hand) wide() {
	w.t.Helper()
	w.change("pv", func(v *corev1.PersistentVolume) {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	})
}

func (w *hand) change(name string, f func(*corev1.PersistentVolume)) {
	w.t.Helper()
	v, err := w.client.CoreV1().PersistentVolumes().Get(context.Background(), name, metav1.GetOptions{})
	testcheck.NoError(w.t, err)
	f(v)
	_, err = w.client.CoreV1().PersistentVolumes().Update(context.Background(), v, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
}

// attachment creates the VolumeAttachment of pv to a node.
func (w *hand) attachment(node string) {
	w.t.Helper()
	w.attachmentOf("pv", csi.AttachmentName(handle, stubDriver, types.NodeName(node)), node)
}

func (w *hand) attachmentOf(volume, name, node string) {
	w.t.Helper()
	_, err := w.client.StorageV1().VolumeAttachments().Create(context.Background(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"external-attacher/array"}},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: stubDriver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
}

// inlineAttachment creates an attachment with an inline volume.
func (w *hand) inlineAttachment(name, node string) {
	w.t.Helper()
	spec := csiVolume("pv", handle, corev1.ReadWriteOnce).Spec
	_, err := w.client.StorageV1().VolumeAttachments().Create(context.Background(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: stubDriver, NodeName: node, Source: storagev1.VolumeAttachmentSource{
			InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				AccessModes:            spec.AccessModes,
				PersistentVolumeSource: spec.PersistentVolumeSource,
			},
		}},
	}, metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
}

func (w *hand) changeAttachment(node string, f func(*storagev1.VolumeAttachment)) {
	w.t.Helper()
	attachments := w.client.StorageV1().VolumeAttachments()
	a, err := attachments.Get(context.Background(),
		csi.AttachmentName(handle, stubDriver, types.NodeName(node)), metav1.GetOptions{})
	testcheck.NoError(w.t, err)
	f(a)
	changed, err := attachments.UpdateStatus(context.Background(), a, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
	changed.Finalizers = a.Finalizers
	_, err = attachments.Update(context.Background(), changed, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
}

// attachmentSays sets the status of a VolumeAttachment of pv to attached.
func (w *hand) attachmentSays(node string) {
	w.t.Helper()
	w.changeAttachment(node, func(a *storagev1.VolumeAttachment) { a.Status.Attached = true })
}

// deleteAttachment begins the deletion of the VolumeAttachment to a node; it exists until it is
// released.
func (w *hand) deleteAttachment(node string) {
	w.t.Helper()
	testcheck.NoError(w.t, w.client.StorageV1().VolumeAttachments().Delete(context.Background(),
		csi.AttachmentName(handle, stubDriver, types.NodeName(node)), metav1.DeleteOptions{}))
}

func (w *hand) releaseAttachment(node string) {
	w.t.Helper()
	w.changeAttachment(node, func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
}

func (w *hand) changeNode(name string, f func(*corev1.Node)) {
	w.t.Helper()
	nodes := w.client.CoreV1().Nodes()
	n, err := nodes.Get(context.Background(), name, metav1.GetOptions{})
	testcheck.NoError(w.t, err)
	f(n)
	changed, err := nodes.UpdateStatus(context.Background(), n, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
	changed.Spec.Taints = n.Spec.Taints
	_, err = nodes.Update(context.Background(), changed, metav1.UpdateOptions{})
	testcheck.NoError(w.t, err)
}

// lists sets the node's volumesAttached.
func (w *hand) lists(node string, handles ...string) {
	w.t.Helper()
	w.changeNode(node, func(n *corev1.Node) {
		n.Status.VolumesAttached = nil
		for _, h := range handles {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName(h)})
		}
	})
}

// uses sets the node's volumesInUse.
func (w *hand) uses(node string, handles ...string) {
	w.t.Helper()
	w.changeNode(node, func(n *corev1.Node) {
		n.Status.VolumesInUse = nil
		for _, h := range handles {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, uniqueName(h))
		}
	})
}

func uniqueName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + csi.VolumeName(stubDriver, handle))
}

// ready sets the node's Ready condition.
func (w *hand) ready(node string, ready bool) {
	w.t.Helper()
	w.changeNode(node, func(n *corev1.Node) {
		n.Status.Conditions[0].Status = corev1.ConditionFalse
		if ready {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
		}
	})
}

func (w *hand) deleteNode(node string) {
	w.t.Helper()
	testcheck.NoError(w.t, w.client.CoreV1().Nodes().Delete(context.Background(), node, metav1.DeleteOptions{}))
}

// pod adds a pod that uses the claim data, with a UID that is also its name.
func (w *hand) pod(uid, node string, phase corev1.PodPhase) {
	w.t.Helper()
	w.add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)},
		Spec: corev1.PodSpec{
			NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "pause"}},
			Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
		Status: corev1.PodStatus{Phase: phase},
	})
}

// endPod deletes a pod: it stays, being deleted, or is removed with now.
func (w *hand) endPod(name string, atOnce bool) {
	w.t.Helper()
	grace := int64(30)
	if atOnce {
		grace = 0
	}
	testcheck.NoError(w.t, w.client.CoreV1().Pods("default").Delete(context.Background(), name,
		metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// mount adds a mount on a node, and unmount removes it.
func (w *hand) mount(node, source, path string) {
	w.devices.mounts[node] = append(w.devices.mounts[node], nodefs.Mount{Path: path, Source: source})
}

func (w *hand) unmount(node, path string) {
	w.devices.mounts[node] = slices.DeleteFunc(w.devices.mounts[node],
		func(m nodefs.Mount) bool { return m.Path == path })
}

func (w *hand) attachedTo(nodes ...string) { w.devices.volumes[handle].Attached = nodes }

// calls records a call of the attacher or a kubelet for the volume disk; details are the node or
// the path.
func (w *hand) calls(actor, verb, detail string, outcome ...trace.Outcome) {
	out := trace.Outcome{Detail: detail}
	if len(outcome) > 0 {
		out.Err, out.Lost = outcome[0].Err, outcome[0].Lost
	}
	w.log.Append(trace.Record{
		Task: actor, Action: trace.Action{
			Kind: trace.KindDriver, Verb: verb,
			Object: stubDriver + "/" + handle,
		}, Outcome: out,
	})
}

func (w *hand) attacherCalls(verb, node string, outcome ...trace.Outcome) {
	w.calls("attacher/attachments", verb, "node="+node+" disk="+handle, outcome...)
}

func (w *hand) kubeletCalls(node, verb, path string, outcome ...trace.Outcome) {
	w.calls(fmt.Sprintf("kubelet(%s)/volume reconciler", node), verb, "path="+path, outcome...)
}

// staged and published are successful calls with their effects.
func (w *hand) staged(node string) {
	w.mount(node, handle, staging)
	w.kubeletCalls(node, "NodeStageVolume", staging)
}

func (w *hand) published(node, pod string) {
	w.mount(node, handle, podPath(pod))
	w.kubeletCalls(node, "NodePublishVolume", podPath(pod))
}

func (w *hand) event(verb, object string) {
	w.log.Append(trace.Record{Task: "world", Action: trace.Action{Kind: trace.KindEvent, Verb: verb, Object: object}})
}

func failed(code codes.Code) trace.Outcome {
	return trace.Outcome{Err: status.Error(code, "injected fault")}
}

func lost(code codes.Code) trace.Outcome {
	return trace.Outcome{Err: status.Error(code, "injected fault"), Lost: true}
}

// handStory is a sequence of actions and the expected result of a rule.
type handStory struct {
	rule string
	name string
	do   func(w *hand)
	want []string // substrings of violations and of what is pending
}

// playHand plays each story in its own world.
func playHand(t *testing.T, rest bool, stories []handStory) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.rule+" "+s.name, func(t *testing.T) {
			w := newHand(t, s.rule)
			s.do(w)
			if diff := cmp.Diff(s.want, w.problems(rest)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if len(s.want) > 0 && strings.Contains(s.want[0], "%!") {
				t.Errorf("%q is not a text", s.want[0])
			}
		})
	}
}

// watchWithoutDevices applies a rule to the same world again, without devices.
func (w *hand) watchWithoutDevices(rule string) {
	w.t.Helper()
	rules, err := invariant.Select(rule)
	testcheck.NoError(w.t, err)
	w.checker = invariant.Watch(invariant.World{API: w.server, Log: w.log, Now: w.Now}, rules...)
}
