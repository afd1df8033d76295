package flexvolume_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

const (
	driver  = "example.com/disk"
	program = "/drivers/example.com~disk/disk"
	root    = "/var/lib/kubelet"
	node1   = types.NodeName("node-1")
)

// box is a driver's program and its backing store.
type box struct {
	disk     *nodefs.Memory
	attached map[string]bool
	trees    map[string]*nodefs.Tree
	says     map[string]string // what is printed in answer to a call, and all that it does
	fails    map[string]error  // how running it for a call ends
	calls    []string
}

func newBox() *box {
	return &box{
		disk: nodefs.NewMemory(root), attached: map[string]bool{}, trees: map[string]*nodefs.Tree{},
		says: map[string]string{}, fails: map[string]error{},
	}
}

const (
	success      = `{"status": "Success"}`
	notSupported = `{"status": "Not supported"}`
)

// run is the program.
func (b *box) run(_ context.Context, name string, args ...string) ([]byte, error) {
	if name != program {
		return nil, fmt.Errorf("%s: no such program", name)
	}
	b.calls = append(b.calls, strings.Join(args, " "))
	call := args[0]
	if says, ok := b.says[call]; ok {
		return []byte(says), b.fails[call]
	}
	device, err := b.do(call, args[1:])
	if err != nil {
		return fmt.Appendf(nil, `{"status": "Failure", "message": %q}`, err.Error()), errors.New("exit status 1")
	}
	return fmt.Appendf(nil, `{"status": "Success", "device": %q}`, device), nil
}

func (b *box) do(call string, args []string) (device string, err error) {
	switch call {
	case "attach":
		b.attached[nameIn(args[0])+" to "+args[1]] = true
		return "/dev/" + nameIn(args[0]), nil
	case "detach":
		delete(b.attached, args[0]+" to "+args[1])
		return "", nil
	case "waitforattach":
		return args[0], nil
	case "mountdevice":
		return "", b.mount(args[0], args[2])
	case "mount":
		return "", b.mount(args[0], args[1])
	case "unmountdevice", "unmount":
		return "", b.disk.Unmount(args[0])
	default:
		return "", nil
	}
}

func (b *box) mount(dir, options string) error {
	name := nameIn(options)
	if b.trees[name] == nil {
		b.trees[name] = nodefs.NewTree()
	}
	return b.disk.MountTree(b.trees[name], "/dev/"+name, dir, strings.Contains(options, `"kubernetes.io/readwrite":"ro"`))
}

// nameIn returns the volume's name in the options.
func nameIn(options string) string {
	var told map[string]string
	if err := json.Unmarshal([]byte(options), &told); err != nil {
		panic(err)
	}
	return told["kubernetes.io/pvOrVolumeName"]
}

// left returns what is attached and mounted, and the directories for mounts.
func (b *box) left() ([]string, error) {
	lines := slices.Sorted(maps.Keys(b.attached))
	mounts, err := b.disk.Mounts()
	for _, m := range mounts {
		lines = append(lines, m.Source+" at "+m.Path)
	}
	for _, dir := range []string{
		"plugins/kubernetes.io/flexvolume/example.com/disk/mounts",
		"pods/a/volumes/example.com~disk", "pods/b/volumes/example.com~disk",
	} {
		names, _ := b.disk.ReadDir(path.Join(root, dir))
		for _, name := range names {
			lines = append(lines, "directory "+dir+"/"+name)
		}
	}
	return lines, err
}

func persistent(name string) *plugins.Spec {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	pv.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{
		Driver: driver, FSType: "ext4",
		Options: map[string]string{"lun": "7"},
	}
	return &plugins.Spec{PersistentVolume: pv}
}

func newPod(uid string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + uid, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{ServiceAccountName: "robot"},
	}
}

// begin creates the plugin of a process.
func (b *box) begin(host sim.Host) (*sim.Process, plugins.Plugin, error) {
	c := host.Process("process")
	var plugin plugins.Plugin
	made := make(chan error, 1)
	c.Spawn("init", func(ctx context.Context) {
		var err error
		plugin, err = flexvolume.New(ctx, flexvolume.Config{Caller: c, Run: b.run, Root: root, FS: b.disk}, program, driver)
		made <- err
	})
	host.Start()
	if err := host.Wait(context.Background(), "the plugin", func() bool { return len(made) == 1 }); err != nil {
		return nil, nil, err
	}
	return c, plugin, <-made
}

func TestPluginContract(t *testing.T) {
	t.Parallel()
	for name, says := range map[string]map[string]string{
		"knows all":    {},
		"only mounts":  {"init": `{"status": "Success", "capabilities": {"attach": false}}`},
		"binds":        {"mount": notSupported, "unmount": notSupported},
		"attaches not": {"attach": notSupported, "waitforattach": notSupported, "detach": notSupported},
		"mounts no node": {
			"attach": notSupported, "waitforattach": notSupported, "detach": notSupported,
			"mountdevice": notSupported,
		},
		"unmounts by hand": {"unmount": notSupported, "unmountdevice": notSupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
				host, b := sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000}), newBox()
				b.says = says
				w := &plugintest.World{
					Host: host, Resources: b.left, Volumes: []*plugins.Spec{persistent("v"), persistent("w")},
					Nodes: []types.NodeName{node1, "node-2"}, Pods: []*corev1.Pod{newPod("a"), newPod("b")},
				}
				var err error
				w.Process, w.Plugin, err = b.begin(host)
				w.Restart = func() (*sim.Process, plugins.Plugin, error) {
					host.Crash(w.Process)
					return b.begin(host)
				}
				return w, err
			})
			if err != nil {
				t.Error(strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
			}
		})
	}
}

// scene is a plugin that gets one call at a time.
type scene struct {
	*testing.T
	*box
	caps plugins.Capabilities
	host *sim.Stepped
	c    *sim.Process
}

func newScene(t *testing.T, says map[string]string) *scene {
	t.Helper()
	s := &scene{T: t, box: newBox(), host: sim.NewStepped(sim.SteppedConfig{})}
	t.Cleanup(s.host.Close)
	maps.Copy(s.says, says)
	c, plugin, err := s.begin(s.host)
	testcheck.NoError(s, err)
	var m plugins.Manager
	testcheck.NoError(s, m.Register(plugin))
	s.caps, err = m.FindByName(driver)
	testcheck.NoError(s, err)
	s.c = c
	return s
}

// do calls the plugin.
func (s *scene) do(call func(ctx context.Context) error) (err error) {
	s.Helper()
	s.c.Spawn("operation", func(ctx context.Context) { err = call(ctx) })
	testcheck.NoError(s, s.host.Run())
	return err
}

// life attaches, mounts, and undoes everything.
func (s *scene) life(ctx context.Context) error {
	spec, pod := persistent("v"), newPod("a")
	device, err := s.caps.Attacher.Attach(ctx, spec, node1)
	testcheck.NoError(s, err)
	at, err := s.caps.DeviceMounter.DeviceMountPath(spec)
	testcheck.NoError(s, err)
	testcheck.NoError(s, s.caps.DeviceMounter.MountDevice(ctx, spec, at, plugins.MountOptions{DevicePath: device}))
	testcheck.NoError(s, s.caps.Mounter.SetUp(ctx, spec, pod, plugins.MountOptions{DevicePath: device}))
	testcheck.NoError(s, s.caps.Mounter.TearDown(ctx, "v", "a"))
	testcheck.NoError(s, s.caps.DeviceMounter.UnmountDevice(ctx, at))
	return s.caps.Attacher.Detach(ctx, "v", node1)
}

func TestCallsMatchUpstream(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	testcheck.NoError(s, s.do(s.life))
	options := `"kubernetes.io/pvOrVolumeName":"v","kubernetes.io/readwrite":"rw",`
	volume := `{"kubernetes.io/fsType":"ext4",` + options + `"lun":"7"}`
	ofPod := `{"kubernetes.io/fsType":"ext4","kubernetes.io/pod.name":"pod-a","kubernetes.io/pod.namespace":"default",` +
		`"kubernetes.io/pod.uid":"a",` + options + `"kubernetes.io/serviceAccount.name":"robot","lun":"7"}`
	device, pod := root+"/plugins/kubernetes.io/flexvolume/example.com/disk/mounts/v",
		root+"/pods/a/volumes/example.com~disk/v"
	want := []string{
		"init",
		"attach " + volume + " node-1",
		"waitforattach /dev/v " + volume,
		"mountdevice " + device + " /dev/v " + volume,
		"mount " + pod + " " + ofPod,
		"unmount " + pod,
		"unmountdevice " + device,
		"detach v node-1",
	}
	if diff := cmp.Diff(want, s.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestUnsupportedCallIsNotRepeated uses two volumes of a program that supports only one call.
func TestUnsupportedCallIsNotRepeated(t *testing.T) {
	t.Parallel()
	none := map[string]string{}
	for _, call := range []string{"attach", "waitforattach", "mountdevice", "unmountdevice", "detach"} {
		none[call] = notSupported
	}
	s := newScene(t, none)
	testcheck.NoError(s, s.do(s.life))
	testcheck.NoError(s, s.do(s.life))
	var got []string
	for _, call := range s.calls {
		name, _, _ := strings.Cut(call, " ")
		got = append(got, name)
	}
	want := []string{"init", "attach", "waitforattach", "mountdevice", "mount", "unmount", "detach", "mount", "unmount"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	exit := errors.New("exit status 1")
	for _, tt := range []struct {
		name, says string
		ran        error
		class      plugins.Class
		want       string // "": success
	}{
		{"success", success, nil, 0, ""},
		{
			"failure", `{"status":"Failure","message":"no such disk"}`, exit, plugins.Final,
			"mount command failed, status: Failure, reason: no such disk",
		},
		{
			"failure, but the program does not say so twice", `{"status":"Failure"}`, nil, plugins.Final,
			"mount command failed, status: Failure, reason: ",
		},
		{"nothing", "", exit, plugins.Uncertain, "mount: no answer: exit status 1"},
		{
			"babble", "mounted it", nil, plugins.Uncertain,
			"mount: no answer: invalid character 'm' looking for beginning of value",
		},
		{"success, but it failed", success, exit, plugins.Uncertain, "mount: status Success, but: exit status 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"mount": tt.says})
			s.fails["mount"] = tt.ran
			err := s.do(func(ctx context.Context) error {
				return s.caps.Mounter.SetUp(ctx, persistent("v"), newPod("a"), plugins.MountOptions{})
			})
			if got := fmt.Sprint(err); tt.want != "" && got != tt.want || (err == nil) != (tt.want == "") {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if err != nil && plugins.ClassOf(err) != tt.class {
				t.Errorf("it is %v, want %v", plugins.ClassOf(err), tt.class)
			}
			s.wantLeft(tt.want == "" || tt.class == plugins.Uncertain)
		})
	}
}

// wantLeft checks whether the directory of a mount exists.
func (s *scene) wantLeft(directory bool) {
	s.Helper()
	var want []string
	if directory {
		want = []string{"directory pods/a/volumes/example.com~disk/v"}
	}
	left, err := s.left()
	testcheck.NoError(s, err)
	if diff := cmp.Diff(want, left); diff != "" {
		s.Errorf("left (-want +got):\n%s", diff)
	}
}

// broken injects a fault into each mount.
type broken struct{}

func (broken) Decide(d *sim.Decision) sim.Move {
	if action, ok := d.Task(0).Pending(); ok && action.Verb == "mount" {
		return sim.Move{Fault: sim.Fault{Kind: sim.FaultDriver, Code: codes.Internal}}
	}
	return sim.Move{}
}

func TestFailedRunIsUncertain(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	s.host.SetStrategy(broken{})
	err := s.do(func(ctx context.Context) error {
		return s.caps.Mounter.SetUp(ctx, persistent("v"), newPod("a"), plugins.MountOptions{})
	})
	if err == nil || plugins.ClassOf(err) != plugins.Uncertain {
		t.Errorf("got %v, want an error that is uncertain", err)
	}
	s.wantLeft(true)
}

// TestFailedMountThatLeftSomething reports a failure, but the directory cannot be removed.
func TestFailedMountThatLeftSomething(t *testing.T) {
	t.Parallel()
	s := newScene(t, map[string]string{"mountdevice": `{"status":"Failure","message":"oh no"}`})
	at := root + "/devices/v"
	testcheck.NoError(s, s.disk.MkdirAll(at+"/lost+found"))
	err := s.do(func(ctx context.Context) error {
		return s.caps.DeviceMounter.MountDevice(ctx, persistent("v"), at, plugins.MountOptions{DevicePath: "/dev/v"})
	})
	if plugins.ClassOf(err) != plugins.Uncertain || !errors.Is(err, nodefs.ErrNotEmpty) {
		t.Errorf("got %v, want an error that is uncertain and says why", err)
	}
}

func TestCapabilities(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		says           string
		made, attaches bool
	}{
		{success, true, true},
		{`{"status":"Success","capabilities":{"attach":true}}`, true, true},
		{`{"status":"Success","capabilities":{"fsGroup":false}}`, true, true},
		{`{"status":"Success","capabilities":{"attach":false}}`, true, false},
		{`{"status":"Failure"}`, false, false},
		{notSupported, false, false},
		{"", false, false},
	} {
		b, host := newBox(), sim.NewStepped(sim.SteppedConfig{})
		defer host.Close()
		b.says["init"] = tt.says
		_, plugin, err := b.begin(host)
		_, attaches := plugin.(plugins.Attacher)
		_, mountsDevices := plugin.(plugins.DeviceMounter)
		if (err == nil) != tt.made || attaches != tt.attaches || mountsDevices != tt.attaches {
			t.Errorf("%q: made %T, %v; want made: %v, attaches: %v", tt.says, plugin, err, tt.made, tt.attaches)
		}
	}
}

// TestReadOnly checks that each way to make a volume read-only reaches the program, and the mount.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	inline := &corev1.FlexVolumeSource{Driver: driver, ReadOnly: true}
	asked := persistent("v")
	asked.ReadOnly = true
	for _, spec := range []*plugins.Spec{
		asked, {Volume: &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{FlexVolume: inline}}},
	} {
		for _, says := range []map[string]string{nil, {"mount": notSupported}} {
			s := newScene(t, says)
			testcheck.NoError(s, s.do(func(ctx context.Context) error {
				at, _ := s.caps.DeviceMounter.DeviceMountPath(spec)
				testcheck.NoError(s, s.caps.DeviceMounter.MountDevice(ctx, spec, at, plugins.MountOptions{DevicePath: "/dev/v"}))
				return s.caps.Mounter.SetUp(ctx, spec, newPod("a"), plugins.MountOptions{})
			}))
			mounts, err := s.disk.Mounts()
			testcheck.NoError(s, err)
			for _, m := range mounts {
				if !m.ReadOnly {
					t.Errorf("%s can be written to", m.Path)
				}
			}
			if len(mounts) != 2 {
				t.Errorf("%d mounts, want 2", len(mounts))
			}
		}
	}
}

func TestVolumeWithSecretIsRejected(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	spec := persistent("v")
	spec.PersistentVolume.Spec.FlexVolume.SecretRef = &corev1.SecretReference{Name: "s"}
	before := len(s.calls)
	err := s.do(func(ctx context.Context) error {
		return s.caps.Mounter.SetUp(ctx, spec, newPod("a"), plugins.MountOptions{})
	})
	if err == nil || len(s.calls) != before {
		t.Errorf("got %v, and calls %v", err, s.calls[before:])
	}
}
