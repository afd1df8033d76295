package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/volumemanager"
)

// drawer is a plugin that prints its calls.
type drawer struct{}

func (drawer) Name() string                                  { return "example.com/drawer" }
func (drawer) CanSupport(spec *plugins.Spec) bool            { return spec.Volume != nil }
func (drawer) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }

func (drawer) MountPath(spec *plugins.Spec, pod types.UID) string {
	return "/pods/" + string(pod) + "/" + spec.Name()
}

func (d drawer) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, _ plugins.MountOptions) error {
	fmt.Println("mount", d.MountPath(spec, pod.UID))
	return nil
}

func (d drawer) TearDown(_ context.Context, name string, pod types.UID) error {
	fmt.Println("unmount", "/pods/"+string(pod)+"/"+name)
	return nil
}

// A pod is added on the node: its volume is mounted. Its containers have ended: the volume is
// unmounted.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	component := host.Process("kubelet")
	client := server.Client(component)
	var manager plugins.Manager
	registered := manager.Register(drawer{})
	volumes := volumemanager.New(volumemanager.Config{
		Process: component, Client: client, NodeName: "node-1", Plugins: &manager,
		Recorder:      events.New(events.Config{Process: component, Client: client, Source: "kubelet", Host: "node-1"}),
		PodChanged:    func(types.UID) {}, // a kubelet checks here whether containers can start, or the pod can be removed
		ReportChanged: func() {},          // it writes VolumesInUse to the Node here, for which attached volumes wait
	})

	pod := cluster.NewPod("web", "data")
	pod.Namespace, pod.UID = "default", "1"
	pod.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	volumes.AddPod(pod)
	if err := errors.Join(registered, volumes.MarkAllPodsAdded(), host.Run()); err != nil {
		log.Fatal(err)
	}
	fmt.Println("containers can start:", volumes.Mounted(pod.UID))

	volumes.RemovePod(pod.UID)
	component.Wake() // set from outside
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	fmt.Println("something is left:", volumes.HasVolumes(pod.UID))
	// Output:
	// mount /pods/1/data
	// containers can start: true
	// unmount /pods/1/data
	// something is left: false
}
