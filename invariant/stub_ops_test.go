package invariant

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// updateOptions are the default ones.
var updateOptions = metav1.UpdateOptions{}

// errDriver is the error of the drivers in these tests.
var errDriver = errors.New("the driver is ill")

// opsDevices are devices in a state that a test sets.
type opsDevices struct {
	volumes []Volume
	mounts  map[string][]nodefs.Mount
}

func (d *opsDevices) Driver() string                    { return "disk" }
func (d *opsDevices) Volumes() []Volume                 { return d.volumes }
func (d *opsDevices) Plugins() []Backend                { return nil }
func (d *opsDevices) Nodes() []string                   { return []string{"node-1", "node-2"} }
func (d *opsDevices) Mounts(node string) []nodefs.Mount { return d.mounts[node] }

func (d *opsDevices) Volume(handle string) (Volume, bool) {
	i := slices.IndexFunc(d.volumes, func(v Volume) bool { return v.Handle == handle })
	if i < 0 {
		return Volume{}, false
	}
	return d.volumes[i], true
}

// opsWorld is an API server and a log, with a test that acts as every component.
type opsWorld struct {
	*testworld.World
	devices *opsDevices
	check   *Checker
}

// newOpsWorld returns an empty world with the rules of the given IDs.
func newOpsWorld(t *testing.T, ids ...string) *opsWorld {
	t.Helper()
	w := &opsWorld{World: testworld.New(t, sim.SteppedConfig{}), devices: &opsDevices{}}
	rules, err := Select(ids...)
	w.NoError(err)
	w.check = Watch(World{API: w.Server, Log: w.Host.Log(), Now: w.Host.Now, Devices: w.devices}, rules...)
	return w
}

// pass advances the clock.
func (w *opsWorld) pass(d time.Duration) { w.Host.SetTime(w.Host.Now().Add(d)) }

// note appends a record.
func (w *opsWorld) note(actor string, kind trace.Kind, verb, object, detail string, err error) {
	w.Host.Log().Append(trace.Record{
		At: w.Host.Now().Sub(sim.Epoch), Task: actor,
		Action:  trace.Action{Kind: kind, Verb: verb, Object: object},
		Outcome: trace.Outcome{Detail: detail, Err: err},
	})
}

// call appends a driver call of an operation of the kubelet of node-1 on the volume vol-1.
func (w *opsWorld) call(operation, rpc, detail string, err error) {
	w.note("kubelet(node-1)/"+operation+" csi/disk^vol-1", trace.KindDriver, rpc, "disk/vol-1", detail, err)
}

// event appends an event of the simulation.
func (w *opsWorld) event(verb, object string) {
	w.note("world", trace.KindEvent, verb, object, "", nil)
}

// path1 is the path where a volume is published for a pod on node-1.
func path1(pod *corev1.Pod, volume string) string {
	return "path=/node-1/pods/" + string(pod.UID) + "/volumes/kubernetes.io~csi/" + volume + "/mount"
}

// broken checks the violations; each want is a substring of one.
func (w *opsWorld) broken(want ...string) {
	w.Helper()
	violations := w.check.Violations()
	if len(violations) != len(want) {
		w.Fatalf("violations: %v, want %d", violations, len(want))
	}
	for i, v := range violations {
		if !strings.Contains(v.Error(), want[i]) {
			w.Errorf("violation %q, want %q in it", v.Error(), want[i])
		}
	}
}

// pending checks what is pending at rest; each want is a substring of one text.
func (w *opsWorld) pending(want ...string) {
	w.Helper()
	pending := w.check.CheckAtRest()
	if len(pending) != len(want) {
		w.Fatalf("pending: %v, want %d", pending, len(want))
	}
	for i, o := range pending {
		if !strings.Contains(o.String(), want[i]) {
			w.Errorf("pending %q, want %q in it", o, want[i])
		}
	}
}

func (w *opsWorld) addPod(name, node string, volumes ...corev1.Volume) *corev1.Pod {
	w.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			NodeName: node, Volumes: volumes, Containers: []corev1.Container{{Name: "main", Image: "pause"}},
		},
	}
	made, err := w.User.CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	w.NoError(err)
	return made
}

func (w *opsWorld) setPhase(pod *corev1.Pod, phase corev1.PodPhase) {
	w.Helper()
	pod = pod.DeepCopy()
	pod.Status.Phase = phase
	_, err := w.User.CoreV1().Pods("default").UpdateStatus(context.Background(), pod, metav1.UpdateOptions{})
	w.NoError(err)
}

func (w *opsWorld) deletePod(pod *corev1.Pod) {
	w.Helper()
	now := int64(0)
	w.NoError(w.User.CoreV1().Pods("default").Delete(context.Background(), pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: &now}))
}

// assign binds a pod to a node, as the scheduler does.
func (w *opsWorld) assign(pod *corev1.Pod, node string) {
	w.Helper()
	w.NoError(w.User.CoreV1().Pods("default").Bind(context.Background(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

func claimVolume(claim string) corev1.Volume {
	return corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

func sizeOf(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// addClaim adds a claim of 1Gi; change may change it first.
func (w *opsWorld) addClaim(name string, change func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: sizeOf("1Gi")},
		},
	}
	if change != nil {
		change(claim)
	}
	made, err := w.User.CoreV1().PersistentVolumeClaims("default").Create(context.Background(),
		claim, metav1.CreateOptions{})
	w.NoError(err)
	return made
}

// addVolume adds a volume of 1Gi for a claim; change may change it first.
func (w *opsWorld) addVolume(name, handle string, claim *corev1.PersistentVolumeClaim,
	change func(*corev1.PersistentVolume),
) *corev1.PersistentVolume {
	w.Helper()
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: sizeOf("1Gi"),
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk", VolumeHandle: handle},
			},
		},
	}
	if claim != nil {
		v.Spec.ClaimRef = &corev1.ObjectReference{
			Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
		}
	}
	if change != nil {
		change(v)
	}
	made, err := w.User.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
	w.NoError(err)
	return made
}

// pair adds a claim and the volume it is bound to, with its handle: "vol-1" for "data-1".
func (w *opsWorld) pair(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim := w.addClaim(name, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = "pv-" + name
		if len(modes) > 0 {
			c.Spec.AccessModes = modes
		}
	})
	w.addVolume("pv-"+name, strings.Replace(name, "data", "vol", 1), claim, nil)
	return claim
}

func (w *opsWorld) setClaimStatus(claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase,
	size string,
) *corev1.PersistentVolumeClaim {
	w.Helper()
	claim = claim.DeepCopy()
	claim.Status.Phase, claim.Status.Capacity = phase, sizeOf(size)
	made, err := w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(context.Background(),
		claim, metav1.UpdateOptions{})
	w.NoError(err)
	return made
}

func (w *opsWorld) addNode(name string, labels map[string]string) *corev1.Node {
	w.Helper()
	made, err := w.User.CoreV1().Nodes().Create(context.Background(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	w.NoError(err)
	return made
}

func (w *opsWorld) addAttachment(volume, node string) *storagev1.VolumeAttachment {
	w.Helper()
	made, err := w.User.StorageV1().VolumeAttachments().Create(context.Background(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "att-" + volume},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "disk", NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	w.NoError(err)
	return made
}
