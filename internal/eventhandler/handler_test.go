package eventhandler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/eventhandler"
)

// informer returns its handler; its other methods are not implemented.
type informer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return nil, nil
}

func pod(uid types.UID) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid}}
}

func TestObjectsAreDistinguishedByUID(t *testing.T) {
	i := &informer{}
	var calls []string
	eventhandler.Add(i, func(old, pod *corev1.Pod) {
		if old == nil {
			calls = append(calls, "new "+string(pod.UID))
			return
		}
		calls = append(calls, "changed "+string(pod.UID))
	}, func(p *corev1.Pod) { calls = append(calls, "gone "+string(p.UID)) })
	i.handler.OnAdd(pod("1"), true)
	i.handler.OnUpdate(pod("1"), pod("1"))
	i.handler.OnUpdate(pod("1"), pod("2")) // deleted and recreated between two lists
	i.handler.OnDelete(pod("2"))
	i.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "p", Obj: pod("3")})
	want := []string{"new 1", "changed 1", "gone 1", "new 2", "gone 2", "gone 3"}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestGoneMayBeNil(t *testing.T) {
	i := &informer{}
	changes := 0
	eventhandler.Add(i, func(_, _ *corev1.Pod) { changes++ }, nil)
	i.handler.OnAdd(pod("1"), true)
	i.handler.OnUpdate(pod("1"), pod("2"))
	i.handler.OnDelete(pod("2"))
	if changes != 2 {
		t.Errorf("%d changes, want 2", changes)
	}
}
