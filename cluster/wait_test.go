package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// add creates objects in namespace default, unless they have another, as the store has them.
func add(t *testing.T, c *cluster.Cluster, objects ...runtime.Object) {
	t.Helper()
	for _, o := range objects {
		var err error
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			o.Namespace = "default"
			_, err = c.Client().CoreV1().PersistentVolumeClaims(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *corev1.Pod:
			o.Namespace = "default"
			_, err = c.Client().CoreV1().Pods(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		case *corev1.PersistentVolume:
			_, err = c.Client().CoreV1().PersistentVolumes().Create(t.Context(), o, metav1.CreateOptions{})
		case *storagev1.StorageClass:
			_, err = c.Client().StorageV1().StorageClasses().Create(t.Context(), o, metav1.CreateOptions{})
		case *corev1.ConfigMap:
			o.Namespace = "default"
			_, err = c.Client().CoreV1().ConfigMaps(o.Namespace).Create(t.Context(), o, metav1.CreateOptions{})
		default:
			t.Fatalf("%T", o)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func claimOf(name, class string) *corev1.PersistentVolumeClaim {
	claim := cluster.NewClaim(name, "2Gi")
	claim.Spec.StorageClassName = &class
	return claim
}

func podWith(name string, change func(*corev1.PodSpec), claims ...string) *corev1.Pod {
	pod := cluster.NewPod(name, claims...)
	change(&pod.Spec)
	return pod
}

// delayed is a class whose claims wait for their first consumer.
func delayed(provisioner string) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: provisioner, VolumeBindingMode: &mode}
}

// A wait that fails says why.
func TestWaitFailsWithTheCause(t *testing.T) {
	all := cluster.Config{Nodes: 2}
	without := func(names ...string) cluster.Config { return cluster.Config{Nodes: 2, Components: names} }
	claimBound := func(ctx context.Context, c *cluster.Cluster) error {
		return c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound)
	}
	podRunning := func(ctx context.Context, c *cluster.Cluster) error {
		return c.WaitForPod(ctx, "default", "web", corev1.PodRunning)
	}
	remove := func(t *testing.T, c *cluster.Cluster) {
		t.Helper()
		if err := c.Client().CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name string
		cfg  cluster.Config
		play func(t *testing.T, c *cluster.Cluster)
		wait func(ctx context.Context, c *cluster.Cluster) error
		want string
	}{
		{"no such claim", all, func(*testing.T, *cluster.Cluster) {}, claimBound, `
wait for claim default/data to be Bound: no task can run: no such claim
`},
		{"another claim, another namespace", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewPod("mail"), cluster.NewClaim("data", "1Gi"))
		}, func(ctx context.Context, c *cluster.Cluster) error {
			return errors.Join(podRunning(ctx, c), c.WaitForClaim(ctx, "kube-system", "data", corev1.ClaimBound),
				c.WaitForClaim(ctx, "shop", "data", corev1.ClaimBound))
		}, `
wait for pod default/web to be Running: no task can run: no such pod (have mail)
wait for claim kube-system/data to be Bound: no task can run: no such claim (there is one in namespace default)
wait for claim shop/data to be Bound: no task can run: no such claim: namespace "shop" not found
`},
		{"no such class", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, claimOf("data", "fast"), cluster.NewPod("web", "data"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: storage class fast not found
  state: Pending
  event: ProvisioningFailed: storageclass.storage.k8s.io "fast" not found
  pending: pod default/web is not running: claim default/data: storage class fast not found
`},
		{"pod with a claim without a class", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, claimOf("data", "fast"), cluster.NewPod("web", "data"))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: claim default/data: storage class fast not found
  state: Pending, PodScheduled=False Unschedulable
  event: FailedScheduling: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
`},
		{"no consumer", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, delayed(c.DriverName()), claimOf("data", "late"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: storage class late waits for the first consumer, and no pod uses the claim
  state: Pending
  event: WaitForFirstConsumer: waiting for first consumer to be created before binding
`},
		{"a consumer with a node", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, delayed(c.DriverName()), claimOf("data", "late"),
				podWith("web", func(s *corev1.PodSpec) { s.NodeName = "node-1" }, "data"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: storage class late waits for the scheduler, which ignores pod default/web: its spec.nodeName is set
  state: Pending
  event: WaitForFirstConsumer: waiting for first consumer to be created before binding
  pending: pod default/web is not running: claim default/data: storage class late waits for the scheduler, which ignores pod default/web: its spec.nodeName is set
`},
		{"a driver that is not installed", all, func(t *testing.T, c *cluster.Cluster) {
			class := delayed("ebs.csi.aws.com")
			class.VolumeBindingMode = nil
			add(t, c, class, claimOf("data", "late"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: driver ebs.csi.aws.com, the provisioner of storage class late, is not installed (this world has array.csi.volsim.dev)
  state: Pending
  event: ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'ebs.csi.aws.com' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.
`},
		{"no volume fits", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, claimOf("data", ""), pathVolume("a", "1Gi", ""), pathVolume("b", "9Gi", "fast"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: no volume fits: volume a has only 1Gi of 2Gi, volume b has storage class "fast" instead of ""
  state: Pending
  event: FailedBinding: no persistent volumes available for this claim and no storage class is set
`},
		{"no provisioner", without("pvcontroller", "kubelet"), func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewClaim("data", "1Gi"))
		}, claimBound, `
wait for claim default/data to be Bound: no task can run: component provisioner is not part of this world (see Config.Components)
  state: Pending
  event: ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'array.csi.volsim.dev' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.
`},
		{"no claim of a pod", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewClaim("date", "1Gi"), cluster.NewPod("web", "data"))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: claim default/data: no such claim (have date)
  state: Pending, PodScheduled=False Unschedulable
  event: FailedScheduling: 0/2 nodes are available: persistentvolumeclaim "data" not found. not found
`},
		{"no scheduler", without("pvcontroller", "provisioner", "kubelet"), func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewPod("web"))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: component scheduler is not part of this world (see Config.Components)
  state: Pending
`},
		{"a node selector", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, podWith("web", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: node selector disk=ssd fits no node (have node-1, node-2)
  state: Pending, PodScheduled=False Unschedulable
  event: FailedScheduling: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
`},
		{"no such node", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, podWith("web", func(s *corev1.PodSpec) { s.NodeName = "node-7" }))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: no such pod: it was on node-7 and was removed (PodGC: node no longer exists)
`},
		{"no config map", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, podWith("web", func(s *corev1.PodSpec) {
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "files", MountPath: "/files"}}
				s.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{
						{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "site"}}},
						{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "key"}}},
						{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "any"}, Optional: new(true)}},
					},
				}}}}
			}))
		}, podRunning, `
wait for pod default/web to be Running: bound on steps reached: 2000: configmap default/site not found; secret default/key not found
  state: Pending, on node-1, PodReadyToStartContainers=False, Ready=False ContainersNotReady, ContainersReady=False ContainersNotReady
  event: Scheduled: Successfully assigned default/web to node-1
  event: FailedMount: MountVolume.SetUp failed for volume "files" : [configmap "site" not found, secret "key" not found] (164 times)
`},
		{"no attacher", without("pvcontroller", "provisioner", "scheduler", "attachdetach", "kubelet"), func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewClaim("data", "1Gi"), cluster.NewPod("web", "data"))
		}, podRunning, `
wait for pod default/web to be Running: bound on steps reached: 2000: component attacher is not part of this world (see Config.Components)
  state: Pending, on node-1, PodReadyToStartContainers=False, Ready=False ContainersNotReady, ContainersReady=False ContainersNotReady
  event: FailedScheduling: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
  event: Scheduled: Successfully assigned default/web to node-1
  event: FailedAttachVolume: AttachVolume.Attach failed for volume "pvc-cc623af8-7839-4d98-af90-7081ad28b06f" : timed out waiting for external-attacher of array.csi.volsim.dev CSI driver to attach volume vol-80825302badc67a3 (143 times)
  pending: node node-1 lists 0 volumes attached, 1 in use
  pending: 1 attachments, 0 listed by nodes
`},
		{"a stopped kubelet", all, func(t *testing.T, c *cluster.Cluster) {
			if err := c.Stop("kubelet(node-1)"); err != nil {
				t.Fatal(err)
			}
			add(t, c, podWith("web", func(s *corev1.PodSpec) { s.NodeName = "node-1" }))
		}, podRunning, `
wait for pod default/web to be Running: no task can run: component kubelet(node-1) is stopped
  state: Pending, on node-1
`},
		{
			"a completed pod", all, func(t *testing.T, c *cluster.Cluster) { add(t, c, cluster.NewPod("web")) },
			func(ctx context.Context, c *cluster.Cluster) error {
				return c.WaitForPod(ctx, "default", "web", corev1.PodSucceeded)
			}, `
wait for pod default/web to be Succeeded: no task can run: containers do not run in a simulated cluster: annotation volsim.dev/exit-codes ends them
  state: Running, on node-1
  event: Scheduled: Successfully assigned default/web to node-1
`,
		},
		{"a claim in use", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewClaim("data", "1Gi"), cluster.NewPod("web", "data"))
			if err := podRunning(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			remove(t, c)
		}, func(ctx context.Context, c *cluster.Cluster) error {
			return errors.Join(c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data"), c.WaitForRest(ctx))
		}, `
wait for persistentvolumeclaims default/data to be gone: no task can run: finalizer kubernetes.io/pvc-protection is not removed (pod default/web uses the claim)
  state: Bound, being deleted, finalizers kubernetes.io/pvc-protection
  event: ExternalProvisioning: Waiting for a volume to be created either by the external provisioner 'array.csi.volsim.dev' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered.
  event: Provisioning: External provisioner is provisioning volume for claim "default/data"
  event: ProvisioningSucceeded: Successfully provisioned volume pvc-cc623af8-7839-4d98-af90-7081ad28b06f
wait for the world to come to rest: no task can run
  pending: claim default/data is being deleted: finalizer kubernetes.io/pvc-protection is not removed (pod default/web uses the claim)
`},
		{"not deleted, and a finalizer of one's own", all, func(t *testing.T, c *cluster.Cluster) {
			m := newMap("m")
			m.Finalizers = []string{"example.com/guard"}
			add(t, c, newMap("n"), m)
			if err := c.Client().CoreV1().ConfigMaps("default").Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, func(ctx context.Context, c *cluster.Cluster) error {
			return errors.Join(c.WaitForGone(ctx, "configmaps", "default", "n"), c.WaitForGone(ctx, "configmaps", "default", "m"))
		}, `
wait for configmaps default/n to be gone: no task can run: it is not being deleted
  state: exists
wait for configmaps default/m to be gone: no task can run: finalizer example.com/guard is not removed
  state: being deleted, finalizers example.com/guard
`},
		{"conditions", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, podWith("web", func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"disk": "ssd"} }))
		}, func(ctx context.Context, c *cluster.Cluster) error {
			return errors.Join(
				c.WaitFor(ctx, "pods", "default", "web", "condition=PodScheduled"),
				c.WaitFor(ctx, "nodes", "", "node-1", "condition=Sleepy"),
				c.WaitFor(ctx, "nodes", "", "node-1", "jsonpath={.status.nodeInfo.bootID}=next"),
				c.WaitFor(ctx, "nodes", "", "node-1", "jsonpath=.spec.providerID"),
				c.WaitFor(ctx, "nodes", "", "node-3", "create"),
			)
		}, `
wait for pods default/web to meet condition=PodScheduled: no task can run: condition PodScheduled is False; node selector disk=ssd fits no node (have node-1, node-2)
  state: Pending, PodScheduled=False Unschedulable
  event: FailedScheduling: 0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.
wait for nodes node-1 to meet condition=Sleepy: no task can run: the status has no condition Sleepy
  state: Ready=True KubeletReady: kubelet is posting ready status
  pending: pod default/web is not running: node selector disk=ssd fits no node (have node-1, node-2)
wait for nodes node-1 to meet jsonpath={.status.nodeInfo.bootID}=next: no task can run: {.status.nodeInfo.bootID} is ""
  state: Ready=True KubeletReady: kubelet is posting ready status
  pending: pod default/web is not running: node selector disk=ssd fits no node (have node-1, node-2)
wait for nodes node-1 to meet jsonpath=.spec.providerID: no task can run: {.spec.providerID} is not set
  state: Ready=True KubeletReady: kubelet is posting ready status
  pending: pod default/web is not running: node selector disk=ssd fits no node (have node-1, node-2)
wait for nodes node-3 to meet create: no task can run: no such node (have node-1, node-2)
  pending: pod default/web is not running: node selector disk=ssd fits no node (have node-1, node-2)
`},
		{"anything else", all, func(t *testing.T, c *cluster.Cluster) {
			add(t, c, claimOf("data", "fast"), cluster.NewPod("web", "data"))
		}, func(ctx context.Context, c *cluster.Cluster) error {
			return c.Wait(ctx, "the moon", func() bool { return false })
		}, `
wait for the moon: no task can run
  pending: pod default/web is not running: claim default/data: storage class fast not found
  event: persistentvolumeclaim default/data: ProvisioningFailed: storageclass.storage.k8s.io "fast" not found
  event: pod default/web: FailedScheduling: 0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.cfg.Stepped = &sim.SteppedConfig{StepsMax: 2000}
			c := started(t, test.cfg)
			test.play(t, c)
			err := test.wait(t.Context(), c)
			if !errors.Is(err, sim.ErrQuiescent) && !errors.Is(err, sim.ErrSteps) {
				t.Fatalf("got %v, want ErrQuiescent or ErrSteps", err)
			}
			if diff := cmp.Diff(strings.Trim(test.want, "\n"), err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func pathVolume(name, size, class string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/" + name}},
		},
	}
}

// started returns a running cluster that the test closes.
func started(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	c, err := cluster.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// Run fails with the causes of its users' waits.
func TestRunFailsWithTheCauseOfWaits(t *testing.T) {
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	for _, name := range []string{"bob", "alice"} {
		c.User(name, func(ctx context.Context) error {
			return c.WaitForClaim(ctx, "default", name, corev1.ClaimBound)
		})
	}
	add(t, c, claimOf("bob", "fast"))
	err := c.Run(t.Context())
	const want = `no task can run, but [alice waits for claim default/alice to be Bound bob waits for claim default/bob to be Bound]
claim default/alice to be Bound: no such claim (have bob)
claim default/bob to be Bound: storage class fast not found
  state: Pending
  event: ProvisioningFailed: storageclass.storage.k8s.io "fast" not found`
	if !errors.Is(err, sim.ErrQuiescent) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// In a live world the error keeps that of the context.
func TestLiveWaitFailsWithTheCause(t *testing.T) {
	c := started(t, cluster.Config{Nodes: 1, Devices: cluster.Array})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound)
	const want = "wait for claim default/data to be Bound: context canceled: no such claim"
	if !errors.Is(err, context.Canceled) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A wait that can only be a mistake fails at once.
func TestWaitRejectsMistakes(t *testing.T) {
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}})
	ctx := t.Context()
	for _, test := range []struct {
		err  error
		want string
	}{
		{c.WaitForGone(ctx, "pod", "default", "web"), `wait for resource "pod": not served`},
		{c.WaitForGone(ctx, "pods", "", "web"), `wait for resource "pods": it is namespaced`},
		{c.WaitFor(ctx, "nodes", "default", "node-1", "create"), `wait for resource "nodes" in namespace "default": it is cluster-scoped`},
		{c.WaitFor(ctx, "nodes", "", "node-1", "Ready"), `unexpected condition "Ready"`},
		{c.WaitFor(ctx, "nodes", "", "node-1", "jsonpath={.a"), `jsonpath`},
	} {
		if test.err == nil || !strings.HasPrefix(test.err.Error(), test.want) {
			t.Errorf("got %v, want %s", test.err, test.want)
		}
	}
}

// WaitFor returns when the condition holds, also that of a custom resource.
func TestWaitForCondition(t *testing.T) {
	things := fake.CustomKind{Group: "example.com", Versions: []string{"v1"}, Resource: "things", Kind: "Thing", Namespaced: true}
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{{
		Name: "none", Install: func(s *fake.Server) error { s.Install(things); return nil },
		Start: func(cluster.ComponentContext) error { return nil },
	}}})
	thing := &fake.CustomObject{TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Thing"}}
	thing.Name, thing.Namespace = "a", "default"
	condition := map[string]any{"type": "Ready", "status": "True"}
	thing.Content = map[string]any{"status": map[string]any{
		"phase": "Fine", "size": int64(3), "conditions": []any{condition}, "hosts": []any{"x", "y"},
	}}
	if err := c.Server().Add(thing); err != nil {
		t.Fatal(err)
	}
	wait := func(condition string) error {
		return c.WaitFor(t.Context(), "things.example.com", "default", "a", condition)
	}
	for _, holds := range []string{
		"create", "condition=Ready", "condition=ready=true", "jsonpath={.status.phase}=Fine", "jsonpath=.status.size=3",
		"jsonpath=status.phase", "jsonpath={.status.hosts[*]}=x y",
	} {
		if err := wait(holds); err != nil {
			t.Error(err)
		}
	}
	for condition, want := range map[string]string{
		"condition=Ready=False":          "condition Ready is True",
		"condition=Done":                 "the status has no condition Done",
		"jsonpath={.status.phase}=Bad":   `{.status.phase} is "Fine"`,
		"jsonpath={.status.phase.x}=Bad": "{.status.phase.x} is not set",
		"delete":                         "it is not being deleted",
	} {
		err := wait(condition)
		if !errors.Is(err, sim.ErrQuiescent) || !strings.Contains(err.Error(), ": no task can run: "+want+"\n  state: Fine, Ready=True") {
			t.Errorf("%s: got %v, want %s", condition, err, want)
		}
	}
	condition["observedGeneration"] = thing.Generation - 1
	c.Server().UpdateStored("things.example.com", "default", "a", func(fake.Object) fake.Object {
		changed := thing.DeepCopyObject().(*fake.CustomObject)
		changed.Generation = 7
		return changed
	})
	if err := wait("condition=Ready"); err == nil || !strings.Contains(err.Error(), "condition Ready is of an older generation") {
		t.Errorf("a condition of an older generation: %v", err)
	}
}

// A wait for an object of a user's operator shows the operator's error.
func TestWaitFailsWithTheErrorOfAReconciler(t *testing.T) {
	fails := cluster.Reconciler(cluster.ReconcilerConfig{
		Name: "operator", For: "configmaps", Polls: true,
		Build: func(cluster.ComponentContext) (cluster.Reconcile, error) {
			return func(context.Context, types.NamespacedName) (time.Duration, error) {
				return 0, errors.New("no disk today")
			}, nil
		},
	})
	c := started(t, cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}, Extra: []cluster.Component{fails}})
	add(t, c, newMap("a"))
	err := c.WaitFor(t.Context(), "configmaps", "default", "a", "jsonpath={.data.disk}")
	const want = `wait for configmaps default/a to meet jsonpath={.data.disk}: no task can run: {.data.disk} is not set
  state: exists
  error: operator/configmaps for default/a: no disk today`
	if !errors.Is(err, sim.ErrQuiescent) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}

// TestRestAwaitsControllersOfWorkloads: a live world is not at rest before the controllers have seen the
// last change of a Deployment and its sets.
func TestRestAwaitsControllersOfWorkloads(t *testing.T) {
	t.Parallel()
	c := start(t, cluster.Config{Devices: cluster.Array})
	labels := map[string]string{"app": "web"}
	deployments := c.Client().AppsV1().Deployments("default")
	_, err := deployments.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range []int{1, 3, 2, 5} {
		patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
		if _, err := deployments.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := c.WaitForRest(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(c.Server().List("pods")); got != replicas {
			t.Errorf("%d pods at rest, want %d", got, replicas)
		}
	}
}
