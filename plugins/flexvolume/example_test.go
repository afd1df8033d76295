package flexvolume_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/sim"
)

// A driver is a program. Here it is a function, as in a stepped world; flexvolume.Exec runs a real
// one.
func ExampleNew() {
	run := func(_ context.Context, program string, args ...string) ([]byte, error) {
		fmt.Println(program, strings.Join(args, " "))
		if args[0] == "attach" {
			return []byte(`{"status": "Success", "device": "/dev/sdx"}`), nil
		}
		return []byte(`{"status": "Success", "capabilities": {"attach": true}}`), nil
	}
	ctx := context.Background()
	plugin, err := flexvolume.New(ctx, flexvolume.Config{Caller: sim.DirectCaller(), Run: run},
		"/drivers/example.com~disk/disk", "example.com/disk")
	if err != nil {
		log.Fatal(err)
	}
	volume := &corev1.PersistentVolume{}
	volume.Name = "data"
	volume.Spec.FlexVolume = &corev1.FlexPersistentVolumeSource{Driver: "example.com/disk", FSType: "ext4"}
	attacher, attaches := plugin.(plugins.Attacher)
	fmt.Println("attaches:", attaches)
	fmt.Println(attacher.Attach(ctx, &plugins.Spec{PersistentVolume: volume}, "node-1"))
	fmt.Println(attacher.Detach(ctx, "data", "node-1"))
	// Output:
	// /drivers/example.com~disk/disk init
	// attaches: true
	// /drivers/example.com~disk/disk attach {"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"data","kubernetes.io/readwrite":"rw"} node-1
	// /dev/sdx <nil>
	// /drivers/example.com~disk/disk detach data node-1
	// <nil>
}
