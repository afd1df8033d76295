package fake_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// failing is a Caller that fails every call, before or after its effect.
type failing struct {
	sim.Caller
	after bool
}

var errLost = errors.New("connection lost")

func (f failing) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	if f.after {
		f.Caller.Call(action, effect)
	}
	return trace.Outcome{Err: errLost}
}

// A request can fail before it reaches the server, or its response can be lost. The client gets the
// same error in both cases.
func TestRequestsFailBeforeOrAfterTheirEffect(t *testing.T) {
	for _, after := range []bool{false, true} {
		server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
		host := sim.NewStepped(sim.SteppedConfig{})
		defer host.Close()
		client := server.Client(failing{Caller: host.ExternalCaller(), after: after})
		ctx := t.Context()
		nodes := client.CoreV1().Nodes()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		calls := map[string]func() error{
			"create": func() error { _, err := nodes.Create(ctx, node, metav1.CreateOptions{}); return err },
			"get":    func() error { _, err := nodes.Get(ctx, "n", metav1.GetOptions{}); return err },
			"list":   func() error { _, err := nodes.List(ctx, metav1.ListOptions{}); return err },
			"update": func() error { _, err := nodes.Update(ctx, node, metav1.UpdateOptions{}); return err },
			"patch": func() error {
				_, err := nodes.Patch(ctx, "n", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`),
					metav1.PatchOptions{})
				return err
			},
			"watch": func() error { _, err := nodes.Watch(ctx, metav1.ListOptions{}); return err },
			"delete collection": func() error {
				return nodes.DeleteCollection(ctx, metav1.DeleteOptions{},
					metav1.ListOptions{LabelSelector: "no=thing"})
			},
		}
		for _, name := range []string{"create", "get", "list", "update", "patch", "watch", "delete collection"} {
			if err := calls[name](); !errors.Is(err, errLost) {
				t.Errorf("%s (after effect: %v): error = %v, want %v", name, after, err, errLost)
			}
		}
		stored, ok := server.Get("nodes", "", "n")
		if ok != after || ok && !stored.(*corev1.Node).Spec.Unschedulable {
			t.Errorf("after effect %v: stored %v, %v", after, stored, ok)
		}
		if err := nodes.Delete(ctx, "n", metav1.DeleteOptions{}); !errors.Is(err, errLost) || apierrors.IsNotFound(err) {
			t.Errorf("delete: error = %v", err)
		}
		if _, ok := server.Get("nodes", "", "n"); ok {
			t.Error("node exists after its deletion took effect")
		}
	}
}
