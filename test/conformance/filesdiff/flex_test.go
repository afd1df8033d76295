package filesdiff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/flexvolume"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	mountutils "k8s.io/mount-utils"
	utilexec "k8s.io/utils/exec"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	ourflex "github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

const flexName = "example.com/disk"

// flexCalls are the calls of a program whose answers are drawn.
var flexCalls = []string{
	"getvolumename", "attach", "waitforattach", "detach", "mountdevice", "unmountdevice", "mount", "unmount", "expandfs",
}

// A flexSide is one of the two kubelets: a program that records its calls, and how it mounts.
type flexSide struct {
	root    string
	says    map[string]string // status by call; "": success
	calls   []string
	mount   func(dir string) error
	unmount func(dir string) error
}

// run is the program. It answers as drawn, and a success has its effect.
func (s *flexSide) run(_ context.Context, args ...string) ([]byte, error) {
	s.calls = append(s.calls, strings.ReplaceAll(strings.Join(args, " "), s.root, root))
	answer := map[string]any{"status": "Success"}
	switch says := s.says[args[0]]; says {
	case "":
	case "garbage":
		return []byte("Segmentation fault"), errors.New("exit status 139")
	default:
		answer["status"], answer["message"] = says, "as drawn"
		text, _ := json.Marshal(answer)
		return text, errors.New("exit status 1")
	}
	var err error
	switch args[0] {
	case "init":
		answer["capabilities"] = map[string]bool{"attach": s.says["attaches"] == "", "fsGroup": false}
	case "attach", "waitforattach":
		if s.says["mountdevice"] != "Not supported" { // a device would be formatted
			answer["device"] = "/dev/sdx"
		}
	case "mount", "mountdevice":
		err = s.mount(args[1])
	case "unmount", "unmountdevice":
		err = s.unmount(args[1])
	}
	text, _ := json.Marshal(answer)
	return text, err
}

// A flexExec runs the program of upstream's plugin.
type flexExec struct {
	utilexec.Interface
	side *flexSide
}

func (e flexExec) Command(_ string, args ...string) utilexec.Cmd {
	return flexCmd{side: e.side, args: args}
}

type flexCmd struct {
	utilexec.Cmd
	side *flexSide
	args []string
}

func (c flexCmd) CombinedOutput() ([]byte, error) { return c.side.run(context.Background(), c.args...) }

// A flexWorld is one program with one set of answers, and two kubelets that use it.
type flexWorld struct {
	*world
	theirs  *flexSide
	mine    *flexSide
	mounter *mountutils.FakeMounter
	specs   []flexSpec
	pods    []*corev1.Pod
	device  string
}

// A flexSpec is a volume, for both.
type flexSpec struct {
	name     string
	upstream *volume.Spec
	ours     *plugins.Spec
}

// TestSameFlexCalls draws a program's answers, volumes, pods and operations. Both plugins make the
// same calls, fail at the same ones and have the same mounts.
func TestSameFlexCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		noError(rt, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newFlexWorld(ctx, t, rt, dir)
		defer w.host.Close()
		for range rapid.IntRange(1, 20).Draw(rt, "operations") {
			w.operate()
		}
	})
}

func newFlexWorld(ctx context.Context, t *testing.T, rt *rapid.T, dir string) *flexWorld {
	host := sim.NewStepped(sim.SteppedConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now})
	w := &flexWorld{world: &world{
		rt: rt, host: host, server: server, client: server.Client(sim.DirectCaller()), dir: dir, disk: nodefs.NewMemory(root),
	}}
	kind := corev1.SecretType(rapid.SampledFrom([]string{flexName, "Opaque"}).Draw(rt, "type of the secret"))
	noError(rt, server.Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key", Namespace: "default"}, Type: kind, Data: map[string][]byte{"a": {1}, "b": {2}},
	}))
	says := map[string]string{}
	if rapid.IntRange(0, 3).Draw(rt, "attaches") == 0 {
		says["attaches"] = "no"
	}
	for _, call := range flexCalls {
		says[call] = rapid.SampledFrom([]string{"", "", "", "Not supported", "Failure", "garbage"}).Draw(rt, call)
	}
	w.theirs, w.mine = &flexSide{root: dir, says: says}, &flexSide{root: root, says: says}
	w.startOurs()
	w.startUpstream(ctx, t)
	for i := range rapid.IntRange(1, 2).Draw(rt, "volumes") {
		w.specs = append(w.specs, drawFlexSpec(rt, fmt.Sprintf("v%d", i)))
	}
	for i := range rapid.IntRange(1, 2).Draw(rt, "pods") {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pod-%d", i), Namespace: "default", UID: types.UID(fmt.Sprintf("uid-%d", i))},
			Spec:       corev1.PodSpec{ServiceAccountName: "robot"},
		}
		if rapid.Bool().Draw(rt, "group") {
			group := int64(2000)
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
		}
		w.pods = append(w.pods, pod)
	}
	return w
}

func (w *flexWorld) startOurs() {
	w.mine.mount = func(dir string) error { return w.disk.MountTree(nodefs.NewTree(), "disk", dir, false) }
	w.mine.unmount = w.disk.Unmount
	process := w.host.Process("kubelet")
	w.run(func() {
		plugin, err := ourflex.New(context.Background(), ourflex.Config{
			Process: process, FS: w.disk, Root: root, Client: w.client,
			Run: func(ctx context.Context, _ string, args ...string) ([]byte, error) { return w.mine.run(ctx, args...) },
		}, "/drivers/disk", flexName)
		noError(w.rt, err)
		noError(w.rt, w.ours.Register(plugin))
	})
}

func (w *flexWorld) startUpstream(ctx context.Context, t *testing.T) {
	drivers := t.TempDir()
	dir := filepath.Join(drivers, "example.com~disk")
	noError(w.rt, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "disk"), nil, 0o755)))
	host := volumetesting.NewFakeKubeletVolumeHost(t, w.dir, w.client, nil)
	w.mounter = host.GetMounter().(*mountutils.FakeMounter)
	w.theirs.mount = func(dir string) error { return w.mounter.Mount("disk", dir, "", nil) }
	w.theirs.unmount = w.mounter.Unmount
	w.upstream = &volume.VolumePluginMgr{}
	prober := flexvolume.GetDynamicPluginProber(ctx, drivers, flexExec{utilexec.New(), w.theirs})
	noError(w.rt, w.upstream.InitPlugins(nil, prober, host))
}

// drawFlexSpec draws a volume of a pod or a PersistentVolume.
func drawFlexSpec(rt *rapid.T, name string) flexSpec {
	readOnly := rapid.Bool().Draw(rt, "read-only")
	options := drawWords(rt, "options")
	fsType := rapid.SampledFrom([]string{"", "ext4"}).Draw(rt, "fsType")
	secret := rapid.SampledFrom([]string{"", "", "key", "none"}).Draw(rt, "secret")
	if rapid.Bool().Draw(rt, "inline") {
		source := &corev1.FlexVolumeSource{Driver: flexName, FSType: fsType, ReadOnly: readOnly, Options: options}
		if secret != "" {
			source.SecretRef = &corev1.LocalObjectReference{Name: secret}
		}
		v := &corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{FlexVolume: source}}
		return flexSpec{name, volume.NewSpecFromVolume(v), &plugins.Spec{Volume: v}}
	}
	source := &corev1.FlexPersistentVolumeSource{Driver: flexName, FSType: fsType, Options: options}
	if secret != "" {
		source.SecretRef = &corev1.SecretReference{
			Name: secret, Namespace: rapid.SampledFrom([]string{"", "default", "other"}).Draw(rt, "namespace"),
		}
	}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.FlexVolume = source
	return flexSpec{name, volume.NewSpecFromPersistentVolume(pv, readOnly), &plugins.Spec{PersistentVolume: pv, ReadOnly: readOnly}}
}

// operate performs one operation on both sides and compares them.
func (w *flexWorld) operate() {
	spec := rapid.SampledFrom(w.specs).Draw(w.rt, "volume")
	pod := rapid.SampledFrom(w.pods).Draw(w.rt, "pod")
	all := []func(flexSpec, *corev1.Pod) (string, error, error){w.setUpPod, w.tearDownPod, w.expand}
	if w.theirs.says["attaches"] == "" {
		all = append(all, w.attach, w.detach, w.mountDevice, w.unmountDevice)
	}
	what, theirs, mine := rapid.SampledFrom(all).Draw(w.rt, "operation")(spec, pod)
	if (theirs == nil) != (mine == nil) {
		w.rt.Fatalf("%s: upstream's error is %v, ours %v", what, theirs, mine)
	}
	if theirs != nil && isFailure(theirs) && !strings.HasSuffix(mine.Error(), theirs.Error()) {
		w.rt.Errorf("%s: upstream's error is %q, ours %q", what, theirs, mine)
	}
	if diff := cmp.Diff(w.theirs.calls, w.mine.calls); diff != "" {
		w.rt.Fatalf("calls after %s (-upstream +ours):\n%s", what, diff)
	}
	if diff := cmp.Diff(w.upstreamMounts(), w.ourMounts()); diff != "" {
		w.rt.Fatalf("mounts after %s (-upstream +ours):\n%s", what, diff)
	}
}

// isFailure reports whether an error is a failure that a program reported, or about a secret. Other
// errors have texts of our own.
func isFailure(err error) bool {
	return strings.Contains(err.Error(), "command failed, status") || strings.Contains(err.Error(), "couldn't get secret")
}

func (w *flexWorld) upstreamPlugin(spec flexSpec) volume.VolumePlugin {
	plugin, err := w.upstream.FindPluginBySpec(spec.upstream)
	noError(w.rt, err)
	return plugin
}

func (w *flexWorld) ourPlugin(spec flexSpec) plugins.Capabilities {
	plugin, err := w.ours.FindBySpec(spec.ours)
	noError(w.rt, err)
	return plugin
}

// attach attaches as upstream's controller does: it needs the name first.
func (w *flexWorld) attach(spec flexSpec, _ *corev1.Pod) (what string, theirs, mine error) {
	plugin := w.upstreamPlugin(spec).(volume.AttachableVolumePlugin)
	var device, path string
	if _, theirs = plugin.GetVolumeName(spec.upstream); theirs == nil {
		attacher, err := plugin.NewAttacher()
		noError(w.rt, err)
		device, theirs = attacher.Attach(spec.upstream, "node-1")
	}
	w.run(func() { path, mine = w.ourPlugin(spec).Attacher.Attach(context.Background(), spec.ours, "node-1") })
	if device != path {
		w.rt.Errorf("attach %s: upstream returns %q, ours %q", spec.name, device, path)
	}
	w.device = device
	return "attach " + spec.name, theirs, mine
}

func (w *flexWorld) detach(spec flexSpec, _ *corev1.Pod) (what string, theirs, mine error) {
	detacher, err := w.upstreamPlugin(spec).(volume.AttachableVolumePlugin).NewDetacher()
	noError(w.rt, err)
	theirs = detacher.Detach(spec.name, "node-1")
	w.run(func() { mine = w.ourPlugin(spec).Attacher.Detach(context.Background(), spec.name, "node-1") })
	return "detach " + spec.name, theirs, mine
}

// mountDevice waits for the device and mounts it, as upstream's operation executor does.
func (w *flexWorld) mountDevice(spec flexSpec, pod *corev1.Pod) (what string, theirs, mine error) {
	attacher, err := w.upstreamPlugin(spec).(volume.AttachableVolumePlugin).NewAttacher()
	noError(w.rt, err)
	mounter := attacher.(volume.DeviceMounter)
	device, theirs := attacher.WaitForAttach(spec.upstream, w.device, pod, 0)
	if theirs == nil {
		var at string
		if at, theirs = mounter.GetDeviceMountPath(spec.upstream); theirs == nil {
			theirs = mounter.MountDevice(spec.upstream, device, at, volume.DeviceMounterArgs{})
		}
	}
	ours := w.ourPlugin(spec).DeviceMounter
	at, err := ours.DeviceMountPath(spec.ours)
	noError(w.rt, err)
	w.run(func() {
		mine = ours.MountDevice(context.Background(), spec.ours, at, plugins.MountOptions{DevicePath: w.device})
	})
	return "mount device " + spec.name, theirs, mine
}

func (w *flexWorld) unmountDevice(spec flexSpec, _ *corev1.Pod) (what string, theirs, mine error) {
	unmounter, err := w.upstreamPlugin(spec).(volume.DeviceMountableVolumePlugin).NewDeviceUnmounter()
	noError(w.rt, err)
	ours := w.ourPlugin(spec).DeviceMounter
	at, err := ours.DeviceMountPath(spec.ours)
	noError(w.rt, err)
	theirs = unmounter.UnmountDevice(filepath.Join(w.dir, strings.TrimPrefix(at, root)))
	w.run(func() { mine = ours.UnmountDevice(context.Background(), at) })
	return "unmount device " + spec.name, theirs, mine
}

func (w *flexWorld) setUpPod(spec flexSpec, pod *corev1.Pod) (what string, theirs, mine error) {
	if w.theirs.says["mount"] == "Not supported" && !w.deviceIsMounted(spec) {
		return "", nil, nil // upstream binds an empty directory of the node; ours refuses
	}
	mounter, err := w.upstreamPlugin(spec).NewMounter(spec.upstream, pod)
	noError(w.rt, err)
	theirs = mounter.SetUp(volume.MounterArgs{FsGroup: group(pod)})
	w.run(func() {
		mine = w.ourPlugin(spec).Mounter.SetUp(context.Background(), spec.ours, pod, plugins.MountOptions{FSGroup: group(pod)})
	})
	return fmt.Sprintf("set up %s for %s", spec.name, pod.Name), theirs, mine
}

func (w *flexWorld) deviceIsMounted(spec flexSpec) bool {
	mounter := w.ourPlugin(spec).DeviceMounter
	if mounter == nil {
		return false
	}
	at, err := mounter.DeviceMountPath(spec.ours)
	noError(w.rt, err)
	mounted, err := w.disk.IsMountPoint(at)
	return err == nil && mounted
}

func (w *flexWorld) tearDownPod(spec flexSpec, pod *corev1.Pod) (what string, theirs, mine error) {
	unmounter, err := w.upstreamPlugin(spec).NewUnmounter(spec.name, pod.UID)
	noError(w.rt, err)
	theirs = unmounter.TearDown()
	w.run(func() { mine = w.ourPlugin(spec).Mounter.TearDown(context.Background(), spec.name, pod.UID) })
	return fmt.Sprintf("tear down %s of %s", spec.name, pod.Name), theirs, mine
}

func (w *flexWorld) expand(spec flexSpec, pod *corev1.Pod) (what string, theirs, mine error) {
	if w.theirs.says["expandfs"] == "Not supported" {
		return "", nil, nil // upstream reads the device
	}
	ours := w.ourPlugin(spec)
	at := ours.Mounter.MountPath(spec.ours, pod.UID)
	size, before := resource.MustParse("2Gi"), resource.MustParse("1Gi")
	_, theirs = w.upstreamPlugin(spec).(volume.NodeExpandableVolumePlugin).NodeExpand(volume.NodeResizeOptions{
		VolumeSpec: spec.upstream, DevicePath: w.device, DeviceMountPath: filepath.Join(w.dir, strings.TrimPrefix(at, root)),
		NewSize: size, OldSize: before,
	})
	w.run(func() {
		mine = ours.NodeExpander.NodeExpand(context.Background(), plugins.ExpandOptions{
			Spec: spec.ours, Pod: pod.UID, DevicePath: w.device, NewSize: size, OldSize: before,
		})
	})
	return "expand " + spec.name, theirs, mine
}

// upstreamMounts returns the mount points with their modes, sorted.
func (w *flexWorld) upstreamMounts() []string {
	points, err := w.mounter.List()
	noError(w.rt, err)
	var all []string
	for _, p := range points {
		info, err := os.Stat(p.Path)
		noError(w.rt, err)
		all = append(all, path.Join(root, strings.TrimPrefix(p.Path, w.dir))+" "+(info.Mode()&fs.ModeType).String())
	}
	slices.Sort(all)
	return all
}

func (w *flexWorld) ourMounts() []string {
	points, err := w.disk.Mounts()
	noError(w.rt, err)
	var all []string
	for _, p := range points {
		info, err := w.disk.Stat(p.Path)
		noError(w.rt, err)
		all = append(all, p.Path+" "+(info.Mode&fs.ModeType).String())
	}
	slices.Sort(all)
	return all
}
