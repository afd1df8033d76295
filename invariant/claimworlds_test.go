package invariant_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// seedsOf returns the number of schedules of a test.
func seedsOf(n int) uint64 {
	if testing.Short() {
		n /= 10
	}
	return uint64(n)
}

// checkRules fails the test if a rule is violated or, at rest, something is pending.
func checkRules(t *testing.T, seed uint64, rules *invariant.Checker, log *trace.Log) {
	t.Helper()
	pending := rules.CheckAtRest()
	for _, v := range rules.Violations() {
		t.Errorf("seed %d, step %d: %v", seed, v.Step, v)
	}
	for _, o := range pending {
		t.Errorf("seed %d: %s", seed, o)
	}
	if t.Failed() {
		t.Fatal(log.Text())
	}
}

// userScript is the script of one user.
type userScript = func(ctx context.Context, c *cluster.Cluster) error

// userScripts are the scripts of users in a whole cluster, each independent of the others.
var userScripts = map[string]userScript{
	"a pod moves": func(ctx context.Context, c *cluster.Cluster) error {
		core := c.Client().CoreV1()
		if _, err := core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "32Mi"),
			metav1.CreateOptions{}); err != nil {
			return err
		}
		for _, node := range []string{"node-1", "node-2"} {
			pod := cluster.NewPod("on-"+node, "data")
			pod.Spec.NodeName = node
			if _, err := core.Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := c.WaitForPod(ctx, "default", pod.Name, corev1.PodRunning); err != nil {
				return err
			}
			if err := core.Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{}); err != nil {
				return err
			}
		}
		return core.PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{})
	},
	"a claim is deleted before its pod": func(ctx context.Context, c *cluster.Cluster) error {
		core := c.Client().CoreV1()
		if _, err := core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("cache", "32Mi"),
			metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := core.Pods("default").Create(ctx, cluster.NewPod("web", "cache"),
			metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		if err := core.PersistentVolumeClaims("default").Delete(ctx, "cache", metav1.DeleteOptions{}); err != nil {
			return err
		}
		return core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{})
	},
	"a claim is recreated": func(ctx context.Context, c *cluster.Cluster) error {
		claims := c.Client().CoreV1().PersistentVolumeClaims("default")
		for range 3 {
			if _, err := claims.Create(ctx, cluster.NewClaim("again", "32Mi"), metav1.CreateOptions{}); err != nil {
				return err
			}
			if err := claims.Delete(ctx, "again", metav1.DeleteOptions{}); err != nil {
				return err
			}
			if err := c.WaitForGone(ctx, "persistentvolumeclaims", "default", "again"); err != nil {
				return err
			}
		}
		return nil
	},
	"static volumes": func(ctx context.Context, c *cluster.Cluster) error {
		core := c.Client().CoreV1()
		for _, name := range []string{"small", "large"} {
			v := newVolume(name, map[string]string{"small": "1Gi", "large": "5Gi"}[name])
			if _, err := core.PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil {
				return err
			}
			if _, err := core.PersistentVolumeClaims("default").Create(ctx, newClaim("wants-"+name, "1Gi"),
				metav1.CreateOptions{}); err != nil {
				return err
			}
		}
		if err := c.WaitForClaim(ctx, "default", "wants-small", corev1.ClaimBound); err != nil {
			return err
		}
		return core.PersistentVolumeClaims("default").Delete(ctx, "wants-small", metav1.DeleteOptions{})
	},
}

func newVolume(name, size string, options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: "handle-of-" + name}
	for _, option := range options {
		option(v)
	}
	return v
}

// newClaim returns a claim without a class in namespace default.
func newClaim(name, size string, options ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	none := ""
	claim := cluster.NewClaim(name, size)
	claim.Namespace, claim.Spec.StorageClassName = "default", &none
	for _, option := range options {
		option(claim)
	}
	return claim
}

// events are the events of the worlds, alternately.
var events = []string{
	"",
	"conflict(0.05), refused(0.02), lost(0.03)",
	"driver Unavailable(0.1), driver Internal(0.05), driver-lost DeadlineExceeded(0.1), driver-lost Internal(0.02), hang(0.02)",
	"crash(pvcontroller, 2), crash(provisioner, 2), crash(pvcprotection, 1), crash(pvprotection, 1), relist(0.02), expire(0.01)",
	"replicate(pvcontroller, 1), replicate(provisioner, 1), conflict(0.05), crash(pvcontroller, 1), driver-lost DeadlineExceeded(0.1)",
}

// runThrough runs users on a cluster with a seed until it is at rest after the last event, and
// checks it.
func runThrough(t *testing.T, seed uint64, cfg cluster.Config, devices invariant.Devices,
	users map[string]userScript,
) *cluster.Cluster {
	t.Helper()
	what, err := sim.ParseFaultSpecs(events[seed%uint64(len(events))])
	if err != nil {
		t.Fatal(err)
	}
	chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, what, 500, cluster.EventKinds...)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Stepped = &sim.SteppedConfig{Strategy: chaos, StepsMax: 40_000}
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	rules := invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: c.Host().Now, Devices: devices},
		invariant.Rules()...)
	for _, name := range slices.Sorted(maps.Keys(users)) {
		c.User(name, func(ctx context.Context) error { return users[name](ctx, c) })
	}
	for again := true; again; again = c.Repair() {
		if err := c.Run(t.Context()); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c.Trace().Text())
		}
	}
	checkRules(t, seed, rules, c.Trace())
	return c
}

func TestRulesHoldInAWholeCluster(t *testing.T) {
	for seed := range seedsOf(100) {
		runThrough(t, seed, cluster.Config{}, nil, started(userScripts))
	}
}

// started are scripts that wait until the cluster's nodes and driver have registered.
func started(userScripts map[string]userScript) map[string]userScript {
	all := map[string]userScript{}
	for name, play := range userScripts {
		all[name] = func(ctx context.Context, c *cluster.Cluster) error {
			if err := c.Start(ctx); err != nil {
				return err
			}
			return play(ctx, c)
		}
	}
	return all
}

// arrayDevices is the state of an array without nodes.
type arrayDevices struct{ *array.Array }

func (d arrayDevices) Driver() string               { return array.DriverName }
func (d arrayDevices) Plugins() []invariant.Backend { return nil }
func (d arrayDevices) Nodes() []string              { return nil }
func (d arrayDevices) Mounts(string) []nodefs.Mount { return nil }
func (d arrayDevices) Volumes() (all []invariant.Volume) {
	for _, v := range d.Array.Volumes() {
		all = append(all, invariant.Volume{Handle: v.ID, Name: v.Name, Attached: v.AttachedTo, Bytes: v.SizeBytes})
	}
	return all
}

func (d arrayDevices) Volume(handle string) (invariant.Volume, bool) {
	for _, v := range d.Volumes() {
		if v.Handle == handle {
			return v, true
		}
	}
	return invariant.Volume{}, false
}

// plane is a control plane for claims and volumes alone. Its provisioner has its own array.
func plane() (cluster.Config, invariant.Devices) {
	disks := array.New(array.Config{})
	return cluster.Config{
		Components: []string{"pvcontroller", "pvcprotection", "pvprotection"},
		Extra: []cluster.Component{{Name: "provisioner", Start: func(p cluster.ComponentContext) error {
			provisioner.New(provisioner.Config{
				Process: p.Process, Client: p.Client, Informers: p.Informers, DriverName: array.DriverName,
				Recorder: p.Recorder(array.DriverName),
				Conn: csi.Suspend(p.Process, array.DriverName, csi.Direct(func(r grpc.ServiceRegistrar) {
					csispec.RegisterControllerServer(r, disks.Controller())
				})),
			})
			return nil
		}}},
	}, arrayDevices{disks}
}

// A doing is a script that performs actions in sequence and ignores rejected requests.
func doing(steps ...step) userScript {
	return func(ctx context.Context, c *cluster.Cluster) error {
		for _, step := range steps {
			err := step(ctx, c.Client())
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) &&
				!apierrors.IsConflict(err) {
				return err
			}
		}
		return nil
	}
}

type step = func(ctx context.Context, client kubernetes.Interface) error

func makeClaim(claim *corev1.PersistentVolumeClaim) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
		return err
	}
}

func makeVolume(v *corev1.PersistentVolume) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
		return err
	}
}

func makeClass(name string, mode storagev1.VolumeBindingMode, isDefault bool) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		_, err := client.StorageV1().StorageClasses().Create(ctx,
			newClass(name, mode, isDefault), metav1.CreateOptions{})
		return err
	}
}

func newClass(name string, mode storagev1.VolumeBindingMode, isDefault bool) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: array.DriverName, VolumeBindingMode: &mode,
	}
	if isDefault {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	return class
}

func deleteClaim(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{})
	}
}

func deleteVolume(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		return client.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{})
	}
}

func placePod(name, claim, node string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		pod := cluster.NewPod(name, claim)
		pod.Spec.NodeName = node
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

func removePod(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		now := int64(0)
		return client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

func ofClass(class *string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = class }
}

func naming(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func reservedBy(claim string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim}
	}
}

// TestRulesHoldWithManyUsers has users who create and delete claims and volumes, requested and
// pre-bound by name, with classes that are created late, while every kind of event happens to the
// control plane.
func TestRulesHoldWithManyUsers(t *testing.T) {
	conflicts, lost, crashes := 0, 0, 0
	for seed := range seedsOf(500) {
		cfg, devices := plane()
		c := runThrough(t, seed, cfg, devices, crowd())
		for _, r := range c.Trace().Records() {
			switch {
			case r.Kind == trace.KindEvent && r.Verb == "crash":
				crashes++
			case r.Lost:
				lost++
			case apierrors.IsConflict(r.Err):
				conflicts++
			}
		}
	}
	if conflicts == 0 || lost == 0 || crashes == 0 {
		t.Errorf("%d conflicts, %d lost answers, %d crashes: the schedules do not exercise the rules", conflicts, lost,
			crashes)
	}
}

func crowd() map[string]userScript {
	fast := "fast"
	return map[string]userScript{
		"static": doing(
			makeVolume(newVolume("v", "1Gi")), makeVolume(newVolume("w", "5Gi")), deleteVolume("v"),
			makeVolume(newVolume("v", "3Gi", func(v *corev1.PersistentVolume) {
				v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadWriteMany)
			}))),
		"reserving": doing(
			makeVolume(newVolume("r", "1Gi", reservedBy("d"))), makeClaim(newClaim("e", "1Gi", naming("w")))),
		"claims": doing(
			makeClaim(newClaim("c", "1Gi")), makeClaim(newClaim("d", "1Gi")), deleteClaim("c"),
			makeClaim(newClaim("c", "2Gi")),
			makeClaim(newClaim("h", "4Gi"))),
		"classes": doing(
			notDefault(cluster.ClassName), makeClaim(newClaim("g", "1Gi", ofClass(nil))),
			makeClass("slow", storagev1.VolumeBindingWaitForFirstConsumer, true),
			makeClass("fast", storagev1.VolumeBindingImmediate, true)),
		"dynamic": doing(
			makeClaim(newClaim("f", "1Gi", ofClass(&fast))),
			placePod("p", "f", "node-1"), deleteClaim("f"), removePod("p"),
			makeClaim(newClaim("f", "1Gi", ofClass(&fast)))),
		"policies":  retaining,
		"restoring": doing(restore("s")),
		"forcing": doing(
			makeVolume(newVolume("x", "1Gi", reservedBy("i"))), makeClaim(newClaim("i", "1Gi", naming("x"))),
			forceVolume("x"), makeVolume(newVolume("x", "1Gi", reservedBy("j"))), makeClaim(newClaim("j", "1Gi"))),
	}
}

func notDefault(class string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		patch := []byte(`{"metadata":{"annotations":null}}`)
		_, err := client.StorageV1().StorageClasses().Patch(ctx, class,
			types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
}

// restore creates a claim, and a volume that is bound to this claim by UID.
func restore(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		claim, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx,
			newClaim(name, "1Gi"), metav1.CreateOptions{})
		if err != nil {
			return err
		}
		return makeVolume(newVolume(name, "1Gi", reservedFor(claim)))(ctx, client)
	}
}

// forceVolume deletes a volume and removes its finalizers.
func forceVolume(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		patch := []byte(`{"metadata":{"finalizers":null}}`)
		_, err := client.CoreV1().PersistentVolumes().Patch(ctx, name,
			types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			return err
		}
		return deleteVolume(name)(ctx, client)
	}
}

// retaining sets the policy of a volume to Retain, and deletes its claim.
func retaining(ctx context.Context, c *cluster.Cluster) error {
	standard := cluster.ClassName
	if err := doing(makeClaim(newClaim("kept", "1Gi", ofClass(&standard))))(ctx, c); err != nil {
		return err
	}
	if err := c.WaitForClaim(ctx, "default", "kept", corev1.ClaimBound); err != nil {
		return err
	}
	claim, err := c.Client().CoreV1().PersistentVolumeClaims("default").Get(ctx, "kept", metav1.GetOptions{})
	if err != nil {
		return err
	}
	return doing(func(ctx context.Context, client kubernetes.Interface) error {
		patch := []byte(`{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}`)
		_, err := client.CoreV1().PersistentVolumes().
			Patch(ctx, claim.Spec.VolumeName, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}, deleteClaim("kept"), deleteVolume("w"))(ctx, c)
}

// BenchmarkWatchedCommit commits a bound claim or volume, with and without the rules.
func BenchmarkWatchedCommit(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(map[bool]string{false: "alone", true: "watched"}[watched], func(b *testing.B) {
			server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
			if watched {
				invariant.Watch(invariant.World{API: server, Log: &trace.Log{Max: 1000}}, invariant.Rules()...)
			}
			s := &scene{server: server, user: server.Client(sim.DirectCaller())}
			pair(s)
			for i := 0; b.Loop(); i++ {
				if i%2 == 0 {
					s.updateVolume("v", func(*corev1.PersistentVolume) {})
				} else {
					s.updateClaim("c", func(*corev1.PersistentVolumeClaim) {})
				}
			}
		})
	}
}
