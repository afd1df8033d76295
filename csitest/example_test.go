package csitest_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/csitest"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// newDisks returns a driver whose services are in this program, without volumes.
func newDisks() cluster.Driver {
	disks := array.New(array.Config{DriverName: "disk.example.com"})
	return cluster.Driver{
		Name: "disk.example.com",
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterControllerServer(r, disks.Controller())
			}, nil
		},
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			node := disks.Node(at.Name, at.Disk.(*nodefs.Memory))
			return func(r grpc.ServiceRegistrar) {
				csispec.RegisterIdentityServer(r, disks.Identity())
				csispec.RegisterNodeServer(r, node)
			}, nil
		},
		Classes: []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		}}},
	}
}

// A test of a driver is one call.
func ExampleCheck() {
	var t *testing.T // of the test
	_ = func() { csitest.Check(t, csitest.Target{New: newDisks}) }
}

// A pod starts although the first NodeStageVolume fails, and the second one takes effect without an answer.
func ExampleScript() {
	script := &csitest.Script{}
	script.On("NodeStageVolume", 1, csitest.Answer{Code: codes.Aborted})
	script.On("NodeStageVolume", 2, csitest.Answer{Code: codes.Unavailable, Late: true})
	c, err := cluster.New(cluster.Config{
		Stepped: &sim.SteppedConfig{}, WithoutDriver: true, PreRegistered: true, Drivers: []cluster.Driver{script.Driver(newDisks())},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if err := c.Start(ctx); err != nil {
		log.Fatal(err)
	}
	claims := c.Client().CoreV1().PersistentVolumeClaims("default")
	if _, err := claims.Create(ctx, cluster.NewClaim("data", "64Mi"), metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Client().CoreV1().Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
		log.Fatal(err)
	}
	for _, call := range script.Calls("NodeStageVolume") {
		fmt.Println(call.Node, status.Code(call.Err))
	}
	// Output:
	// node-1 Aborted
	// node-1 Unavailable
	// node-1 OK
}
