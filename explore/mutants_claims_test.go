package explore_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/fake"
)

// claimMutants are about claims and volumes.
var claimMutants = []mutant{
	{
		name: "volumes are reserved whatever their version", rule: "I2", history: "origin#4829",
		scenario: `
nodes: 1
parts: pvcontroller, scheduler, kubelet
user alice
  create class late binding=WaitForFirstConsumer
  create volume v1 1Gi class=late
  create volume v2 2Gi class=late
  create claim c1 1Gi class=late volume=v1
  create claim c2 1Gi class=late
  create pod web c2
`,
		between: client("pvcontroller", unconditional("persistentvolumes", "")),
		config:  explore.Config{},
		within:  100,
	},
}

// unconditional drops the resourceVersion from a part's updates of a resource.
func unconditional(resource, subresource string) func(own *fake.Clientset) intercepting {
	return func(own *fake.Clientset) intercepting {
		return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			volume, ok := r.Body.(*corev1.PersistentVolume)
			if !ok || r.Verb != "update" || r.Resource.Resource != resource || r.Subresource != subresource {
				return serve()
			}
			volume = volume.DeepCopy()
			volume.ResourceVersion = ""
			return own.CoreV1().PersistentVolumes().Update(context.Background(), volume, metav1.UpdateOptions{})
		}
	}
}
