package podclaims_test

import (
	"fmt"
	"log"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/podclaims"
)

// The claims of a pod, and the pods of a claim.
func Example() {
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	web.Spec.Volumes = []corev1.Volume{
		{Name: "content", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}},
		{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}},
	}
	fmt.Println(podclaims.Keys(web), podclaims.Terminated(web))

	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}) // a process uses that of its informer
	podclaims.AddIndex(pods)
	if err := pods.Add(web); err != nil {
		log.Fatal(err)
	}
	for _, pod := range podclaims.Using(pods, "default/data") {
		fmt.Println(pod.Name, "uses claim data")
	}
	// Output:
	// [default/data default/web-scratch] false
	// web uses claim data
}
