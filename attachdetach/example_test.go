package attachdetach_test

import (
	"context"
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// rack is a plugin that prints its calls.
type rack struct{}

func (rack) Name() string                                  { return "example.com/rack" }
func (rack) CanSupport(spec *plugins.Spec) bool            { return spec.PersistentVolume != nil }
func (rack) VolumeName(spec *plugins.Spec) (string, error) { return spec.Name(), nil }
func (rack) CanAttach(*plugins.Spec) (bool, error)         { return true, nil }
func (rack) Detach(_ context.Context, volume string, node types.NodeName) error {
	fmt.Println("detach", volume, "from", node)
	return nil
}

func (rack) Attach(_ context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	fmt.Println("attach", spec.Name(), "to", node)
	return "/dev/" + spec.Name(), nil
}

// A pod with a volume is on a node: the volume is attached there. The pod is deleted: the volume is
// detached.
func Example() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	component := host.Process("attachdetach")
	client := server.Client(component)
	var manager plugins.Manager
	if err := manager.Register(rack{}); err != nil {
		log.Fatal(err)
	}
	attachdetach.New(attachdetach.Config{
		Process: component, Client: client, Informers: server.Informers(component), Plugins: &manager,
		Recorder: events.New(events.Config{Process: component, Client: client, Source: attachdetach.EventSource}),
	})

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Annotations: map[string]string{attachdetach.ManagedAnnotation: "true"},
	}}
	claim := cluster.NewClaim("data", "1Gi")
	claim.Namespace, claim.UID, claim.Spec.VolumeName, claim.Status.Phase = "default", "1", "disk", corev1.ClaimBound
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "1"}
	pod := cluster.NewPod("web", "data")
	pod.Namespace, pod.Spec.NodeName = "default", "node-1"
	if err := server.Add(node, claim, volume, pod); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	there, _ := server.Get("nodes", "", "node-1")
	fmt.Println("the node's status lists:", there.(*corev1.Node).Status.VolumesAttached)

	atOnce := int64(0)
	pods := server.Client(host.ExternalCaller()).CoreV1().Pods("default")
	if err := pods.Delete(context.Background(), "web", metav1.DeleteOptions{GracePeriodSeconds: &atOnce}); err != nil {
		log.Fatal(err)
	}
	if err := host.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attach disk to node-1
	// the node's status lists: [{example.com/rack/disk /dev/disk}]
	// detach disk from node-1
}
