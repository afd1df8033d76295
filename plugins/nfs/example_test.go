package nfs_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/sim"
)

// An NFS export is recycled by a pod that mounts it.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	controller := host.Process("pvcontroller")
	pods := server.Informers(controller).Core().V1().Pods()
	pods.Informer()
	plugin := nfs.New(nfs.Config{
		Recycler: recycler.New(recycler.Config{Process: controller, Client: server.Client(controller), Pods: pods}),
	})

	volume := &corev1.PersistentVolume{}
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "files", Path: "/exports/a"}
	controller.Spawn("recycle", func(ctx context.Context) {
		spec := &plugins.Spec{PersistentVolume: volume}
		// returns when the pod has run
		fmt.Println(plugin.Recycle(ctx, plugins.RecycleOptions{
			Volume: "export-a", Spec: spec,
			RecordEvent: func(_, _ string) {},
		}))
	})
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	for _, obj := range server.List("pods") {
		source := obj.(*corev1.Pod).Spec.Volumes[0].NFS
		fmt.Println(obj.GetName(), "mounts", source.Server, source.Path)
	}
	// Output:
	// recycler-for-export-a mounts files /exports/a
}
