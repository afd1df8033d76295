package kubelet_test

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

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/kubelet/pluginmanager"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sidecars/registrar"
	"github.com/volsim/volsim/sim"
)

// A node registers itself and its driver, and runs a pod. Volumes also need components that provision
// and attach them: package cluster has them all.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	disk, driver := nodefs.NewMemory("/"), array.New(array.Config{})
	conn := csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, driver.Identity())
		csispec.RegisterNodeServer(r, driver.Node("node-1", disk))
		registrar.New(array.DriverName, "/csi.sock").Register(r)
	})
	var sockets pluginmanager.Memory
	sockets.Put("/var/lib/kubelet/plugins_registry/array.sock", conn)

	component := host.Process("kubelet")
	_, failed := kubelet.New(kubelet.Config{
		Process: component, Client: server.Client(component), Node: "node-1",
		Informers: server.Informers(component,
			fake.Filter{Resource: "pods", Fields: "spec.nodeName=node-1"},
			fake.Filter{Resource: "nodes", Fields: "metadata.name=node-1"}),
		Root: "/var/lib/kubelet", FS: disk, BootID: "1", Sockets: &sockets,
		Dial: func(driver, _ string) (grpc.ClientConnInterface, error) {
			return csi.Suspend(component, driver, conn), nil
		},
	})
	pod := cluster.NewPod("web")
	pod.Spec.NodeName = "node-1"
	_, made := server.Client(host.ExternalCaller()).CoreV1().Pods("default").Create(context.Background(), pod, metav1.CreateOptions{})
	if err := errors.Join(failed, made, host.Run()); err != nil {
		log.Fatal(err)
	}

	drivers, _ := server.Get("csinodes", "", "node-1")
	fmt.Println("driver:", drivers.(*storagev1.CSINode).Spec.Drivers[0].Name)
	web, _ := server.Get("pods", "default", "web")
	fmt.Println("pod:", web.(*corev1.Pod).Status.Phase)
	// Output:
	// driver: array.csi.volsim.dev
	// pod: Running
}
