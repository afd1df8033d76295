package volumemanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/volumemanager"
)

const nodeName = "node-1"

// diskRoot is the kubelet's directory on its node's disk.
const diskRoot = "/node"

// reportFault makes the kubelet's next report fail, before or after its effect.
type reportFault struct {
	err   error
	after bool
}

// world is an API server and a kubelet with a volume manager, on a stepped host. The test acts as
// the attach/detach controller.
type world struct {
	*testworld.World
	backend    *backend
	manager    *volumemanager.Manager
	kubelet    *sim.Process
	client     kubernetes.Interface // of the kubelet
	status     *sim.Queue[string]
	changed    []types.UID // arguments of PodChanged
	waitErrors []string    // arguments of WaitFailed
	failing    []reportFault
}

// newWorld returns a world with a node. Volumes are attached and their devices mounted before they
// are mounted for pods, unless configured otherwise.
func newWorld(t *testing.T, chooser sim.Chooser, configure ...func(*backend)) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser})}
	w.backend = &backend{
		attachable: true, stages: true,
		attached: map[string]bool{}, devices: map[string]bool{}, pods: map[string]map[types.UID]bool{},
		disk: nodefs.NewMemory(diskRoot), unreadable: map[string]bool{},
		now:      func() string { return w.Host.Now().Sub(sim.Epoch).String() },
		reported: func() []corev1.UniqueVolumeName { return w.node().Status.VolumesInUse },
		owns:     func(uid types.UID) bool { return w.manager.HasVolumes(uid) },
	}
	for _, f := range configure {
		f(w.backend)
	}
	w.createNode()
	w.Server.OnCommit(func(fake.Commit) {
		if w.node() != nil {
			w.backend.judge()
		}
	})
	w.start(w.Host.Process("kubelet"))
	w.NoError(w.manager.MarkAllPodsAdded())
	return w
}

// restart crashes the kubelet and starts another one, which does not know its pods yet.
func (w *world) restart() {
	w.Helper()
	w.Host.Crash(w.kubelet)
	w.Server.RemoveComponent(w.kubelet)
	w.backend.calls = nil
	w.start(w.Host.Process("kubelet"))
}

// start starts the kubelet.
func (w *world) start(c *sim.Process) {
	w.Helper()
	w.kubelet, w.client = c, w.Server.Client(c)
	manager := &plugins.Manager{}
	w.NoError(manager.Register(shelf{c: c, b: w.backend}))
	w.status = sim.NewQueue[string](c, sim.QueueConfig{Name: "node status"})
	w.status.Work(w.syncNode)
	w.manager = volumemanager.New(volumemanager.Config{
		Process: c, Client: w.client, NodeName: nodeName, Plugins: manager,
		Recorder:      events.New(events.Config{Process: c, Client: w.client, Source: "kubelet", Host: nodeName}),
		PodChanged:    func(uid types.UID) { w.changed = append(w.changed, uid) },
		ReportChanged: func() { w.status.Add(nodeName) },
		Root:          diskRoot, FS: w.backend.disk,
		SELinux: true, SELinuxMount: w.backend.selinuxMount,
		WaitFailed: func(uid types.UID, why error) {
			w.waitErrors = append(w.waitErrors, string(uid)+": "+why.Error())
		},
	})
	see := func(obj any) { w.manager.NodeUpdated(obj.(*corev1.Node)) }
	views := w.Server.Informers(c, fake.Filter{Resource: "persistentvolumeclaims", Match: func(was, is fake.Object) bool {
		before, _ := was.(*corev1.PersistentVolumeClaim)
		after, _ := is.(*corev1.PersistentVolumeClaim)
		return volumemanager.IsNodeResize(before, after)
	}}).Core().V1()
	eventhandler.Add(views.PersistentVolumeClaims().Informer(),
		func(_, claim *corev1.PersistentVolumeClaim) { w.manager.ClaimResized(claim) }, nil)
	_, err := views.Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: see, UpdateFunc: func(_, node any) { see(node) },
	})
	w.NoError(err)
	w.status.Add(nodeName)
}

// syncNode reports the volumes in use, as a kubelet does.
func (w *world) syncNode(ctx context.Context, name string) error {
	if !w.manager.NeedsReport() {
		return nil
	}
	volumes := w.manager.VolumesInUse()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": volumes}})
	if err != nil {
		panic(err)
	}
	var f reportFault
	if len(w.failing) > 0 {
		f, w.failing = w.failing[0], w.failing[1:]
	}
	if f.err != nil && !f.after {
		return f.err
	}
	node, err := w.client.CoreV1().Nodes().Patch(ctx, name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	if err != nil || f.err != nil {
		return errors.Join(err, f.err)
	}
	w.manager.MarkReportedInUse(volumes, node)
	if w.manager.NeedsReport() {
		w.status.Add(name)
	}
	return nil
}

// upTo runs the world until a task of the kubelet is about to perform an action. what begins with
// the task's name.
func (w *world) upTo(what string) {
	w.Helper()
	w.Until(what, func() bool { return w.about(what) })
}

func (w *world) about(what string) bool {
	return slices.ContainsFunc(w.Host.Enabled(), func(s string) bool { return strings.HasPrefix(s, "kubelet/"+what) })
}

// move runs one step of a task of the kubelet.
func (w *world) move(task string) {
	w.Helper()
	w.Step("kubelet/" + task)
}

// moveAll runs the given tasks of the kubelet, and nothing else, as long as one of them can run.
func (w *world) moveAll(tasks ...string) {
	w.Helper()
	for moved := true; moved; {
		moved = false
		for _, s := range tasks {
			if w.about(s) {
				w.move(s)
				moved = true
			}
		}
	}
}

// pass runs the world for a time.
func (w *world) pass(d time.Duration) {
	w.Helper()
	end := w.Host.Now().Add(d)
	w.kubelet.Spawn("time passes", func(context.Context) { w.kubelet.Sleep(d) })
	w.Until("time to pass", func() bool { return !w.Host.Now().Before(end) && len(w.Host.Enabled()) == 0 })
}

func (w *world) createNode() {
	w.Helper()
	_, err := w.User.CoreV1().Nodes().Create(context.Background(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}, metav1.CreateOptions{})
	w.NoError(err)
}

// node returns the stored Node, or nil.
func (w *world) node() *corev1.Node {
	object, ok := w.Server.Get("nodes", "", nodeName)
	if !ok {
		return nil
	}
	return object.(*corev1.Node)
}

// attach attaches exactly these volumes, and lists them in the Node.
func (w *world) attach(volumes ...string) {
	w.Helper()
	clear(w.backend.attached)
	for _, v := range volumes {
		w.backend.attached[v] = true
	}
	w.list(volumes...)
}

// list sets the attached volumes in the Node.
func (w *world) list(volumes ...string) {
	w.Helper()
	w.NoError(list(context.Background(), w.User, volumes))
}

func list(ctx context.Context, client kubernetes.Interface, volumes []string) error {
	attached := []corev1.AttachedVolume{}
	for _, v := range volumes {
		attached = append(attached, corev1.AttachedVolume{Name: unique(v), DevicePath: "/dev/" + v})
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": attached}})
	if err != nil {
		panic(err)
	}
	_, err = client.CoreV1().Nodes().Patch(ctx, nodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// disk creates a claim and a volume with the same name, bound to each other.
func (w *world) disk(name string) {
	w.Helper()
	w.claim(name)
	w.volume(name, func(*corev1.PersistentVolume) {})
	w.bind(name)
}

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

// claim creates a claim that names its volume and is not bound yet.
func (w *world) claim(name string) {
	w.Helper()
	class := ""
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").Create(context.Background(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &class, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{})
	w.NoError(err)
}

func (w *world) claimUID(name string) types.UID {
	object, ok := w.Server.Get("persistentvolumeclaims", "default", name)
	if !ok {
		return ""
	}
	return object.GetUID()
}

// volume creates a volume for the claim with that name.
func (w *world) volume(name string, change func(*corev1.PersistentVolume)) {
	w.Helper()
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			ClaimRef: &corev1.ObjectReference{
				Kind: "PersistentVolumeClaim", Namespace: "default",
				Name: name, UID: w.claimUID(name),
			},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
			},
		},
	}
	change(v)
	_, err := w.User.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
	w.NoError(err)
}

// bind sets the claim's phase to Bound.
func (w *world) bind(name string) {
	w.Helper()
	object, _ := w.Server.Get("persistentvolumeclaims", "default", name)
	c := object.(*corev1.PersistentVolumeClaim).DeepCopy()
	c.Status.Phase = corev1.ClaimBound
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(context.Background(), c,
		metav1.UpdateOptions{})
	w.NoError(err)
}

// unbind sets the claim's phase to Pending.
func (w *world) unbind(name string) {
	w.Helper()
	object, _ := w.Server.Get("persistentvolumeclaims", "default", name)
	c := object.(*corev1.PersistentVolumeClaim).DeepCopy()
	c.Status.Phase = corev1.ClaimPending
	_, err := w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(context.Background(), c,
		metav1.UpdateOptions{})
	w.NoError(err)
}

// newPod returns a pod that uses the claims; its volumes have the claims' names.
func newPod(uid types.UID, claims ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid},
		Spec:       corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, claim := range claims {
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts,
			corev1.VolumeMount{Name: claim, MountPath: "/" + claim})
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return p
}

func (w *world) add(uid types.UID, claims ...string) {
	w.manager.AddPod(newPod(uid, claims...))
	w.kubelet.Wake()
}

func (w *world) remove(uid types.UID) {
	w.manager.RemovePod(uid)
	w.kubelet.Wake()
}

// calls checks the calls of the plugin since the previous check.
func (w *world) calls(want ...string) {
	w.Helper()
	testcheck.Equal(w, "calls", want, w.backend.calls)
	w.backend.calls = nil
}

// inUse checks the volumes in use in the Node.
func (w *world) inUse(want ...string) {
	w.Helper()
	var got []string
	for _, name := range w.node().Status.VolumesInUse {
		got = append(got, strings.TrimPrefix(string(name), shelfName+"/"))
	}
	testcheck.Equal(w, "volumes in use", want, got)
}

// pod checks whether all volumes of a pod are mounted and whether any may be.
func (w *world) pod(uid types.UID, mounted, hasVolumes bool) {
	w.Helper()
	type state struct{ Mounted, HasVolumes bool }
	testcheck.Equal(w, "pod "+string(uid), state{mounted, hasVolumes},
		state{w.manager.Mounted(uid), w.manager.HasVolumes(uid)})
}

// quiet checks that there was no violation and nothing is left to do.
func (w *world) quiet() {
	w.Helper()
	testcheck.Equal(w, "violations", nil, w.backend.wrong)
	testcheck.Equal(w, "waiting tasks", nil, w.Host.Waiting())
	testcheck.Equal(w, "quiet, and no report needed", []bool{true, false},
		[]bool{w.manager.Quiescent(), w.manager.NeedsReport()})
}

// events returns the events so far: "xcount type reason pod: message", sorted.
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

// happened returns the kubelet's reports and the calls of the plugin, in order.
func (w *world) happened() []string {
	var lines []string
	for _, r := range w.Host.Log().Records() {
		switch {
		case !strings.HasPrefix(r.Task, "kubelet"):
		case r.Kind == trace.KindDriver && r.Verb != "return":
			lines = append(lines, r.Object)
		case r.Kind == trace.KindAPI && r.Verb == "patch/status":
			words, _ := trace.Describe(r)
			lines = append(lines, words)
		}
	}
	return lines
}
