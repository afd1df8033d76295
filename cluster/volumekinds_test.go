package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// A kindCase is a kind of volume that pods use: one row of the tests of all kinds.
type kindCase struct {
	name      string
	source    corev1.VolumeSource                                 // of the pod's volume, which is named data
	objects   string                                              // manifests that are applied before the pod
	exported  bool                                                // prepare and kept mean the exports of NFS servers
	prepare   func(disk hostpath.Machine) error                   // what must be on the node's disk; nil: nothing
	reads     map[string]string                                   // files that the pod finds
	change    func(ctx context.Context, c *cluster.Cluster) error // of the objects; nil: they have no content
	changed   map[string]string                                   // files that the pod finds after the change
	writable  bool                                                // the pod can write into the volume
	memory    bool                                                // a reboot removes what the pod wrote
	kept      string                                              // directory of the node that keeps what the pod wrote; "": nothing does
	ungrouped bool                                                // files do not get the fsGroup of the pod
}

const (
	configObject = `
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {color: blue, shape: round}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {key: s3cret}
`
	claimObject = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 64Mi}}
`
	directoryObjects = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: manual
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  %s
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
`
)

var dataClaim = corev1.VolumeSource{
	PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
}

// patches returns a change of an object by a merge patch.
func patches(resource, patch string) func(ctx context.Context, c *cluster.Cluster) error {
	return func(ctx context.Context, c *cluster.Cluster) (err error) {
		core, data := c.Client().CoreV1(), []byte(patch)
		switch resource {
		case "configmaps":
			_, err = core.ConfigMaps("default").Patch(ctx, "config", types.MergePatchType, data, metav1.PatchOptions{})
		case "secrets":
			_, err = core.Secrets("default").Patch(ctx, "keys", types.MergePatchType, data, metav1.PatchOptions{})
		case "pods":
			_, err = core.Pods("default").Patch(ctx, "web", types.MergePatchType, data, metav1.PatchOptions{})
		}
		return err
	}
}

// volumeKinds returns all kinds. A kind that is added here is tested by all tests of this file.
func volumeKinds() []kindCase {
	newColor := patches("configmaps", `{"data":{"color":"red","shape":null,"size":"3"}}`)
	labels := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}
	return []kindCase{
		{
			name: "csi", source: dataClaim, objects: claimObject, writable: true,
		},
		{
			name: "ephemeral", writable: true,
			source: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
				VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: cluster.NewClaim("", "64Mi").Spec},
			}},
		},
		{
			name: "emptyDir", writable: true,
			source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		},
		{
			name: "emptyDir in memory", writable: true, memory: true,
			source: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		},
		{
			name: "hostPath", writable: true, ungrouped: true, kept: "/srv/web",
			source: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{
				Path: "/srv/web", Type: ptr.To(corev1.HostPathDirectoryOrCreate),
			}},
		},
		{
			name: "hostPath PersistentVolume", source: dataClaim, writable: true, ungrouped: true, kept: "/mnt/data",
			objects: fmt.Sprintf(directoryObjects, "hostPath: {path: /mnt/data}"),
			prepare: hasFile("/mnt/data/index.html"), reads: map[string]string{"index.html": "hello"},
		},
		{
			name: "local directory", source: dataClaim, writable: true, kept: "/mnt/disks/a",
			objects: fmt.Sprintf(directoryObjects, `local: {path: /mnt/disks/a}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-1]}]`),
			prepare: hasFile("/mnt/disks/a/index.html"), reads: map[string]string{"index.html": "hello"},
		},
		{
			name: "nfs", writable: true, exported: true, kept: "/files/shared", ungrouped: true,
			source:  corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/shared"}},
			prepare: hasFile("/files/shared/index.html"), reads: map[string]string{"index.html": "hello"},
		},
		{
			name: "nfs PersistentVolume", source: dataClaim, writable: true, exported: true, kept: "/files/shared", ungrouped: true,
			objects: fmt.Sprintf(directoryObjects, "nfs: {server: files, path: /shared}"),
			prepare: hasFile("/files/shared/index.html"), reads: map[string]string{"index.html": "hello"},
		},
		{
			name: "configMap", objects: configObject,
			source: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "config"},
			}},
			reads:  map[string]string{"color": "blue", "shape": "round"},
			change: newColor, changed: map[string]string{"color": "red", "size": "3"},
		},
		{
			name: "secret", objects: configObject,
			source: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "keys"}},
			reads:  map[string]string{"key": "s3cret"},
			change: patches("secrets", `{"data":{"key":"bmV3"}}`), changed: map[string]string{"key": "new"},
		},
		{
			name: "downwardAPI",
			source: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: labels}},
			}},
			reads:  map[string]string{"labels": `app="web"`},
			change: patches("pods", `{"metadata":{"labels":{"app":"new"}}}`), changed: map[string]string{"labels": `app="new"`},
		},
		{
			name: "projected", objects: configObject,
			source: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{
					Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: labels}},
				}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}},
			}}},
			reads:  map[string]string{"color": "blue", "shape": "round", "key": "s3cret", "labels": `app="web"`},
			change: newColor, changed: map[string]string{"color": "red", "size": "3", "key": "s3cret"},
		},
	}
}

// hasFile returns a function that creates a file with content "hello" on a node.
func hasFile(name string) func(node hostpath.Machine) error {
	return func(node hostpath.Machine) error {
		return errors.Join(node.FS.MkdirAll(node.Path(path.Dir(name))), node.FS.WriteFile(node.Path(name), []byte("hello")))
	}
}

// pod returns a pod whose container mounts the volume at /data.
func (k kindCase) pod() *corev1.Pod {
	pod := cluster.NewPod("web")
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: k.source}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	return pod
}

// A kindRun is the life of a pod with a volume of a kind.
type kindRun struct {
	kindCase
	pod  *corev1.Pod
	c    *cluster.Cluster
	node hostpath.Machine
}

// lives creates the pod, reads and writes its volume, changes what the volume is made of, and
// deletes all.
func (r *kindRun) lives(ctx context.Context, rebooted func() bool) error {
	if err := r.create(ctx); err != nil {
		return err
	}
	if err := r.c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		return err
	}
	if err := r.finds(ctx, "the first content", r.reads); err != nil {
		return err
	}
	if err := r.checkGroup(); err != nil {
		return err
	}
	note := map[string]string{"note": "kept"}
	if r.writable {
		err := r.c.Wait(ctx, "to write into the volume", func() bool {
			return r.c.WriteFile("default", "web", "data", "note", []byte("kept")) == nil
		})
		if err != nil {
			return err
		}
		was := rebooted()
		if err := r.finds(ctx, "what the pod wrote", note); err != nil && !(r.memory && rebooted() != was) {
			return err
		}
	}
	if r.change != nil {
		if err := r.change(ctx, r.c); err != nil {
			return err
		}
		if err := r.finds(ctx, "the new content", r.changed); err != nil {
			return err
		}
	}
	if err := r.c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return r.c.WaitForGone(ctx, "pods", "default", "web")
}

// disk returns where what is written to the volume is kept.
func (r *kindRun) disk() hostpath.Machine {
	if r.exported {
		return r.c.NFSExports()
	}
	return r.node
}

// create creates the pod and what it needs.
func (r *kindRun) create(ctx context.Context) error {
	if r.prepare != nil {
		if err := r.prepare(r.disk()); err != nil {
			return err
		}
	}
	if r.objects != "" {
		if err := r.c.Apply(ctx, r.objects); err != nil {
			return err
		}
	}
	_, err := r.c.Client().CoreV1().Pods("default").Create(ctx, r.pod, metav1.CreateOptions{})
	return err
}

// livesBriefly creates the pod, and deletes it when something has happened.
func (r *kindRun) livesBriefly(ctx context.Context, happened func() bool) error {
	if err := r.create(ctx); err != nil {
		return err
	}
	if err := r.c.Wait(ctx, "the fault", happened); err != nil {
		return err
	}
	r.writable = false // it has written nothing
	if err := r.c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return r.c.WaitForGone(ctx, "pods", "default", "web")
}

// checkGroup returns an error if the volume, or what the pod finds there, has not the fsGroup of the
// pod, or has it although the kind gives it to no volume.
func (r *kindRun) checkGroup() error {
	if r.pod.Spec.SecurityContext == nil {
		return nil
	}
	want := 0
	if !r.ungrouped {
		want = int(*r.pod.Spec.SecurityContext.FSGroup)
	}
	at, err := r.c.MountPath("default", "web", "data")
	if err != nil {
		return nil //nolint:nilerr // the node was booted
	}
	names := []string{at}
	for name := range r.reads { // independent of the order
		if target, err := r.node.FS.Readlink(path.Join(at, name)); err == nil {
			data, err := r.node.FS.Readlink(path.Join(at, "..data"))
			if err != nil {
				return err
			}
			name = strings.Replace(target, "..data", data, 1)
		}
		names = append(names, path.Join(at, name))
	}
	slices.Sort(names)
	for _, name := range names {
		if info, err := r.node.FS.Stat(name); err != nil || info.GID != want {
			return fmt.Errorf("%s has group %d, want %d: %w", name, info.GID, want, err)
		}
	}
	return nil
}

// finds waits until the pod finds files in the volume.
func (r *kindRun) finds(ctx context.Context, what string, want map[string]string) error {
	return r.c.Wait(ctx, what, func() bool {
		for name, content := range want {
			if got, err := r.c.ReadFile("default", "web", "data", name); err != nil || string(got) != content {
				return false
			}
		}
		return true
	})
}

// left returns what is on the node's disk for pods.
func (r *kindRun) left() (left []string) {
	mounts, err := r.node.FS.Mounts()
	for _, m := range mounts {
		if strings.Contains(m.Path, "/pods/") {
			left = append(left, "mount "+m.Path)
		}
	}
	names, dirErr := r.node.FS.ReadDir(path.Join(r.node.Root, "pods"))
	if err != nil {
		left = append(left, err.Error())
	}
	if dirErr == nil {
		left = append(left, names...)
	}
	if r.kept == "" || !r.writable {
		return left
	}
	if got, err := r.disk().FS.ReadFile(r.disk().Path(path.Join(r.kept, "note"))); err != nil || string(got) != "kept" {
		left = append(left, fmt.Sprintf("%q instead of what the pod wrote, %v", got, err))
	}
	return left
}

// An injector follows the default order, and injects an event or a fault when a task of the kubelet
// is suspended at a call for the n-th time since a pod was created.
type injector struct {
	*sim.ReplayStrategy
	n     int // from 1; 0: never
	event string
	fault sim.Fault
	begun func() bool
	seen  []string // the calls
	done  bool
}

func (s *injector) Decide(d *sim.Decision) sim.Move {
	move := s.ReplayStrategy.Decide(d)
	t := d.Task(move.Option)
	action, calls := t.Pending()
	task, kubelet := strings.CutPrefix(t.Name(), "kubelet(node-1)/")
	if !calls || !kubelet || !s.begun() || strings.HasPrefix(task, "node") {
		return move
	}
	s.seen = append(s.seen, task+": "+action.Verb)
	if len(s.seen) != s.n {
		return move
	}
	s.done = true
	if s.event == "" {
		move.Fault = s.fault
		return move
	}
	return sim.Move{Event: s.event}
}

// runKind runs the life of a pod, with an event or a fault, under all rules. At a fault the pod is
// deleted.
func runKind(t *testing.T, kind kindCase, pod *corev1.Pod, s *injector, devices ...cluster.Devices) {
	t.Helper()
	cfg := cluster.Config{Nodes: 1, PreRegistered: true, Stepped: &sim.SteppedConfig{StepsMax: 20_000}}
	if len(devices) > 0 {
		cfg.Devices = devices[0]
	}
	c, err := cluster.New(cfg)
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	testcheck.NoError(t, c.Start(t.Context()))
	check := invariant.Watch(invariant.World{
		API: c.Server(), Log: c.Trace(), Now: c.Host().Now, Devices: c.DeviceState(),
	}, invariant.Rules()...)
	node, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	run := &kindRun{kindCase: kind, pod: pod, c: c, node: node}
	s.ReplayStrategy = sim.NewReplayStrategy(nil)
	s.begun = func() bool { return len(c.Server().List("pods")) > 0 }
	c.User("user", func(ctx context.Context) error {
		if s.fault.Kind != "" {
			return run.livesBriefly(ctx, func() bool { return s.done })
		}
		return run.lives(ctx, func() bool { return s.done && strings.HasPrefix(s.event, "reboot") })
	})
	c.Host().(*sim.Stepped).SetStrategy(s)
	failed := c.Run(t.Context())
	if left := run.left(); failed != nil || len(left) > 0 {
		text := c.Trace().Text()
		t.Errorf("%v\nleft: %v\n%s", failed, left, text[max(0, len(text)-3000):])
	}
	if pending := check.CheckAtRest(); len(pending) > 0 {
		t.Errorf("pending: %v", pending)
	}
	for _, v := range check.Violations() {
		t.Error(v)
	}
}

// TestKubeletCrashesWithEachKind has a pod with a volume of each kind, and injects a crash of its
// kubelet, one with an old list of pods, or a reboot, at each call that the kubelet makes from the
// creation of the pod to its end. The pod always runs with the right content, and leaves nothing.
func TestKubeletCrashesWithEachKind(t *testing.T) {
	testcheck.Stepped(t)
	events := []string{"crash kubelet(node-1)", "crash kubelet(node-1) with pods 1 behind", "reboot node-1"}
	for _, kind := range volumeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for _, variant := range podVariants(kind) {
				t.Run(variant.name, func(t *testing.T) {
					quiet := &injector{}
					runKind(t, kind, variant.pod(), quiet)
					for _, event := range events {
						for n := range quiet.seen {
							t.Run(fmt.Sprintf("%s at %d %s", event, n+1, quiet.seen[n]), func(t *testing.T) {
								s := &injector{n: n + 1, event: event}
								runKind(t, kind, variant.pod(), s)
								if !s.done {
									t.Error("the event was not injected")
								}
							})
						}
					}
				})
			}
		})
	}
}

// kindsOnDevices are the kinds that are also tested on devices of this machine.
var kindsOnDevices = []string{"emptyDir in memory", "local directory", "configMap", "hostPath"}

// TestKubeletCrashesWithKindsOnRealDevices is TestKubeletCrashesWithEachKind with real mounts, for a
// few kinds and each third call.
func TestKubeletCrashesWithKindsOnRealDevices(t *testing.T) {
	testcheck.Stepped(t)
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	for _, kind := range volumeKinds() {
		if !slices.Contains(kindsOnDevices, kind.name) {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			pod := podVariants(kind)[1].pod
			quiet := &injector{}
			runKind(t, kind, pod(), quiet, cluster.Loop)
			for n, call := range quiet.seen {
				event := []string{"crash kubelet(node-1)", "reboot node-1"}[n%2]
				if n%3 != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s at %d %s", event, n+1, call), func(t *testing.T) {
					runKind(t, kind, pod(), &injector{n: n + 1, event: event}, cluster.Loop)
				})
			}
		})
	}
}

// TestFailedCallsLeaveNothing has a call of the kubelet fail, without effect or after it, and the
// pod deleted at that moment. In the end nothing of the volume is left.
func TestFailedCallsLeaveNothing(t *testing.T) {
	testcheck.Stepped(t)
	faults := []string{"driver Unavailable", "driver Internal", "driver-lost DeadlineExceeded", "driver-lost Internal"}
	for _, kind := range volumeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			pod := podVariants(kind)[1].pod
			quiet := &injector{}
			runKind(t, kind, pod(), quiet)
			running := slices.Index(quiet.seen, "pods: patch/status")
			for n, call := range quiet.seen[:running] {
				if !strings.Contains(call, "volume_mount") && !strings.Contains(call, "containers of") ||
					strings.HasSuffix(call, ": get") || strings.HasSuffix(call, ": create") {
					continue
				}
				for _, fault := range faults {
					t.Run(fmt.Sprintf("%s at %d %s", fault, n+1, call), func(t *testing.T) {
						s := &injector{n: n + 1}
						var err error
						s.fault, err = sim.ParseFault(fault)
						testcheck.NoError(t, err)
						runKind(t, kind, pod(), s)
					})
				}
			}
		})
	}
}

// TestMemoryIsLostAtAReboot has a rebooted node whose kubelet does not run: a volume in memory is not
// mounted, although its directory exists.
func TestMemoryIsLostAtAReboot(t *testing.T) {
	for _, kind := range volumeKinds() {
		inMemory := kind.memory || kind.name == "secret" || kind.name == "projected"
		if !inMemory && kind.name != "emptyDir" {
			continue
		}
		t.Run(kind.name, func(t *testing.T) {
			c := start(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
			testcheck.NoError(t, c.Apply(t.Context(), configObject))
			must(t)(c.Client().CoreV1().Pods("default").Create(t.Context(), kind.pod(), metav1.CreateOptions{}))
			testcheck.NoError(t, c.WaitForPod(t.Context(), "default", "web", corev1.PodRunning), c.Reboot("node-1"),
				c.Stop("kubelet(node-1)"))
			_, err := c.MountPath("default", "web", "data")
			if errors.Is(err, cluster.ErrNotMounted) != inMemory {
				t.Errorf("after the reboot: %v", err)
			}
		})
	}
}

// A podVariant is a way to use a volume.
type podVariant struct {
	name string
	pod  func() *corev1.Pod
}

// podVariants returns the ways to use a volume of a kind: alone, and with a subPath and a group.
func podVariants(kind kindCase) []podVariant {
	return []podVariant{
		{"whole", kind.pod},
		{"subPath and fsGroup", func() *corev1.Pod {
			pod := kind.pod()
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](2000)}
			main := &pod.Spec.Containers[0]
			main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{
				Name: "data", MountPath: "/part", SubPath: kind.part(),
			})
			return pod
		}},
	}
}

// part returns the subPath that a container mounts: a file, or a directory that is created.
func (k kindCase) part() string {
	if k.writable {
		return "part"
	}
	return slices.Min(slices.Collect(maps.Keys(k.reads)))
}

// readOnlyPod returns a pod that asks for the volume of a kind to be read-only; nil if the volume
// itself cannot be, but only its mounts in containers.
func (k kindCase) readOnlyPod() *corev1.Pod {
	pod := k.pod()
	source := k.source.DeepCopy()
	switch {
	case source.NFS != nil:
		source.NFS.ReadOnly = true
	case source.PersistentVolumeClaim != nil && !strings.HasPrefix(k.name, "hostPath"): // its directory is not mounted
		source.PersistentVolumeClaim.ReadOnly = true
	default:
		return nil
	}
	pod.Spec.Volumes[0].VolumeSource = *source
	return pod
}

// TestWaysToUseEachKind has a container mount the whole volume, a subPath and a subPathExpr of it, in
// a pod with an fsGroup; and, if there is a read-only volume of the kind, a pod that cannot write.
// On real devices it does so for a few kinds.
func TestWaysToUseEachKind(t *testing.T) {
	worlds := map[string]cluster.Config{
		"memory":       {Stepped: &sim.SteppedConfig{}},
		"loop devices": {Stepped: &sim.SteppedConfig{}, Devices: cluster.Loop},
	}
	for name, cfg := range worlds {
		cfg.Nodes, cfg.PreRegistered = 1, true
		t.Run(name, func(t *testing.T) {
			if err := loop.Probe(); cfg.Devices == cluster.Loop && err != nil {
				t.Skipf("loop devices: %v", err)
			}
			for _, kind := range volumeKinds() {
				if cfg.Devices == cluster.Loop && !slices.Contains(kindsOnDevices, kind.name) {
					continue
				}
				t.Run(kind.name, func(t *testing.T) { useKind(t, cfg, kind) })
			}
		})
	}
}

func useKind(t *testing.T, cfg cluster.Config, kind kindCase) {
	t.Helper()
	c := start(t, cfg)
	node, err := c.Machine("node-1")
	testcheck.NoError(t, err)
	pod := podVariants(kind)[1].pod()
	main := &pod.Spec.Containers[0]
	main.Env = []corev1.EnvVar{{Name: "PART", Value: kind.part()}}
	main.VolumeMounts = append(main.VolumeMounts, corev1.VolumeMount{
		Name: "data", MountPath: "/expr", SubPathExpr: "$(PART)",
	})
	r := &kindRun{kindCase: kind, pod: pod, c: c, node: node}
	testcheck.NoError(t, r.create(t.Context()), c.WaitForPod(t.Context(), "default", "web", corev1.PodRunning), r.checkGroup())
	whole, err := c.ContainerPath("default", "web", "main", "/data")
	testcheck.NoError(t, err)
	if kind.writable {
		testcheck.NoError(t, node.FS.WriteFile(path.Join(whole, "part", "file"), []byte("1")))
	}
	for _, mountPath := range []string{"/part", "/expr"} {
		at, err := c.ContainerPath("default", "web", "main", mountPath)
		testcheck.NoError(t, err)
		want := kind.reads[kind.part()]
		if kind.writable {
			at, want = path.Join(at, "file"), "1"
		}
		if got, err := node.FS.ReadFile(at); err != nil || string(got) != want {
			t.Errorf("the container has at %s %q, %v, want %q", mountPath, got, err, want)
		}
	}
	r.remove(t)
	pod = kind.readOnlyPod()
	if pod == nil {
		return
	}
	r = &kindRun{kindCase: kind, pod: pod, c: c, node: node}
	r.objects = ""
	testcheck.NoError(t, r.create(t.Context()), c.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	if err := c.WriteFile("default", "web", "data", "note", nil); err == nil {
		t.Error("the pod has written to a read-only volume")
	}
	r.remove(t)
}

// remove deletes the pod and checks that nothing is left.
func (r *kindRun) remove(t *testing.T) {
	t.Helper()
	testcheck.NoError(t, r.c.Client().CoreV1().Pods("default").Delete(t.Context(), "web", metav1.DeleteOptions{}),
		r.c.WaitForGone(t.Context(), "pods", "default", "web"))
	r.writable = false // it has written nothing that left looks for
	if left := r.left(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
