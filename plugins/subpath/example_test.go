package subpath_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/subpath"
	"github.com/volsim/volsim/sim"
)

// A container sees only the directory logs of a volume that is mounted for its pod.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	kubelet := host.Process("kubelet")
	disk := subpath.Binder{Process: kubelet, FS: nodefs.NewMemory("/node")}
	part := subpath.Subpath{
		PodDir: "/node/pods/1", Volume: "data", VolumePath: "/node/pods/1/volumes/data", Container: "web", Index: 0,
		Path: "logs",
	}
	kubelet.Spawn("start web", func(context.Context) {
		err := errors.Join(disk.FS.MkdirAll(part.VolumePath), disk.MakeDir(part, 0o755), disk.Bind(part))
		fmt.Println(part.Target(), err)
		// what the container writes there is in the volume
		err = disk.FS.WriteFile(part.Target()+"/today", []byte("hello"))
		text, readErr := disk.FS.ReadFile(part.VolumePath + "/logs/today")
		fmt.Println(string(text), errors.Join(err, readErr))
		// before the volume is unmounted, its subpaths are removed
		err = disk.Clean(part.PodDir, part.Volume)
		there, statErr := disk.FS.Exists(part.Target())
		fmt.Println("still there:", there, errors.Join(err, statErr))
	})
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// /node/pods/1/volume-subpaths/data/web/0 <nil>
	// hello <nil>
	// still there: false <nil>
}
