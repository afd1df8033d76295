package fake_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
)

// An interceptor's changes of a body are sent, again with each call of serve. Neither the caller's
// object nor a stored one changes.
func TestInterceptorChangesTheBody(t *testing.T) {
	var bodies []*corev1.ConfigMap
	client := fake.NewClientset().WithInterceptor(fake.InterceptorFunc(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if body, is := r.Body.(*corev1.ConfigMap); is {
			body.Data["by"], body.ResourceVersion = r.Verb, ""
			bodies = append(bodies, body)
		}
		return serve()
	}))
	maps := client.CoreV1().ConfigMaps("default")
	sent := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Data: map[string]string{"by": "nobody"}}
	made, err := maps.Create(t.Context(), sent, metav1.CreateOptions{})
	if err != nil || made.Data["by"] != "create" {
		t.Fatalf("created %v (%v)", made, err)
	}
	old := made.DeepCopy()
	for range 2 { // the second has no conflict, since it has no resourceVersion
		if made, err = maps.Update(t.Context(), old, metav1.UpdateOptions{}); err != nil || made.Data["by"] != "update" {
			t.Fatalf("updated %v (%v)", made, err)
		}
	}
	if sent.Data["by"] != "nobody" || old.Data["by"] != "create" || old.ResourceVersion == "" {
		t.Errorf("the caller's objects are %v and %v now", sent, old)
	}
	for _, body := range bodies {
		body.Data["by"] = "later"
	}
	if stored, err := maps.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || stored.Data["by"] != "update" {
		t.Errorf("stored is %v (%v)", stored, err)
	}
}
