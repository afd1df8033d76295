package invariant_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// A volume that is bound to one claim is bound to another one, as by a defective controller.
func ExampleWatch() {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	checker := invariant.Watch(invariant.World{API: server, Log: host.Log(), Now: host.Now}, invariant.Rules()...)

	claim := func(name string, uid types.UID) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: uid}}
	}
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	disk.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "mine", UID: "1"}
	fmt.Println(server.Add(claim("mine", "1"), claim("yours", "2"), disk), checker.FirstViolation() == nil)

	server.UpdateStored("persistentvolumes", "", "disk", func(stored fake.Object) fake.Object {
		v := stored.DeepCopyObject().(*corev1.PersistentVolume)
		v.Spec.ClaimRef.Name, v.Spec.ClaimRef.UID = "yours", "2"
		return v
	})
	fmt.Println(checker.FirstViolation())
	// Output:
	// <nil> true
	// I2: a volume rebound to another claim without being unbound in between: volume disk was rebound from claim default/mine (1) to claim default/yours (2)
}

// The example lists what is pending according to the API objects alone.
func ExamplePendingObjects() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	for _, pendingObject := range invariant.PendingObjects(fake.NewClientset(pod, volume).Server()) {
		fmt.Println(pendingObject)
	}
	// Output:
	// pod default/web is not running
	// volume disk must become Available or Bound
}
