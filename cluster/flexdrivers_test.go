package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// flexDriver is the name of the drivers of the tests.
const flexDriver = "example.com/disk"

// A flexStore has the volumes of a driver whose programs are functions.
type flexStore struct {
	mu       sync.Mutex
	trees    map[string]*nodefs.Tree // guarded by mu
	attached map[string]string       // guarded by mu: the node of a volume
	calls    []string                // guarded by mu: machine, call and volume or path
	says     map[string]string       // guarded by mu: what is printed instead, by call
	disks    []nodefs.FS             // of the machines with a program
	wrong    []string                // guarded by mu: calls that must not have been made
}

func newFlexStore() *flexStore {
	return &flexStore{trees: map[string]*nodefs.Tree{}, attached: map[string]string{}, says: map[string]string{}}
}

// program returns the driver's program on a machine.
func (s *flexStore) program(machine string, disk nodefs.FS) func(context.Context, ...string) ([]byte, error) {
	return func(_ context.Context, args ...string) ([]byte, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.calls = append(s.calls, strings.Join(append([]string{machine}, args[:min(2, len(args))]...), " "))
		if says, ok := s.says[args[0]]; ok {
			return []byte(says), nil
		}
		answer, err := s.do(disk.(*nodefs.Memory), args)
		if err != nil {
			return fmt.Appendf(nil, `{"status": "Failure", "message": %q}`, err.Error()), errors.New("exit status 1")
		}
		return []byte(answer), nil
	}
}

func (s *flexStore) isDetached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.attached) == 0
}

const flexSuccess = `{"status": "Success"}`

func (s *flexStore) do(disk *nodefs.Memory, args []string) (string, error) {
	switch call := args[0]; call {
	case "attach":
		name := flexOption(args[1], "kubernetes.io/pvOrVolumeName")
		if on, ok := s.attached[name]; ok && on != args[2] {
			return "", fmt.Errorf("attached to %s", on)
		}
		s.attached[name] = args[2]
		return fmt.Sprintf(`{"status": "Success", "device": "/dev/%s"}`, name), nil
	case "detach":
		for _, each := range s.disks {
			mounts, err := each.Mounts()
			if err != nil {
				return "", err
			}
			for _, m := range mounts {
				if m.Source == "/dev/"+args[1] {
					s.wrong = append(s.wrong, fmt.Sprintf("detach %s while it is mounted at %s", args[1], m.Path))
				}
			}
		}
		delete(s.attached, args[1])
		return flexSuccess, nil
	case "isattached":
		name := flexOption(args[1], "kubernetes.io/pvOrVolumeName")
		return fmt.Sprintf(`{"status": "Success", "attached": %t}`, s.attached[name] == args[2]), nil
	case "waitforattach":
		return fmt.Sprintf(`{"status": "Success", "device": %q}`, args[1]), nil
	case "mountdevice":
		name := flexOption(args[3], "kubernetes.io/pvOrVolumeName")
		if _, ok := s.attached[name]; !ok {
			s.wrong = append(s.wrong, fmt.Sprintf("mountdevice %s while it is not attached", name))
		}
		if s.trees[name] == nil {
			s.trees[name] = nodefs.NewTree()
		}
		return flexSuccess, disk.MountTree(s.trees[name], args[2], args[1], false)
	case "unmountdevice":
		return flexSuccess, disk.Unmount(args[1])
	case "init", "expandfs", "expandvolume":
		return flexSuccess, nil
	default:
		return `{"status": "Not supported"}`, nil
	}
}

func flexOption(options, key string) string {
	var all map[string]string
	if err := json.Unmarshal([]byte(options), &all); err != nil {
		panic(err)
	}
	return all[key]
}

// install installs the driver on all machines of a cluster.
func (s *flexStore) install(t *testing.T, c *cluster.Cluster, machines ...string) {
	t.Helper()
	for _, machine := range machines {
		m, err := c.Machine(machine)
		testcheck.NoError(t, err)
		s.disks = append(s.disks, m.FS)
		testcheck.NoError(t, c.InstallFlexDriver(machine, flexDriver, s.program(machine, m.FS)))
	}
}

// flexPod is a pod with an inline volume of the driver.
const flexPod = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {fsGroup: 2000}
  volumes: [{name: data, flexVolume: {driver: example.com/disk, fsType: ext4, options: {lun: "7"}}}]
  containers:
  - name: main
    image: image
    volumeMounts: [{mountPath: /data, name: data}]
`

// writeAndDelete writes to the volume of the running pod, deletes the pod and waits for rest.
func writeAndDelete(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx := t.Context()
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.WriteFile("default", "web", "data", "file", []byte("kept")),
		c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}),
		c.WaitForGone(ctx, "pods", "default", "web"), c.WaitForRest(ctx))
}

func TestFlexVolume(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
		{"kubelets attach", cluster.Config{Stepped: &sim.SteppedConfig{}, KubeletsAttach: true}},
	} {
		t.Run(world.name, func(t *testing.T) {
			world.cfg.Nodes = 1
			c, store := start(t, world.cfg), newFlexStore()
			testcheck.NoError(t, c.Apply(t.Context(), flexPod),
				c.Wait(t.Context(), "the event", hasEvent(c, "no volume plugin matched")))
			machines := []string{"node-1"}
			if !world.cfg.KubeletsAttach {
				machines = append(machines, "")
			}
			store.install(t, c, machines...)
			writeAndDelete(t, c)
			testcheck.NoError(t, c.Wait(t.Context(), "the detach", store.isDetached))
			if files := store.trees["data"].Files(); !slices.Equal(files, []string{"file"}) {
				t.Errorf("files %v", files)
			}
			if group := store.trees["data"].Owners()["."].GID; group != 2000 {
				t.Errorf("the volume is of group %d, want 2000", group)
			}
			testcheck.NoError(t, c.InstallFlexDriver("node-1", flexDriver, nil), c.Apply(t.Context(), flexPod),
				c.Wait(t.Context(), "the event", hasEvent(c, "no volume plugin matched")))
		})
	}
}

// hasEvent returns a condition: there is an event whose message contains a text.
func hasEvent(c *cluster.Cluster, text string) func() bool {
	return func() bool {
		return slices.ContainsFunc(c.Server().List("events"), func(o fake.Object) bool {
			return strings.Contains(o.(*corev1.Event).Message, text)
		})
	}
}

// flexClaim is a PersistentVolume of the driver with its claim.
const flexClaim = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: manual
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  flexVolume: {driver: example.com/disk, fsType: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`

// flexUser is a pod that uses the claim: all of it and, by a subPath, a part.
const flexUser = `
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {fsGroup: 2000}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data, readOnly: %t}}]
  containers:
  - name: main
    image: image
    volumeMounts: [{mountPath: /data, name: data}, {mountPath: /part, name: data, subPath: part}]
`

// twoFlexPods is a pod that writes into its volume, followed by one that reads from it.
func twoFlexPods(ctx context.Context, c *cluster.Cluster) error {
	if err := c.Apply(ctx, flexClaim); err != nil {
		return err
	}
	for _, readOnly := range []bool{false, true} {
		if err := c.Apply(ctx, fmt.Sprintf(flexUser, readOnly)); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		if !readOnly {
			if err := c.WriteFile("default", "web", "data", "part/file", []byte("kept")); err != nil {
				return err
			}
		} else if path, err := c.ContainerPath("default", "web", "main", "/part"); err != nil {
			return err
		} else if m, err := c.Machine("node-1"); err != nil {
			return err
		} else if data, err := m.FS.ReadFile(path + "/file"); err != nil || string(data) != "kept" {
			return fmt.Errorf("the second pod reads %q: %w", data, err)
		} else if err := m.FS.WriteFile(path+"/file", nil); !errors.Is(err, nodefs.ErrReadOnly) {
			return fmt.Errorf("the second pod writes: %w", err)
		}
		if err := c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			return err
		}
		if err := c.WaitForGone(ctx, "pods", "default", "web"); err != nil {
			return err
		}
	}
	return nil
}

// runFlexPods runs twoFlexPods in a stepped world of one node, and checks that nothing is left.
func runFlexPods(t *testing.T, k *killer, kubeletAttaches bool) {
	t.Helper()
	c, err := cluster.New(cluster.Config{
		Nodes: 1, PreRegistered: true, KubeletsAttach: kubeletAttaches, Stepped: &sim.SteppedConfig{},
	})
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	testcheck.NoError(t, c.Start(t.Context()))
	store := newFlexStore()
	store.install(t, c, "node-1", "")
	k.ReplayStrategy = sim.NewReplayStrategy(nil)
	k.meant = func(task, _ string) bool { return !strings.HasPrefix(task, "plugin array") }
	c.Host().(*sim.Stepped).SetStrategy(k)
	c.User("user", func(ctx context.Context) error { return twoFlexPods(ctx, c) })
	testcheck.NoError(t, c.Run(t.Context()))
	if len(store.wrong) > 0 || !store.isDetached() {
		t.Errorf("wrong calls: %q; attached: %v", store.wrong, store.attached)
	}
	m, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	mounts, err := m.FS.Mounts()
	testcheck.NoError(t, err)
	pods, err := m.FS.ReadDir(m.Path("/pods"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	devices, err := m.FS.ReadDir(m.Path("/plugins/kubernetes.io/flexvolume/example.com/disk/mounts"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if len(mounts)+len(pods)+len(devices) > 0 {
		t.Errorf("left: mounts %v, pods %v, device mounts %v", mounts, pods, devices)
	}
}

// TestKubeletCrashesWithFlexVolumes crashes the kubelet, or reboots its machine, at each of its
// calls: while drivers are found, while a volume is mounted, in use and unmounted.
func TestKubeletCrashesWithFlexVolumes(t *testing.T) {
	testcheck.Stepped(t)
	for _, kubeletAttaches := range []bool{false, true} {
		ordinary := &killer{}
		runFlexPods(t, ordinary, kubeletAttaches)
		for _, event := range []string{"crash kubelet(node-1)", "reboot node-1"} {
			for i, call := range ordinary.calls {
				t.Run(fmt.Sprintf("kubelet attaches %t/%s/%d %s", kubeletAttaches, event, i+1, call), func(t *testing.T) {
					k := &killer{n: i + 1, event: event}
					runFlexPods(t, k, kubeletAttaches)
					if k.seen < k.n {
						t.Errorf("there were %d calls, want at least %d", k.seen, k.n)
					}
				})
			}
		}
	}
}

// hangs makes calls of the driver hang as long as it is set.
type hangs struct{ verbs []string }

func (h *hangs) Decide(d *sim.Decision) sim.Move {
	action, calls := d.Task(0).Pending()
	if calls && action.Kind == trace.KindDriver && slices.Contains(h.verbs, action.Verb) {
		return sim.Move{Fault: sim.Fault{Kind: sim.FaultHang}}
	}
	return sim.Move{}
}

// TestHungDriverAfterRestart restarts the kubelet, or reboots its machine, and the driver hangs.
// Nothing happens to its volume meanwhile, although its pod is deleted; the volumes of another pod
// are mounted. When the driver answers, the volume is unmounted and detached.
func TestHungDriverAfterRestart(t *testing.T) {
	for _, reboot := range []bool{false, true} {
		t.Run(fmt.Sprintf("reboot %t", reboot), func(t *testing.T) {
			ctx := t.Context()
			c := start(t, cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
			store, h := newFlexStore(), &hangs{}
			store.install(t, c, "node-1", "")
			c.Host().(*sim.Stepped).SetStrategy(h)
			testcheck.NoError(t, c.Apply(ctx, flexClaim+"---"+fmt.Sprintf(flexUser, false)),
				c.WaitForPod(ctx, "default", "web", corev1.PodRunning), c.Run(ctx))

			h.verbs = []string{"init"}
			if reboot {
				testcheck.NoError(t, c.Reboot("node-1"))
			} else {
				testcheck.NoError(t, c.Crash("kubelet(node-1)"))
			}
			core := c.Client().CoreV1()
			testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			must(t)(core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("other", "1Gi"), metav1.CreateOptions{}))
			must(t)(core.Pods("default").Create(ctx, cluster.NewPod("other", "other"), metav1.CreateOptions{}))
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "other", corev1.PodRunning),
				c.Wait(ctx, "10 minutes", after(c, 10*time.Minute)))
			node, err := core.Nodes().Get(ctx, "node-1", metav1.GetOptions{})
			testcheck.NoError(t, err)
			if !slices.Contains(node.Status.VolumesInUse, "example.com/disk/disk") || store.isDetached() {
				t.Errorf("in use: %v, detached: %t; want the volume kept", node.Status.VolumesInUse, store.isDetached())
			}
			if _, err := core.Pods("default").Get(ctx, "web", metav1.GetOptions{}); err != nil {
				t.Errorf("the pod with the volume: %v", err)
			}
			h.verbs = nil
			testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"),
				c.Wait(ctx, "the detach", store.isDetached))
			if len(store.wrong) > 0 {
				t.Errorf("wrong calls: %q", store.wrong)
			}
		})
	}
}

// after returns a condition: a time has passed.
func after(c *cluster.Cluster, d time.Duration) func() bool {
	end := c.Host().Now().Add(d)
	return func() bool { return !c.Host().Now().Before(end) }
}

// TestDriverIsReplacedWhileItsVolumeIsUsed removes the driver while a pod uses its volume. The pod
// cannot be stopped until there is a driver again.
func TestDriverIsReplacedWhileItsVolumeIsUsed(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
	store := newFlexStore()
	store.install(t, c, "node-1", "")
	testcheck.NoError(t, c.Apply(ctx, flexClaim+"---"+fmt.Sprintf(flexUser, false)),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.InstallFlexDriver("node-1", flexDriver, nil), c.InstallFlexDriver("", flexDriver, nil),
		c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}),
		c.Wait(ctx, "a minute", after(c, time.Minute)))
	if _, err := c.Client().CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{}); err != nil || store.isDetached() {
		t.Errorf("the pod: %v; detached: %t; want neither gone", err, store.isDetached())
	}
	store.says["unmountdevice"] = `{"status": "Not supported"}`
	store.install(t, c, "node-1", "")
	testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"), c.Wait(ctx, "the detach", store.isDetached))
	if len(store.wrong) > 0 {
		t.Errorf("wrong calls: %q", store.wrong)
	}
}

// TestLyingDriver has a program answer wrongly. The pod gets an event that says so, and runs when the
// program answers correctly. The volume of another pod is not affected.
func TestLyingDriver(t *testing.T) {
	const (
		attachFailed = `AttachVolume.Attach failed for volume "data" : `
		deviceFailed = `MountVolume.MountDevice failed for volume "data" : `
		mountFailed  = `MountVolume.SetUp failed for volume "data" : `
		failure      = `{"status": "Failure", "message": "no lun"}`
	)
	for _, tt := range []struct{ call, says, event string }{
		{"init", "", "no volume plugin matched"},
		{"init", failure, "no volume plugin matched"},
		{"getvolumename", failure, attachFailed + "getvolumename command failed, status: Failure, reason: no lun"},
		{"attach", failure, attachFailed + "attach command failed, status: Failure, reason: no lun"},
		{"attach", "oops", attachFailed + `attach: no answer: invalid character 'o' looking for beginning of value; output: "oops"`},
		{"waitforattach", failure, deviceFailed + "waitforattach command failed, status: Failure, reason: no lun"},
		{"mountdevice", failure, deviceFailed + "mountdevice command failed, status: Failure, reason: no lun"},
		{"mountdevice", `{"status": "Not supported"}`, deviceFailed + `"/dev/data" below "/node-1": path is outside the node's root`},
		{"mountdevice", flexSuccess, mountFailed + "mountdevice had no effect: nothing is mounted at "},
		{"mount", failure, mountFailed + "mount command failed, status: Failure, reason: no lun"},
		{"mount", flexSuccess, mountFailed + "mount had no effect: nothing is mounted at "},
		{"mount", strings.Repeat("x", 2<<20), mountFailed + "mount: no answer: exec "},
	} {
		t.Run(tt.call+" "+tt.says[:min(len(tt.says), 20)], func(t *testing.T) {
			ctx := t.Context()
			c := start(t, cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
			store := newFlexStore()
			store.says[tt.call] = tt.says
			store.install(t, c, "node-1", "")
			core := c.Client().CoreV1()
			testcheck.NoError(t, c.Apply(ctx, flexPod))
			must(t)(core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("other", "1Gi"), metav1.CreateOptions{}))
			must(t)(core.Pods("default").Create(ctx, cluster.NewPod("other", "other"), metav1.CreateOptions{}))
			testcheck.NoError(t, c.Wait(ctx, "the event", hasEvent(c, tt.event)),
				c.WaitForPod(ctx, "default", "other", corev1.PodRunning))
			delete(store.says, tt.call)
			if strings.Contains(tt.says, "Not supported") {
				store.install(t, c, "node-1") // it is asked again only after an upgrade
			}
			if tt.call == "mountdevice" && tt.says == flexSuccess { // only a pod's end undoes it
				testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}),
					c.WaitForGone(ctx, "pods", "default", "web"), c.Apply(ctx, flexPod))
			}
			writeAndDelete(t, c)
			testcheck.NoError(t, c.Wait(ctx, "the detach", store.isDetached))
		})
	}
}

// TestFlexVolumeIsExpanded has a claim request more. The expand controller leaves the volume to the
// kubelet, which makes the driver expand the file system.
func TestFlexVolumeIsExpanded(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
	store := newFlexStore()
	store.install(t, c, "node-1", "")
	testcheck.NoError(t, c.Apply(ctx, flexClass+flexClaim+"---"+fmt.Sprintf(flexUser, false)),
		c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
		c.Apply(ctx, strings.ReplaceAll(flexClaim[strings.Index(flexClaim, "---"):], "storage: 1Gi", "storage: 2Gi")))
	size := resource.MustParse("2Gi")
	testcheck.NoError(t, c.Wait(ctx, "the expansion", func() bool {
		claim, _ := c.Server().Get("persistentvolumeclaims", "default", "data")
		volume, _ := c.Server().Get("persistentvolumes", "", "disk")
		capacity := claim.(*corev1.PersistentVolumeClaim).Status.Capacity[corev1.ResourceStorage]
		return capacity.Cmp(size) == 0 && len(volume.GetAnnotations()["volume.alpha.kubernetes.io/pre-resize-capacity"]) == 0
	}))
	if !slices.ContainsFunc(store.calls, func(call string) bool { return strings.HasPrefix(call, "node-1 expandfs ") }) {
		t.Errorf("calls %q, want expandfs", store.calls)
	}
}

// flexClass is the class of flexClaim, which allows expansion.
const flexClass = `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: manual}
provisioner: kubernetes.io/no-provisioner
allowVolumeExpansion: true
---
`

// TestLostAttachmentIsFound detaches a volume behind the controller's back. The controller asks the
// driver after a minute, and attaches it again.
func TestLostAttachmentIsFound(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{}})
	store := newFlexStore()
	store.install(t, c, "node-1", "")
	testcheck.NoError(t, c.Apply(ctx, flexPod), c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	delete(store.attached, "data")
	testcheck.NoError(t, c.Wait(ctx, "the attachment", func() bool { return !store.isDetached() }))
	if !slices.ContainsFunc(store.calls, func(call string) bool { return strings.HasPrefix(call, " isattached ") }) {
		t.Errorf("calls %q, want isattached", store.calls)
	}
}
