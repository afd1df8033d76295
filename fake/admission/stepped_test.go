package admission_test

import (
	"context"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim"
)

var quiet = log.New(io.Discard, "", 0)

// Between the mutating webhook of a write and its commit another task may write: the webhook is called again, with what
// is stored then.
func TestOtherTasksRunBeforeTheWebhook(t *testing.T) {
	r := newRig(t, map[string]answer{"a": label("a", "1")})
	_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
	r.noError(err)
	r.mutating("hooks", "", hook("a", about(rule("", "v1", "persistentvolumeclaims/status", registrationv1.Update), rule("", "v1", "persistentvolumeclaims", registrationv1.Update))))
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	for _, name := range []string{"one", "two"} {
		p := host.Process(name)
		client := r.server.Client(p)
		p.User("patch", func(ctx context.Context) {
			_, err := client.CoreV1().PersistentVolumeClaims("default").Patch(ctx, "data", "application/merge-patch+json",
				[]byte(`{"metadata":{"annotations":{"`+name+`":"x"}}}`), metav1.PatchOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	r.noError(host.Run())
	var calls []string
	for _, record := range host.Log().Records() {
		calls = append(calls, record.Task+" "+record.Verb+" "+record.Object)
	}
	obj, _ := r.server.Get("persistentvolumeclaims", "default", "data")
	if a := obj.GetAnnotations(); a["one"] != "x" || a["two"] != "x" || obj.GetLabels()["a"] != "1" {
		t.Errorf("stored %v", a)
	}
	// Both are asked before either commits; the second to commit is asked again.
	if got := strings.Join(r.log, ", "); got != "a UPDATE PersistentVolumeClaim data, a UPDATE PersistentVolumeClaim data, a UPDATE PersistentVolumeClaim data" {
		t.Errorf("asked %s\n%s", got, strings.Join(calls, "\n"))
	}
}

// A webhook that sleeps in the world longer than its timeout has failed, although it answers.
func TestSlowWebhookInTheWorld(t *testing.T) {
	for _, test := range []struct {
		sleep time.Duration
		want  string
	}{{4 * time.Second, ""}, {5 * time.Second, `failed calling webhook "a.example.com": failed to call webhook: Post "https://a.hooks.svc:443/ask?timeout=5s": context deadline exceeded`}} {
		host := sim.NewStepped(sim.SteppedConfig{})
		defer host.Close()
		webhook := host.Process("webhook")
		r := newRig(t, map[string]answer{"a": func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			webhook.Sleep(test.sleep)
			return allow(q)
		}})
		r.validating("hooks", hook("a", func(h *registrationv1.ValidatingWebhook) { h.TimeoutSeconds = ptr.To[int32](5) }))
		p := host.Process("user")
		client := r.server.Client(p)
		var got error
		p.User("create", func(ctx context.Context) {
			_, got = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim("data"), metav1.CreateOptions{})
		})
		r.noError(host.Run())
		if test.want == "" {
			r.noError(got)
			continue
		}
		r.expectError(got, test.want)
	}
}

// The host may let a webhook fail, and the failure policy decides.
func TestFaultsOfWebhooks(t *testing.T) {
	for _, test := range []struct {
		change func(*registrationv1.ValidatingWebhook)
		want   string
	}{
		{func(*registrationv1.ValidatingWebhook) {}, `failed calling webhook "a.example.com": failed to call webhook: the server is currently unable to handle the request`},
		{ignored, ""},
	} {
		r := newRig(t, map[string]answer{"a": allow})
		r.validating("hooks", hook("a", test.change))
		host := sim.NewStepped(sim.SteppedConfig{Strategy: faulty{}})
		defer host.Close()
		p := host.Process("user")
		client := r.server.Client(p)
		var got error
		p.User("create", func(ctx context.Context) {
			_, got = client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim("data"), metav1.CreateOptions{})
		})
		r.noError(host.Run())
		if len(r.asked) > 0 {
			t.Error("a refused call had an effect")
		}
		if test.want == "" {
			r.noError(got)
			continue
		}
		r.expectError(got, test.want)
	}
}

// faulty refuses each call of a webhook.
type faulty struct{}

func (faulty) Decide(d *sim.Decision) sim.Move {
	move := sim.Move{}
	if action, ok := d.Task(0).Pending(); ok && action.Verb == "webhook" {
		move.Fault = sim.Fault{Kind: sim.FaultRefused}
	}
	return move
}
