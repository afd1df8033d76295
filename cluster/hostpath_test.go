package cluster_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// hostPathClass is a class of directories on the controller's machine.
func hostPathClass() *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "scratch"},
		Provisioner: "kubernetes.io/host-path",
	}
}

// worlds are a live and a stepped world with one node.
var worlds = []struct {
	name string
	cfg  cluster.Config
}{
	{"live", cluster.Config{Nodes: 1, HostPathProvisioning: true}},
	{"stepped", cluster.Config{Nodes: 1, HostPathProvisioning: true, Stepped: &sim.SteppedConfig{}}},
}

// newHostPathWorld returns a started world.
func newHostPathWorld(t *testing.T, cfg cluster.Config) *cluster.Cluster {
	t.Helper()
	if cfg.Stepped != nil {
		cfg.Stepped = &sim.SteppedConfig{}
	}
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

// driven returns the calls of the plugin, with their details.
func driven(c *cluster.Cluster) []string {
	var lines []string
	for _, r := range c.Trace().Records() {
		if r.Kind == trace.KindDriver && strings.HasPrefix(r.Object, "kubernetes.io/host-path/") {
			lines = append(lines, r.Verb+" "+r.Detail)
		}
	}
	return lines
}

func TestHostPathVolumeIsCreatedAndDeleted(t *testing.T) {
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			c := newHostPathWorld(t, w.cfg)
			testcheck.NoError(t, runHostPath(t.Context(), c))
			testcheck.NoError(t, c.WaitForRest(t.Context()))
			calls := driven(c)
			if len(calls) != 2 || !strings.HasPrefix(calls[0], "Provision path=/tmp/hostpath_pv/") ||
				strings.TrimPrefix(calls[0], "Provision") != strings.TrimPrefix(calls[1], "Delete") {
				t.Errorf("calls: %q", calls)
			}
		})
	}
}

// runHostPath provisions a volume for a claim, and deletes it with the claim.
func runHostPath(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Client().StorageV1().StorageClasses().Create(ctx, hostPathClass(),
		metav1.CreateOptions{}); err != nil {
		return err
	}
	claims := c.Client().CoreV1().PersistentVolumeClaims("default")
	claim := cluster.NewClaim("data", "32Mi")
	name := "scratch"
	claim.Spec.StorageClassName = &name
	if _, err := claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		return err
	}
	bound, err := claims.Get(ctx, "data", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := claims.Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return c.WaitForGone(ctx, "persistentvolumes", "", bound.Spec.VolumeName)
}

// recycled returns a volume with policy Recycle.
func recycled(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	volume.Spec = corev1.PersistentVolumeSpec{
		AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRecycle,
		PersistentVolumeSource:        source,
	}
	return volume
}

func TestVolumeIsRecycled(t *testing.T) {
	volumes := []struct {
		name   string
		source corev1.PersistentVolumeSource
		disk   func(c *cluster.Cluster) (fs nodefs.FS, dir string)
		call   string
	}{
		{
			"host-path",
			corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/v"}},
			func(c *cluster.Cluster) (nodefs.FS, string) { return c.HostPath().FS, c.HostPath().Root + "/data/v" },
			"driver Recycle kubernetes.io/host-path/v node=node-1 path=/data/v",
		},
		{
			"nfs",
			corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/v"}},
			func(c *cluster.Cluster) (nodefs.FS, string) {
				return c.NFSExports().FS, c.NFSExports().Path("/files/v")
			},
			"driver Recycle kubernetes.io/nfs/v node=node-1 path=files:/v",
		},
	}
	for _, w := range worlds {
		for _, v := range volumes {
			t.Run(w.name+" "+v.name, func(t *testing.T) {
				c := newHostPathWorld(t, w.cfg)
				fs, dir := v.disk(c)
				testcheck.NoError(t, fs.MkdirAll(dir+"/sub"))
				testcheck.NoError(t, fs.WriteFile(dir+"/sub/file", []byte("of the first claim")))
				testcheck.NoError(t, fs.WriteFile(dir+"/file", []byte("of the first claim")))
				testcheck.NoError(t, runRecycled(t.Context(), c, recycled(v.source)))
				testcheck.NoError(t, c.WaitForRest(t.Context()))
				names, err := fs.ReadDir(dir)
				testcheck.NoError(t, err)
				if len(names) > 0 {
					t.Errorf("content of the second claim: %q", names)
				}
				var calls []string
				for _, r := range c.Trace().Records() {
					if r.Kind == trace.KindDriver && r.Verb == "Recycle" {
						calls = append(calls, r.Action.String()+" "+r.Detail)
					}
				}
				if diff := cmp.Diff([]string{v.call}, calls); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if _, there := c.Server().Get("pods", "default", "recycler-for-v"); there {
					t.Error("the recycler pod exists")
				}
			})
		}
	}
}

// runRecycled binds a volume to a claim, and after its deletion to a second one.
func runRecycled(ctx context.Context, c *cluster.Cluster, volume *corev1.PersistentVolume) error {
	if _, err := c.Client().CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		claim, none := cluster.NewClaim(name, "1Gi"), ""
		claim.Spec.StorageClassName = &none
		if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, claim,
			metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := c.WaitForClaim(ctx, "default", name, corev1.ClaimBound); err != nil || name == "second" {
			return err
		}
		if err := c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, name,
			metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return nil
}
