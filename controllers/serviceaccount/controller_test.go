package serviceaccount_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// world is a server with a service accounts controller, and the namespace n.
type world struct {
	*testworld.World
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := testworld.NewWith(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 5000},
		fake.Config{Namespaces: []string{"n"}})
	process := w.Host.Process("serviceaccount")
	var seen informers.SharedInformerFactory
	seen = w.Server.Informers(process,
		fake.Filter{
			Resource: "serviceaccounts", Fields: "metadata.name=" + serviceaccount.AccountName,
			Match: func(_, is fake.Object) bool { return is == nil },
		},
		fake.Filter{
			Resource: "namespaces",
			Match: func(_, is fake.Object) bool {
				return is != nil && serviceaccount.NeedsServiceAccount(seen, is.(*corev1.Namespace))
			},
		})
	serviceaccount.New(serviceaccount.Config{Process: process, Client: w.Server.Client(process), Informers: seen})
	return &world{w}
}

// accounts returns the service accounts except those of a world's first namespaces, but with that
// of n.
func (w *world) accounts() string {
	var all []string
	for _, obj := range w.Server.List("serviceaccounts") {
		if strings.HasPrefix(obj.GetNamespace(), "n") {
			all = append(all, obj.GetNamespace()+"/"+obj.GetName())
		}
	}
	return strings.Join(all, " ")
}

// TestAccounts has the applicable cases of upstream's TestServiceAccountCreation.
func TestAccounts(t *testing.T) {
	ctx := context.Background()
	namespace := func(name string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"x.io/a"}}}
	}
	remove := func(w *world, name string) {
		w.NoError(w.User.CoreV1().ServiceAccounts("n").Delete(ctx, name, metav1.DeleteOptions{}))
	}
	tests := []struct {
		name string
		act  func(w *world)
		want string
	}{
		{"no change", func(*world) {}, "n/default"},
		{"a namespace is created", func(w *world) {
			testcheck.Must(w.User.CoreV1().Namespaces().Create(ctx, namespace("nn"), metav1.CreateOptions{}))
		}, "n/default nn/default"},
		{"a namespace is created and deleted at once", func(w *world) {
			testcheck.Must(w.User.CoreV1().Namespaces().Create(ctx, namespace("nn"), metav1.CreateOptions{}))
			w.NoError(w.User.CoreV1().Namespaces().Delete(ctx, "nn", metav1.DeleteOptions{}))
		}, "n/default"},
		{"the account is deleted", func(w *world) { remove(w, "default") }, "n/default"},
		{"the account of a deleted namespace is deleted", func(w *world) {
			w.NoError(w.User.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
			remove(w, "default")
		}, ""},
		{"another account is created and deleted", func(w *world) {
			testcheck.Must(w.User.CoreV1().ServiceAccounts("n").Create(ctx,
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
			remove(w, "x")
		}, "n/default"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(20) {
				w := newWorld(t, sim.NewSeeded(seed))
				for range seed % 3 {
					w.Host.Step()
				}
				tt.act(w)
				w.Run()
				if diff := cmp.Diff(tt.want, w.accounts()); diff != "" {
					t.Fatalf("seed %d: accounts (-want +got):\n%s\n%s", seed, diff, w.Host.Log().Text())
				}
			}
		})
	}
}

// Without changes of namespaces or accounts, the controller has nothing to do.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, nil)
	w.Run()
	if got := w.Host.Steps(); got != 0 {
		t.Errorf("%d steps\n%s", got, w.Host.Log().Text())
	}
}
