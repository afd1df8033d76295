package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/sim"
)

// mountFlags records the mount flags of the stage and publish calls.
type mountFlags struct {
	grpc.ClientConnInterface
	seen *[]string
}

func (m mountFlags) Invoke(ctx context.Context, method string, request, reply any, options ...grpc.CallOption) error {
	switch r := request.(type) {
	case *csispec.NodeStageVolumeRequest:
		*m.seen = append(*m.seen, "stage "+strings.Join(r.GetVolumeCapability().GetMount().GetMountFlags(), ","))
	case *csispec.NodePublishVolumeRequest:
		*m.seen = append(*m.seen, "publish "+strings.Join(r.GetVolumeCapability().GetMount().GetMountFlags(), ","))
	}
	return m.ClientConnInterface.Invoke(ctx, method, request, reply, options...)
}

// TestVolumesAreMountedWithLabels checks that on nodes with SELinux, ReadWriteOncePod volumes or
// all are mounted with labels, and on others none.
func TestVolumesAreMountedWithLabels(t *testing.T) {
	t.Parallel()
	const option = `context="system_u:object_r:container_file_t:s0:c1,c2"`
	tests := []struct {
		name string
		cfg  cluster.Config
		mode corev1.PersistentVolumeAccessMode
		want string
	}{
		{"off", cluster.Config{}, corev1.ReadWriteOncePod, ""},
		{"the gate alone", cluster.Config{SELinuxMount: true}, corev1.ReadWriteOncePod, ""},
		{"on, one pod", cluster.Config{SELinux: true}, corev1.ReadWriteOncePod, option},
		{"on, many pods", cluster.Config{SELinux: true}, corev1.ReadWriteOnce, ""},
		{
			"on with the gate, many pods",
			cluster.Config{SELinux: true, SELinuxMount: true},
			corev1.ReadWriteOnce, option,
		},
	}
	for _, tt := range tests {
		for _, preRegistered := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", pre-registered"}[preRegistered], func(t *testing.T) {
				t.Parallel()
				var seen []string
				cfg := tt.cfg
				cfg.Nodes, cfg.PreRegistered, cfg.Stepped = 1, preRegistered, &sim.SteppedConfig{StepsMax: 50_000}
				cfg.Interceptors.Driver = func(_ string, conn grpc.ClientConnInterface) grpc.ClientConnInterface {
					return mountFlags{conn, &seen}
				}
				c, err := cluster.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				if err := c.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				claim := cluster.NewClaim("data", "1Gi")
				claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{tt.mode}
				pod := cluster.NewPod("web", "data")
				pod.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1,c2"}}
				if _, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim,
					metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Client().CoreV1().Pods("default").Create(t.Context(), pod,
					metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := c.WaitForPod(t.Context(), "default", "web", corev1.PodRunning); err != nil {
					t.Fatal(err)
				}
				if want := []string{"stage " + tt.want, "publish " + tt.want}; !slices.Equal(seen, want) {
					t.Errorf("mount flags %q, want %q", seen, want)
				}
			})
		}
	}
}
