package csi_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A driver behind a real gRPC server, in memory.
func ExampleServe() {
	box := array.New(array.Config{})
	driver, err := csi.Serve(func(r grpc.ServiceRegistrar) { csispec.RegisterIdentityServer(r, box.Identity()) })
	if err != nil {
		log.Fatal(err)
	}
	info, err := csispec.NewIdentityClient(driver.Conn()).GetPluginInfo(context.Background(),
		&csispec.GetPluginInfoRequest{})
	fmt.Println(info.GetName(), err)
	fmt.Println(driver.Stop())
	// Output:
	// array.csi.volsim.dev <nil>
	// <nil>
}

// A kubelet registers a driver, and publishes what the driver reports of the node.
func ExamplePlugin() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	box, disk := array.New(array.Config{}), nodefs.NewMemory("/var/lib/kubelet")
	kubelet := host.Process("kubelet(node-1)")
	plugin := csi.New(csi.Config{
		Process: kubelet, Client: server.Client(kubelet), CSIDrivers: server.Informers(kubelet).Storage().V1().CSIDrivers(),
		NodeName: "node-1", Root: "/var/lib/kubelet", FS: disk,
		Dial: func(driver, _ string) (grpc.ClientConnInterface, error) {
			conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, box.Node("node-1", disk)) })
			return csi.Suspend(kubelet, driver, conn), nil
		},
	})
	if err := server.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}); err != nil {
		log.Fatal(err)
	}
	kubelet.Spawn("register", func(ctx context.Context) {
		r := plugins.Registration{Type: "CSIPlugin", Name: array.DriverName, Versions: []string{"1.0.0"}}
		fmt.Println(errors.Join(plugin.ValidatePlugin(r), plugin.RegisterPlugin(ctx, r)))
	})
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, r := range host.Log().Records() {
		if r.Kind == trace.KindDriver {
			fmt.Println(r.Action)
		}
	}
	for _, obj := range server.List("csinodes") {
		for _, d := range obj.(*storagev1.CSINode).Spec.Drivers {
			fmt.Println(obj.GetName(), "has", d.Name, "with node ID", d.NodeID)
		}
	}
	// Output:
	// <nil>
	// driver NodeGetCapabilities array.csi.volsim.dev
	// driver NodeGetInfo array.csi.volsim.dev
	// node-1 has array.csi.volsim.dev with node ID node-1
}
