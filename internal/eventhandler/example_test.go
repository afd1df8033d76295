package eventhandler_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/informercache"
)

// A pod is deleted and recreated between two lists. The informer reports an update, Add a deletion
// and an addition.
func ExampleAdd() {
	pods := informercache.New("pods") // an informer
	eventhandler.Add(pods, func(old, pod *corev1.Pod) {
		fmt.Println("changed:", pod.Name, pod.UID, "new:", old == nil)
	}, func(pod *corev1.Pod) {
		fmt.Println("gone:", pod.Name, pod.UID)
	})
	list := func(uid types.UID, revision string) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-0", UID: uid, ResourceVersion: revision,
		}}
		pods.Replace([]any{pod}, revision)
	}
	list("first", "1")
	list("second", "4")
	// Output:
	// changed: web-0 first new: true
	// gone: web-0 first
	// changed: web-0 second new: true
}
