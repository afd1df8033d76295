package rootca_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"

	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

const certificate = "the certificate"

// world is a server with a root CA publisher, and the namespace n.
type world struct {
	*testworld.World
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := testworld.NewWith(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 5000},
		fake.Config{Namespaces: []string{"n"}, RootCA: certificate})
	process := w.Host.Process("rootca")
	var seen informers.SharedInformerFactory
	seen = w.Server.Informers(process,
		fake.Filter{
			Resource: "configmaps", Fields: "metadata.name=" + rootca.ConfigMapName,
			Match: func(_, is fake.Object) bool {
				return is == nil || !rootca.IsUpToDate(is.(*corev1.ConfigMap), certificate)
			},
		},
		fake.Filter{
			Resource: "namespaces",
			Match: func(_, is fake.Object) bool {
				return is != nil &&
					rootca.NeedsConfigMap(seen, is.(*corev1.Namespace))
			},
		})
	rootca.New(rootca.Config{Process: process, Client: w.Server.Client(process), Informers: seen, RootCA: certificate})
	return &world{w}
}

// published returns the config maps of the namespaces that begin with n, and their defects.
func (w *world) published() string {
	var all []string
	for _, obj := range w.Server.List("configmaps") {
		if !strings.HasPrefix(obj.GetNamespace(), "n") {
			continue
		}
		text := obj.GetNamespace() + "/" + obj.GetName()
		if !rootca.IsUpToDate(obj.(*corev1.ConfigMap), certificate) {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestPublish has the applicable cases of upstream's TestConfigMapCreation.
func TestPublish(t *testing.T) {
	ctx := context.Background()
	patch := func(w *world, name, data string) {
		testcheck.Must(w.User.CoreV1().ConfigMaps("n").Patch(ctx, name, types.MergePatchType, []byte(data),
			metav1.PatchOptions{}))
	}
	remove := func(w *world) {
		w.NoError(w.User.CoreV1().ConfigMaps("n").Delete(ctx, rootca.ConfigMapName, metav1.DeleteOptions{}))
	}
	tests := []struct {
		name string
		act  func(w *world)
		want string
	}{
		{"no change", func(*world) {}, "n/kube-root-ca.crt"},
		{"a namespace is created", func(w *world) {
			testcheck.Must(w.User.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nn"}},
				metav1.CreateOptions{}))
		}, "n/kube-root-ca.crt nn/kube-root-ca.crt"},
		{"the config map is deleted", remove, "n/kube-root-ca.crt"},
		{"the config map of a deleted namespace is deleted", func(w *world) {
			w.NoError(w.User.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}))
			remove(w)
		}, ""},
		{
			"the certificate is changed", func(w *world) { patch(w, rootca.ConfigMapName, `{"data":{"ca.crt":"x"}}`) },
			"n/kube-root-ca.crt",
		},
		{
			"something is added", func(w *world) { patch(w, rootca.ConfigMapName, `{"data":{"x":"y"}}`) },
			"n/kube-root-ca.crt",
		},
		{
			"the description is removed",
			func(w *world) { patch(w, rootca.ConfigMapName, `{"metadata":{"annotations":null}}`) },
			"n/kube-root-ca.crt",
		},
		{"another config map", func(w *world) {
			testcheck.Must(w.User.CoreV1().ConfigMaps("n").Create(ctx,
				&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
			patch(w, "x", `{"data":{"x":"y"}}`)
		}, "n/kube-root-ca.crt n/x?"},
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
				if diff := cmp.Diff(tt.want, w.published()); diff != "" {
					t.Fatalf("seed %d: maps (-want +got):\n%s\n%s", seed, diff, w.Host.Log().Text())
				}
			}
		})
	}
}

// Without changes of namespaces or config maps, the controller has nothing to do.
func TestNothingToDo(t *testing.T) {
	w := newWorld(t, nil)
	testcheck.Must(w.User.CoreV1().ConfigMaps("n").Create(context.Background(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))
	w.Run()
	if got := w.Host.Steps(); got != 0 {
		t.Errorf("%d steps\n%s", got, w.Host.Log().Text())
	}
}
