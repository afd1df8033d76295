package cluster_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// A pre-registered world contains the objects that the components of another one create at
// start-up, and its components do not change them.
func TestPreRegisteredEqualsStarted(t *testing.T) {
	registered, preRegistered := atRest(t, false), atRest(t, true)
	for _, resource := range []string{"nodes", "csinodes", "csidrivers", "storageclasses"} {
		want, got := registered.List(resource), preRegistered.List(resource)
		if len(want) != len(got) || len(want) == 0 {
			t.Fatalf("%s: %d pre-registered, %d registered", resource, len(got), len(want))
		}
		for i := range want {
			if w, g := sameElsewhere(want[i]), sameElsewhere(got[i]); !equality.Semantic.DeepEqual(w, g) {
				t.Errorf("%s: pre-registered\n%+v\nregistered\n%+v", resource, g, w)
			}
		}
	}
	for _, obj := range preRegistered.List("csinodes") {
		node, ok := preRegistered.Get("nodes", "", obj.GetName())
		if owners := obj.GetOwnerReferences(); !ok || len(owners) != 1 || owners[0].UID != node.GetUID() {
			t.Errorf("csinode %s is owned by %v", obj.GetName(), owners)
		}
	}
}

// atRest returns the API server of a started cluster.
func atRest(t *testing.T, preRegistered bool) *fake.Server {
	c, err := cluster.New(cluster.Config{
		Devices: cluster.Array, PreRegistered: preRegistered,
		Stepped: &sim.SteppedConfig{},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := c.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.Server()
}

// sameElsewhere returns an object without the fields that differ between worlds.
func sameElsewhere(obj fake.Object) fake.Object {
	obj = obj.DeepCopyObject().(fake.Object)
	obj.SetUID("")
	obj.SetResourceVersion("")
	obj.SetGeneration(0)
	obj.SetCreationTimestamp(metav1.Time{})
	obj.SetManagedFields(nil)
	switch o := obj.(type) {
	case *corev1.Node:
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].LastHeartbeatTime, o.Status.Conditions[i].LastTransitionTime = metav1.Time{}, metav1.Time{}
		}
	case *storagev1.CSINode:
		for i := range o.OwnerReferences {
			o.OwnerReferences[i].UID = ""
		}
	}
	return obj
}
