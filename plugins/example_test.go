package plugins_test

import (
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A manager finds the plugin of a volume and its capabilities.
func ExampleManager() {
	machine := hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
	var manager plugins.Manager
	err := manager.Register(
		hostpath.New(hostpath.Config{Caller: sim.DirectCaller(), Machine: machine}),
		nfs.New(nfs.Config{Recycler: recycler.New(recycler.Config{})}),
	)
	if err != nil {
		log.Fatal(err)
	}
	volume := &corev1.PersistentVolume{}
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "files", Path: "/exports/a"}
	spec := &plugins.Spec{PersistentVolume: volume}
	found, err := manager.FindBySpec(spec)
	fmt.Println(found.Name(), err)
	fmt.Println("recycles:", found.Recycler != nil, "deletes:", found.Deleter != nil)
	_, err = manager.FindDeletableBySpec(spec)
	fmt.Println(err, errors.Is(err, plugins.ErrUnsupported))
	_, err = manager.FindByName("kubernetes.io/csi")
	fmt.Println(err, errors.Is(err, plugins.ErrNoPlugin))
	// Output:
	// kubernetes.io/nfs <nil>
	// recycles: true deletes: false
	// no deletable volume plugin matched true
	// no volume plugin matched name: kubernetes.io/csi true
}
