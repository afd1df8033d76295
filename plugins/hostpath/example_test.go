package hostpath_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A directory is created for a claim, and deleted.
func Example() {
	machine := hostpath.Machine{FS: nodefs.NewMemory("/node-1"), Root: "/node-1"}
	plugin := hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine, Provisioning: true})

	claim := &corev1.PersistentVolumeClaim{}
	claim.Name, claim.UID = "data", "1"
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume, err := plugin.Provision(context.Background(), plugins.ProvisionOptions{Name: "pvc-1", Claim: claim})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(volume.Name, volume.Spec.HostPath.Path)
	fmt.Println(machine.Volumes())

	fmt.Println(plugin.Delete(context.Background(), &plugins.Spec{PersistentVolume: volume}))
	fmt.Println(machine.Volumes())
	// Output:
	// pvc-1 /tmp/hostpath_pv/1
	// [{pvc-1 /tmp/hostpath_pv/1 []}] <nil>
	// <nil>
	// [] <nil>
}
