package cluster_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sim"
)

// sixKinds returns a pod with a volume of each kind, mounted below /volumes.
func sixKinds() *corev1.Pod {
	pod := cluster.NewPod("web", "data")
	pod.Labels = map[string]string{"app": "web"}
	field := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.labels"}
	volumes := map[string]corev1.VolumeSource{
		"scratch": {EmptyDir: &corev1.EmptyDirVolumeSource{}},
		"memory":  {EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}},
		"config":  {ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
		"keys":    {Secret: &corev1.SecretVolumeSource{SecretName: "keys"}},
		"labels": {DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: field}},
		}},
		"all": {Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "config"}}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}},
		}}},
		"own": {Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
			Spec: cluster.NewClaim("", "64Mi").Spec,
		}}},
		"host": {HostPath: &corev1.HostPathVolumeSource{Path: "/srv/web", Type: ptr.To(corev1.HostPathDirectoryOrCreate)}},
	}
	for _, name := range []string{"scratch", "memory", "config", "keys", "labels", "all", "own", "host"} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: volumes[name]})
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/volumes/" + name})
	}
	return pod
}

func TestAPodUsesVolumesOfAllKinds(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"live", cluster.Config{Devices: cluster.Array}},
		{"loop devices", cluster.Config{Devices: cluster.Loop}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			world.cfg.Nodes = 1
			c := start(t, world.cfg)
			core := c.Client().CoreV1()
			must(t)(core.ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: "config"}, Data: map[string]string{"color": "blue"},
			}, metav1.CreateOptions{}))
			must(t)(core.Secrets("default").Create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Data: map[string][]byte{"key": []byte("s3cret")},
			}, metav1.CreateOptions{}))
			must(t)(core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}))
			must(t)(core.Pods("default").Create(ctx, sixKinds(), metav1.CreateOptions{}))
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			for _, file := range []struct{ volume, name, want string }{
				{"config", "color", "blue"},
				{"keys", "key", "s3cret"},
				{"labels", "labels", `app="web"`},
				{"all", "color", "blue"},
			} {
				got, err := c.ReadFile("default", "web", file.volume, file.name)
				if err != nil || string(got) != file.want {
					t.Errorf("%s of volume %s: %q, %v, want %q", file.name, file.volume, got, err, file.want)
				}
			}
			for _, volume := range []string{"scratch", "memory", "host", "data", "own"} {
				testcheck.NoError(t, c.WriteFile("default", "web", volume, "file", []byte("1")))
			}
			testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"))
			testcheck.NoError(t, c.WaitForGone(ctx, "persistentvolumeclaims", "default", "web-own"))
			testcheck.NoError(t, c.WaitForRest(ctx))
		})
	}
}

// must returns a function that ends the test if a request failed.
func must(t *testing.T) func(_ any, err error) {
	return func(_ any, err error) {
		t.Helper()
		testcheck.NoError(t, err)
	}
}

// start returns a started cluster that is closed at the end of the test. It skips the test if that needs loop
// devices and the machine has none.
func start(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	if cfg.Devices == cluster.Loop {
		if err := loop.Probe(); err != nil {
			t.Skipf("loop devices: %v", err)
		}
	}
	c, err := cluster.New(cfg)
	testcheck.NoError(t, err)
	t.Cleanup(func() { testcheck.NoError(t, c.Close()) })
	testcheck.NoError(t, c.Start(context.Background()))
	return c
}

// firstPod is the first example of the field: a PersistentVolume that is a directory of the node, a
// claim for it, and a pod.
const firstPod = `
apiVersion: v1
kind: PersistentVolume
metadata:
  name: task-pv-volume
  labels: {type: local}
spec:
  storageClassName: manual
  capacity: {storage: 10Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /mnt/data}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: task-pv-claim}
spec:
  storageClassName: manual
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 3Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: task-pv-pod}
spec:
  volumes:
  - name: task-pv-storage
    persistentVolumeClaim: {claimName: task-pv-claim}
  containers:
  - name: task-pv-container
    image: nginx
    ports: [{containerPort: 80, name: http-server}]
    volumeMounts: [{mountPath: /usr/share/nginx/html, name: task-pv-storage}]
`

func TestTheFirstPod(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Nodes: 1, Stepped: &sim.SteppedConfig{}}},
		{"loop devices", cluster.Config{Nodes: 1, Devices: cluster.Loop}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			c := start(t, world.cfg)
			node, err := c.Machine("node-1")
			testcheck.NoError(t, err)
			testcheck.NoError(t, node.FS.MkdirAll(node.Path("/mnt/data")),
				node.FS.WriteFile(node.Path("/mnt/data/index.html"), []byte("Hello from Kubernetes storage")),
				c.Apply(ctx, firstPod), c.WaitForPod(ctx, "default", "task-pv-pod", corev1.PodRunning))
			got, err := c.ReadFile("default", "task-pv-pod", "task-pv-storage", "index.html")
			if err != nil || string(got) != "Hello from Kubernetes storage" {
				t.Errorf("index.html: %q, %v", got, err)
			}
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "task-pv-pod", metav1.DeleteOptions{}),
				c.WaitForGone(ctx, "pods", "default", "task-pv-pod"))
			if _, err := node.FS.ReadFile(node.Path("/mnt/data/index.html")); err != nil {
				t.Errorf("after the pod: %v", err)
			}
		})
	}
}

// localVolume is a directory of node-2 as a PersistentVolume.
const localVolume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: local
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  local: {path: /mnt/disks/a}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node-2]}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: local
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  securityContext: {fsGroup: 2000}
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
  containers:
  - name: main
    image: image
    volumeMounts: [{mountPath: /data, name: data}]
`

// TestLocalVolume has a pod wait for the directory of its volume, use it on the volume's node, and
// leave the data there.
func TestLocalVolume(t *testing.T) {
	for _, world := range []struct {
		name string
		cfg  cluster.Config
	}{
		{"stepped", cluster.Config{Stepped: &sim.SteppedConfig{}}},
		{"loop devices", cluster.Config{Devices: cluster.Loop}},
	} {
		t.Run(world.name, func(t *testing.T) {
			ctx := t.Context()
			world.cfg.Nodes = 2
			c := start(t, world.cfg)
			testcheck.NoError(t, c.Apply(ctx, localVolume))
			missing := `MountVolume.NewMounter initialization failed for volume "disk" : path "/mnt/disks/a" does not exist`
			testcheck.NoError(t, c.Wait(ctx, "the event", func() bool {
				return slices.ContainsFunc(c.Server().List("events"), func(o fake.Object) bool {
					return o.(*corev1.Event).Message == missing
				})
			}))
			machine, err := c.Machine("node-2")
			testcheck.NoError(t, err)
			disk, dir := machine.FS, machine.Path("/mnt/disks/a")
			testcheck.NoError(t, disk.MkdirAll(dir), c.WaitForPod(ctx, "default", "web", corev1.PodRunning),
				c.WriteFile("default", "web", "data", "file", []byte("kept")))
			info, err := disk.Stat(dir)
			if err != nil || info.GID != 2000 {
				t.Errorf("the directory is of group %d, %v, want 2000", info.GID, err)
			}
			testcheck.NoError(t, c.Client().CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}),
				c.WaitForGone(ctx, "pods", "default", "web"), c.WaitForRest(ctx))
			if data, err := disk.ReadFile(dir + "/file"); err != nil || string(data) != "kept" {
				t.Errorf("after the pod: %q, %v", data, err)
			}
			mounts, err := disk.Mounts()
			if err != nil || len(mounts) > 0 {
				t.Errorf("left: %v, %v", mounts, err)
			}
		})
	}
}
