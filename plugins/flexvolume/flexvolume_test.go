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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
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

	mountPoint = root + "/pods/a/volumes/example.com~disk/v" // of volume v for pod a
)

// box is a driver's program and its backing store.
type box struct {
	disk     *nodefs.Memory
	attached map[string]bool
	trees    map[string]*nodefs.Tree
	says     map[string]string // what is printed in answer to a call, and all that it does
	fails    map[string]error  // how running it for a call ends
	calls    []string
	client   kubernetes.Interface
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
	if call == "isattached" {
		return fmt.Appendf(nil, `{"status": "Success", "attached": %t}`, b.attached[nameIn(args[1])+" to "+args[2]]), nil
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
		plugin, err = flexvolume.New(ctx, flexvolume.Config{Process: c, Run: b.run, Root: root, FS: b.disk, Client: b.client}, program, driver)
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
		"knows all":   {},
		"only mounts": {"init": `{"status": "Success", "capabilities": {"attach": false}}`},
		"binds":       {"mount": notSupported, "unmount": notSupported},
		"attaches not": {
			"attach": notSupported, "waitforattach": notSupported, "detach": notSupported, "isattached": notSupported,
		},
		"mounts no node": {
			"attach": notSupported, "waitforattach": notSupported, "detach": notSupported,
			"mountdevice": notSupported, "isattached": notSupported,
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
		"getvolumename " + volume,
		"attach " + volume + " node-1",
		"waitforattach /dev/v " + volume,
		"getvolumename " + volume,
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
	for _, call := range []string{"getvolumename", "attach", "waitforattach", "mountdevice", "unmountdevice", "detach"} {
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
	want := []string{"init", "getvolumename", "attach", "waitforattach", "mountdevice", "mount", "unmount", "detach", "mount", "unmount"}
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
		want       string
	}{
		{"success without effect", success, nil, plugins.Final, "mount had no effect: nothing is mounted at " + mountPoint},
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
			`mount: no answer: invalid character 'm' looking for beginning of value; output: "mounted it"`,
		},
		{
			"another shape", `{"status":["Success"]}`, nil, plugins.Uncertain,
			"mount: no answer: json: cannot unmarshal array into Go struct field answer.status of type string; " +
				`output: "{\"status\":[\"Success\"]}"`,
		},
		{"an unknown status", `{"status":"OK"}`, nil, plugins.Final, "mount command failed, status: OK, reason: "},
		{
			"a lot", strings.Repeat("x", 1000), nil, plugins.Uncertain,
			"mount: no answer: invalid character 'x' looking for beginning of value; output: " +
				`"` + strings.Repeat("x", 200) + `"…`,
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
			if got := fmt.Sprint(err); got != tt.want {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
			if plugins.ClassOf(err) != tt.class {
				t.Errorf("it is %v, want %v", plugins.ClassOf(err), tt.class)
			}
			s.wantLeft(tt.class == plugins.Uncertain)
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

// TestMountOptions checks the options of the calls that concern one pod.
func TestMountOptions(t *testing.T) {
	t.Parallel()
	secretOf := func(namespace, name, kind string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretType(kind),
			Data: map[string][]byte{"user": []byte("admin"), "password": {0, 1}},
		}
	}
	group := int64(42)
	inline := func(secret string) *plugins.Spec {
		return &plugins.Spec{Volume: &corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{
			FlexVolume: &corev1.FlexVolumeSource{Driver: driver, SecretRef: &corev1.LocalObjectReference{Name: secret}},
		}}}
	}
	ofVolume := func(namespace, name string) *plugins.Spec {
		spec := persistent("v")
		spec.PersistentVolume.Spec.FlexVolume.SecretRef = &corev1.SecretReference{Namespace: namespace, Name: name}
		return spec
	}
	secret := map[string]string{"kubernetes.io/secret/user": "YWRtaW4=", "kubernetes.io/secret/password": "AAE="}
	for _, tt := range []struct {
		name string
		spec *plugins.Spec
		use  plugins.MountOptions
		want map[string]string // besides those of each pod
		err  string
	}{
		{name: "a group", spec: persistent("v"), use: plugins.MountOptions{FSGroup: &group}, want: map[string]string{
			"kubernetes.io/mounterArgs.FsGroup": "42",
		}},
		{name: "a secret of an inline volume", spec: inline("ours"), want: secret},
		{name: "a secret of a volume", spec: ofVolume("other", "theirs"), want: secret},
		{name: "a secret of a volume in the pod's namespace", spec: ofVolume("", "ours"), want: secret},
		{
			name: "no such secret", spec: ofVolume("other", "ours"),
			err: `couldn't get secret other/ours err: secrets "ours" not found`,
		},
		{
			name: "a secret of another type", spec: inline("opaque"),
			err: `couldn't get secret default/opaque err: cannot get secret of type example.com/disk`,
		},
		{name: "an option of the volume takes precedence", spec: func() *plugins.Spec {
			spec := persistent("v")
			spec.PersistentVolume.Spec.FlexVolume.Options = map[string]string{"kubernetes.io/pod.name": "mine"}
			return spec
		}(), want: map[string]string{"kubernetes.io/pod.name": "mine"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, nil)
			server := fake.NewServer(fake.Config{Now: s.host.Now})
			testcheck.NoError(t, server.Add(secretOf("default", "ours", driver), secretOf("other", "theirs", driver),
				secretOf("default", "opaque", "Opaque")))
			s.client = server.Client(sim.DirectCaller())
			_, plugin, err := s.begin(s.host)
			testcheck.NoError(t, err)
			err = s.do(func(ctx context.Context) error {
				return plugin.(plugins.Mounter).SetUp(ctx, tt.spec, newPod("a"), tt.use)
			})
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v, want %s", err, tt.err)
				}
				s.wantLeft(false)
				return
			}
			testcheck.NoError(t, err)
			want := map[string]string{
				"kubernetes.io/fsType": "", "kubernetes.io/readwrite": "rw", "kubernetes.io/pvOrVolumeName": "v",
				"kubernetes.io/pod.name": "pod-a", "kubernetes.io/pod.namespace": "default", "kubernetes.io/pod.uid": "a",
				"kubernetes.io/serviceAccount.name": "robot",
			}
			if pv := tt.spec.PersistentVolume; pv != nil {
				want["kubernetes.io/fsType"] = "ext4"
				maps.Copy(want, pv.Spec.FlexVolume.Options)
			}
			maps.Copy(want, tt.want)
			var got map[string]string
			last := s.calls[len(s.calls)-1]
			testcheck.NoError(t, json.Unmarshal([]byte(last[strings.Index(last, "{"):]), &got))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			for _, call := range s.calls[:len(s.calls)-1] {
				if strings.Contains(call, "secret") || strings.Contains(call, "FsGroup") {
					t.Errorf("call %s", call)
				}
			}
		})
	}
}

// TestGroupOfFiles checks when the files of a volume get the group of the pod.
func TestGroupOfFiles(t *testing.T) {
	t.Parallel()
	group := int64(42)
	readOnly := persistent("v")
	readOnly.ReadOnly = true
	for _, tt := range []struct {
		name, init string
		spec       *plugins.Spec
		group      *int64
		want       int
	}{
		{"of the pod", success, persistent("v"), &group, 42},
		{"none", success, persistent("v"), nil, 0},
		{"read-only", success, readOnly, &group, 0},
		{
			"the program does it", `{"status":"Success","capabilities":{"fsGroup":false}}`, persistent("v"), &group, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"init": tt.init})
			for range 2 { // the second time it is mounted already
				testcheck.NoError(t, s.do(func(ctx context.Context) error {
					return s.caps.Mounter.SetUp(ctx, tt.spec, newPod("a"), plugins.MountOptions{FSGroup: tt.group})
				}))
				if got := s.trees["v"].Owners()["."].GID; got != tt.want {
					t.Errorf("the volume is of group %d, want %d", got, tt.want)
				}
				if tt.want != 0 {
					testcheck.NoError(t, s.disk.Chown(mountPoint, -1, 0))
				}
			}
		})
	}
}

// TestGroupOfFilesAfterCrash has a kubelet crash between the mount and the change of the group.
func TestGroupOfFilesAfterCrash(t *testing.T) {
	t.Parallel()
	s := newScene(t, nil)
	group := int64(42)
	testcheck.NoError(t, s.disk.MkdirAll(mountPoint), s.box.mount(mountPoint, `{"kubernetes.io/pvOrVolumeName":"v"}`))
	testcheck.NoError(t, s.do(func(ctx context.Context) error {
		return s.caps.Mounter.SetUp(ctx, persistent("v"), newPod("a"), plugins.MountOptions{FSGroup: &group})
	}))
	if got := s.trees["v"].Owners()["."].GID; got != 42 {
		t.Errorf("the volume is of group %d, want 42", got)
	}
}

// TestExpand checks the arguments of expandfs, and what happens without it.
func TestExpand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, says string
		err        string
	}{
		{name: "success", says: success},
		{
			name: "not supported: the file system of the device grows, which does not exist", says: notSupported,
			err: `"/dev/v" below "/var/lib/kubelet": path is outside the node's root`,
		},
		{
			name: "failure", says: `{"status":"Failure","message":"full"}`,
			err: "expandfs command failed, status: Failure, reason: full",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"expandfs": tt.says})
			err := s.do(func(ctx context.Context) error {
				return s.caps.NodeExpander.NodeExpand(ctx, plugins.ExpandOptions{
					Spec: persistent("v"), Pod: "a", DevicePath: "/dev/v",
					NewSize: resource.MustParse("2Gi"), OldSize: resource.MustParse("1Gi"),
				})
			})
			if got := fmt.Sprint(err); err == nil && tt.err != "" || err != nil && got != tt.err {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			want := `expandfs {"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"v","kubernetes.io/readwrite":"rw","lun":"7"} ` +
				"/dev/v " + mountPoint + " 2147483648 1073741824"
			if got := s.calls[len(s.calls)-1]; got != want {
				t.Errorf("got call %s, want %s", got, want)
			}
		})
	}
	for _, says := range []string{success, `{"status":"Success","capabilities":{"requiresFSResize":false}}`} {
		s := newScene(t, map[string]string{"init": says})
		if got := s.caps.NodeExpander.RequiresFSResize(); got != (says == success) {
			t.Errorf("%s: RequiresFSResize is %t", says, got)
		}
	}
}

// TestVerify asks the program whether a volume is attached.
func TestVerify(t *testing.T) {
	t.Parallel()
	spec := persistent("v")
	for _, tt := range []struct {
		name, says string
		spec       *plugins.Spec
		want       plugins.AttachState
		seen       plugins.AttachState
		err        error
	}{
		{name: "attached", says: `{"status":"Success","attached":true}`, spec: spec, want: plugins.Attached, seen: plugins.Attached},
		{name: "not attached", says: `{"status":"Success","attached":false}`, spec: spec, want: plugins.Detached},
		{name: "not said", says: success, spec: spec, want: plugins.Detached},
		{name: "not supported", says: notSupported, spec: spec, seen: plugins.Attached, err: plugins.ErrUnsupported},
		{name: "only a name", says: success, seen: plugins.Attached, err: plugins.ErrUnsupported},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, map[string]string{"isattached": tt.says})
			var got plugins.AttachState
			err := s.do(func(ctx context.Context) (err error) {
				got, err = s.caps.Verifier.Verify(ctx, tt.spec, "v", node1)
				return err
			})
			if !errors.Is(err, tt.err) || err == nil && got != tt.want {
				t.Errorf("got %v, %v, want %v, %v", got, err, tt.want, tt.err)
			}
			if seen := s.caps.Verifier.LastSeen("v", node1); seen != tt.seen {
				t.Errorf("last seen %v, want %v", seen, tt.seen)
			}
			want := `isattached {"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"v","kubernetes.io/readwrite":"rw","lun":"7"} node-1`
			if last := s.calls[len(s.calls)-1]; tt.spec != nil && last != want {
				t.Errorf("call %s, want %s", last, want)
			}
			testcheck.NoError(t, s.do(func(ctx context.Context) error {
				_, err := s.caps.Attacher.Attach(ctx, spec, node1)
				return err
			}))
			if seen := s.caps.Verifier.LastSeen("v", node1); seen != plugins.Attached {
				t.Errorf("after it was attached again: last seen %v", seen)
			}
		})
	}
}
