package remote_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/pvcontroller"
)

// runBinder runs the PersistentVolume controller over a connection.
func (w *world) runBinder() {
	w.Helper()
	c, conn := w.connect("pvcontroller")
	pvcontroller.New(pvcontroller.Config{
		Process: c, Client: conn.Client(), Informers: conn.Informers(),
		Recorder: events.New(events.Config{Process: c, Client: conn.Client(), Source: pvcontroller.EventSource}),
	})
	w.Host.Start()
}

func (w *world) bound(claim string) func() bool {
	return func() bool {
		c := w.claim(claim)
		return c != nil && c.Status.Phase == corev1.ClaimBound
	}
}

// Claims and volumes bind that exist before the controller, and that are created later.
func TestClaimsBindByHTTPS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, fake.Config{})
	w.makeVolume("early")
	w.makeClaim("early")
	w.runBinder()
	w.Until("the claim that was there to be bound", w.bound("early"))
	w.makeClaim("late")
	w.Until("the event of the claim without a volume", func() bool {
		all, err := w.User.CoreV1().Events("default").List(context.Background(), metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.Reason == "FailedBinding" && e.InvolvedObject.Name == "late"
		})
	})
	w.makeVolume("late")
	w.Until("the claim that came to be bound", w.bound("late"))
	for _, name := range []string{"early", "late"} {
		if v := w.volume(name); v.Status.Phase != corev1.VolumeBound || v.Spec.ClaimRef.Name != name {
			t.Errorf("volume %s is %s, of claim %v", name, v.Status.Phase, v.Spec.ClaimRef)
		}
	}
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "late", metav1.DeleteOptions{}))
	testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), "late", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	w.Until("the volume to be released", func() bool { return w.volume("late").Status.Phase == corev1.VolumeReleased })
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.seen, func(agent string) bool { return !strings.HasPrefix(agent, "pvcontroller (") }) {
		t.Errorf("user agents %v, want pvcontroller's", w.seen)
	}
}
