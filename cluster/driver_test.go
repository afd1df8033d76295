package cluster_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

const diskDriver = "disk.example.com"

// newDiskDriver returns a driver of a user's own, whose services run in the program, with a class of the
// given name.
func newDiskDriver(class string, isDefault bool) cluster.Driver {
	disks := array.New(array.Config{DriverName: diskDriver})
	grows := true
	return cluster.Driver{
		Name: diskDriver,
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterControllerServer(r, disks.Controller())
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			server := disks.Node(at.Name, at.Disk.(*nodefs.Memory))
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterNodeServer(r, server)
			}, nil
		},
		Classes: []runtime.Object{&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: class, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": fmt.Sprint(isDefault)},
			},
			AllowVolumeExpansion: &grows,
		}},
	}
}

// hosts are the configurations of a stepped and of a live world.
var hosts = map[string]cluster.Config{
	"stepped": {Stepped: &sim.SteppedConfig{}},
	"live":    {Devices: cluster.Array},
}

// TestDriverInPlaceOfTheBuiltIn runs the life cycle of a volume with a driver of the user's own, the only
// one of the cluster.
func TestDriverInPlaceOfTheBuiltIn(t *testing.T) {
	t.Parallel()
	for name, cfg := range hosts {
		for _, preRegistered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, pre-registered %v", name, preRegistered), func(t *testing.T) {
				t.Parallel()
				cfg.WithoutDriver, cfg.PreRegistered = true, preRegistered
				cfg.Drivers = []cluster.Driver{newDiskDriver("standard", true)}
				c := run(t, cfg)
				if got := c.DriverName(); got != diskDriver {
					t.Errorf("DriverName %q", got)
				}
				for _, component := range c.Components() {
					if component == "provisioner" || component == "attacher" || component == "resizer" {
						t.Errorf("component %s of the built-in driver", component)
					}
				}
			})
		}
	}
}

// TestDriverBesidesTheBuiltIn uses a volume of each of two drivers in one pod, moves the pod and removes
// everything.
func TestDriverBesidesTheBuiltIn(t *testing.T) {
	t.Parallel()
	for name, cfg := range hosts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cfg.Nodes, cfg.Drivers = 1, []cluster.Driver{newDiskDriver("disk", false)}
			c := testcheck.Must(cluster.New(cfg))
			defer func() { testcheck.NoError(t, c.Close()) }()
			testcheck.NoError(t, c.Start(ctx))
			core := c.Client().CoreV1()
			class := "disk"
			other := cluster.NewClaim("other", "32Mi")
			other.Spec.StorageClassName = &class
			for _, claim := range []*corev1.PersistentVolumeClaim{cluster.NewClaim("data", "32Mi"), other} {
				testcheck.Must(core.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
			}
			testcheck.Must(core.Pods("default").Create(ctx, cluster.NewPod("web", "data", "other"), metav1.CreateOptions{}))
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			for _, volume := range []string{"data", "other"} {
				testcheck.NoError(t, c.WriteFile("default", "web", volume, "file", []byte(volume)))
			}
			obj, _ := c.Server().Get("persistentvolumeclaims", "default", "other")
			volume, _ := c.Server().Get("persistentvolumes", "", obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName)
			if got := volume.(*corev1.PersistentVolume).Spec.CSI.Driver; got != diskDriver {
				t.Errorf("volume of driver %s", got)
			}
			for _, kind := range []string{"provisioner", "attacher", "resizer"} {
				testcheck.NoError(t, c.Crash(kind+"("+diskDriver+")"))
			}
			leaks := testcheck.Must(c.Leaks())
			if all := strings.Join(leaks, "\n"); !strings.Contains(all, "of driver "+diskDriver) {
				t.Errorf("leaks while the volume exists:\n%s", all)
			}
			testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			for _, claim := range []string{"data", "other"} {
				testcheck.NoError(t, core.PersistentVolumeClaims("default").Delete(ctx, claim, metav1.DeleteOptions{}))
				testcheck.NoError(t, c.WaitForGone(ctx, "persistentvolumeclaims", "default", claim))
			}
			testcheck.NoError(t, c.WaitForRest(ctx))
			if leaks := testcheck.Must(c.Leaks()); len(leaks) > 0 {
				t.Errorf("leaks: %v", leaks)
			}
		})
	}
}
