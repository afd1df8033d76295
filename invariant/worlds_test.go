package invariant_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/events"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

// seedsOf is how many schedules a test runs through.
func seedsOf(n int) uint64 {
	if testing.Short() {
		n /= 10
	}
	return uint64(n)
}

// check fails where a rule was broken, or, at rest, something is owed.
func check(t *testing.T, seed uint64, rules *invariant.Checker, log *trace.Log) {
	t.Helper()
	owed := rules.Rest()
	for _, v := range rules.Violations() {
		t.Errorf("seed %d, step %d: %v", seed, v.Step, v)
	}
	for _, o := range owed {
		t.Errorf("seed %d: %s", seed, o)
	}
	if t.Failed() {
		t.Fatal(log.Text())
	}
}

// scripts are what users do in a whole cluster, each beside the others.
var scripts = map[string]func(ctx context.Context, c *cluster.Cluster) error{
	"a pod moves": func(ctx context.Context, c *cluster.Cluster) error {
		core := c.Client().CoreV1()
		if _, err := core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "32Mi"), metav1.CreateOptions{}); err != nil {
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
	"a claim goes before its pod": func(ctx context.Context, c *cluster.Cluster) error {
		core := c.Client().CoreV1()
		if _, err := core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("cache", "32Mi"), metav1.CreateOptions{}); err != nil {
			return err
		}
		if _, err := core.Pods("default").Create(ctx, cluster.NewPod("web", "cache"), metav1.CreateOptions{}); err != nil {
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
	"a claim is made anew": func(ctx context.Context, c *cluster.Cluster) error {
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
			if _, err := core.PersistentVolumeClaims("default").Create(ctx, newClaim("wants-"+name, "1Gi"), metav1.CreateOptions{}); err != nil {
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

// newClaim is a claim of no class in namespace default.
func newClaim(name, size string, options ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	none := ""
	claim := cluster.NewClaim(name, size)
	claim.Namespace, claim.Spec.StorageClassName = "default", &none
	for _, option := range options {
		option(claim)
	}
	return claim
}

func TestNoRuleIsBrokenInAWholeCluster(t *testing.T) {
	for seed := range seedsOf(300) {
		c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 20_000}})
		if err != nil {
			t.Fatal(err)
		}
		rules := invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: c.Host().Now}, invariant.Rules()...)
		for _, name := range []string{"a pod moves", "a claim goes before its pod", "a claim is made anew", "static volumes"} {
			c.User(name, func(ctx context.Context) error {
				if err := c.Start(ctx); err != nil {
					return err
				}
				return scripts[name](ctx, c)
			})
		}
		if err := c.Run(t.Context()); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, c.Trace().Text())
		}
		check(t, seed, rules, c.Trace())
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// flaky is a component some of whose calls fail, before or after they took effect, as long as there are faults left.
type flaky struct {
	*sim.Component
	draw   *sim.Seeded
	faults *int
}

func (f flaky) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return f.Component.Call(action, func() trace.Outcome {
		if *f.faults == 0 || f.draw.Choose(8) > 0 || action.Verb == "list" {
			return effect()
		}
		*f.faults--
		fault := error(status.Error([]codes.Code{codes.Unavailable, codes.Internal, codes.DeadlineExceeded}[f.draw.Choose(3)], "injected"))
		if action.Kind == trace.KindAPI {
			fault = apierrors.NewConflict(schema.GroupResource{}, action.Object, errors.New("injected"))
		}
		if f.draw.Choose(2) == 0 {
			return trace.Outcome{Err: fault}
		}
		if action.Kind == trace.KindAPI {
			fault = apierrors.NewTimeoutError("injected", 1)
		} else {
			fault = status.Error(codes.DeadlineExceeded, "injected")
		}
		out := effect()
		if out.Err == nil {
			out.Err, out.Lost = fault, true
		}
		return out
	})
}

// arrayDevices is the truth of an array without nodes.
type arrayDevices struct{ *array.Array }

func (d arrayDevices) Driver() string               { return array.DriverName }
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

// plane is a control plane for claims and volumes alone, over an array, with faults.
type plane struct {
	host   *sim.Stepped
	server *fake.Server
	rules  *invariant.Checker
	draw   *sim.Seeded
	faults int
}

func newPlane(t *testing.T, seed uint64, binders int) *plane {
	host := sim.NewStepped(sim.SteppedConfig{Chooser: sim.NewSeeded(seed), StepsMax: 20_000})
	t.Cleanup(host.Close)
	server := fake.NewServer(fake.Config{Now: host.Now})
	p := &plane{host: host, server: server, draw: sim.NewSeeded(seed + 1_000_000), faults: 6}
	disks := array.New(array.Config{})
	p.rules = invariant.Watch(invariant.World{
		API: server, Log: host.Log(), Now: host.Now, Devices: arrayDevices{disks},
	}, invariant.Rules()...)
	for i := range binders {
		c, client := p.component(fmt.Sprint("pvcontroller-", i))
		pvcontroller.New(pvcontroller.Config{
			Component: c, Client: client, Informers: server.Informers(c),
			Recorder: events.New(events.Config{Component: c, Client: client, Source: pvcontroller.EventSource}),
		})
	}
	c, client := p.component("pvcprotection")
	pvcprotection.New(pvcprotection.Config{Component: c, Client: client, Informers: server.Informers(c)})
	c, client = p.component("pvprotection")
	pvprotection.New(pvprotection.Config{Component: c, Client: client, Informers: server.Informers(c)})
	c, client = p.component("provisioner")
	provisioner.New(provisioner.Config{
		Component: c, Client: client, Informers: server.Informers(c), DriverName: array.DriverName,
		Recorder: events.New(events.Config{Component: c, Client: client, Source: array.DriverName}),
		Conn: csi.Suspend(flaky{c, p.draw, &p.faults}, array.DriverName, csi.Direct(func(r grpc.ServiceRegistrar) {
			csispec.RegisterControllerServer(r, disks.Controller())
		})),
	})
	return p
}

func (p *plane) component(name string) (*sim.Component, kubernetes.Interface) {
	c := p.host.Component(name)
	return c, p.server.Client(flaky{c, p.draw, &p.faults})
}

// user adds somebody who does one thing after the other; what is refused is let be.
func (p *plane) user(name string, steps ...func(ctx context.Context, client kubernetes.Interface) error) {
	c := p.host.Component(name)
	client := p.server.Client(c)
	c.User("", func(ctx context.Context) {
		for _, step := range steps {
			err := step(ctx, client)
			if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsInvalid(err) {
				panic(err)
			}
		}
	})
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
		_, err := client.StorageV1().StorageClasses().Create(ctx, newClass(name, mode, isDefault), metav1.CreateOptions{})
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

func makePod(name, claim, node string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		pod := cluster.NewPod(name, claim)
		pod.Spec.NodeName = node
		_, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

func deletePod(name string) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		now := int64(0)
		return client.CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	}
}

func editVolume(name string, edit func(*corev1.PersistentVolume)) step {
	return func(ctx context.Context, client kubernetes.Interface) error {
		v, err := client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(v)
		_, err = client.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
		return err
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

// A crowd of users makes and deletes claims and volumes, asked for and reserved by name, of classes that come late, with
// one binder or two, while requests and driver calls fail now and then.
func TestNoRuleIsBrokenByACrowdWithFaults(t *testing.T) {
	conflicts, lost := 0, 0
	for binders := 1; binders <= 2; binders++ {
		for seed := range seedsOf(400) {
			p := newPlane(t, seed, binders)
			crowd(p)
			if err := p.host.Run(); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, p.host.Log().Text())
			}
			check(t, seed, p.rules, p.host.Log())
			for _, r := range p.host.Log().Records() {
				if r.Lost {
					lost++
				}
				if apierrors.IsConflict(r.Err) && !strings.Contains(r.Err.Error(), "injected") {
					conflicts++
				}
			}
		}
	}
	if conflicts == 0 || lost == 0 {
		t.Errorf("%d conflicts, %d answers lost: the schedules do not try the rules", conflicts, lost)
	}
}

func crowd(p *plane) {
	fast := "fast"
	p.user("static",
		makeVolume(newVolume("v", "1Gi")), makeVolume(newVolume("w", "5Gi")), deleteVolume("v"),
		makeVolume(newVolume("v", "3Gi", func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadWriteMany)
		})))
	p.user("reserving", makeVolume(newVolume("r", "1Gi", reservedBy("d"))), makeClaim(newClaim("e", "1Gi", naming("w"))))
	p.user("claims",
		makeClaim(newClaim("c", "1Gi")), makeClaim(newClaim("d", "1Gi")), deleteClaim("c"), makeClaim(newClaim("c", "2Gi")))
	p.user("classes",
		makeClass("slow", storagev1.VolumeBindingWaitForFirstConsumer, true), makeClass("fast", storagev1.VolumeBindingImmediate, true))
	p.user("dynamic",
		makeClaim(newClaim("f", "1Gi", ofClass(&fast))), makeClaim(newClaim("g", "1Gi", ofClass(nil))),
		makePod("p", "f", "node-1"), deleteClaim("f"), deletePod("p"), makeClaim(newClaim("f", "1Gi", ofClass(&fast))))
	p.user("policies",
		func(ctx context.Context, client kubernetes.Interface) error {
			all, err := client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, v := range all.Items {
				if strings.HasPrefix(v.Name, "pvc-") {
					return editVolume(v.Name, func(v *corev1.PersistentVolume) {
						v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
					})(ctx, client)
				}
			}
			return nil
		}, deleteVolume("w"))
}
