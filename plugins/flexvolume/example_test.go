package flexvolume_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/flexvolume"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A driver is a program on a disk. On a disk in memory it is a function.
func ExampleNew() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	disk, program := nodefs.NewMemory("/"), flexvolume.Dir+"/example.com~disk/disk"
	_ = disk.MkdirAll(flexvolume.Dir + "/example.com~disk")
	_ = disk.WriteProgram(program, func(_ context.Context, args ...string) ([]byte, error) {
		fmt.Println(strings.Join(args, " "))
		if args[0] == "attach" {
			return []byte(`{"status": "Success", "device": "/dev/sdx"}`), nil
		}
		return []byte(`{"status": "Success", "capabilities": {"attach": true}}`), nil
	})

	process := host.Process("attachdetach")
	process.Spawn("attach", func(ctx context.Context) {
		plugin, err := flexvolume.New(ctx, flexvolume.Config{Process: process, FS: disk}, program, "example.com/disk")
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
	})
	fmt.Println(host.Run())
	// Output:
	// init
	// attaches: true
	// getvolumename {"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"data","kubernetes.io/readwrite":"rw"}
	// attach {"kubernetes.io/fsType":"ext4","kubernetes.io/pvOrVolumeName":"data","kubernetes.io/readwrite":"rw"} node-1
	// /dev/sdx <nil>
	// detach data node-1
	// <nil>
	// <nil>
}
