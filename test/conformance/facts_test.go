package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientrest "k8s.io/client-go/rest"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/facts"
	"github.com/volsim/volsim/sim/trace"
)

// factMax is the time limit of a fact that waits for a missing event.
const factMax = 30 * time.Second

// TestFactsAreFacts checks volsim's facts about the API server on a real one.
func TestFactsAreFacts(t *testing.T) {
	cfg := realServer(t)
	transport, err := clientrest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	all, err := facts.All()
	if err != nil {
		t.Fatal(err)
	}
	wire := facts.HTTPClient(cfg.Host, transport, true)
	if err := facts.Install(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		t.Run(f.String(), func(t *testing.T) { check(t, wire, f) })
	}
}

func check(t *testing.T, way facts.Client, f facts.Fact) {
	if why := f.SkipReason(way.Traits()); why != "" {
		t.Skip(why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), factMax)
	defer cancel()
	switch err := facts.Check(ctx, way, f); {
	case errors.Is(err, facts.ErrUnsupported):
		t.Skip(err)
	case err != nil:
		t.Error(err)
	}
}

// A direct is a Caller without delay or trace.
type direct struct{}

func (direct) Call(_ trace.Action, effect func() trace.Outcome) trace.Outcome { return effect() }
func (direct) Now() time.Time                                                 { return time.Now() }

// BenchmarkCreate creates claims sequentially through a rest.Config, on the in-memory server and on
// a real one.
func BenchmarkCreate(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		createClaims(b, apiserver.NewConfig(fake.NewServer(fake.Config{Now: time.Now}), direct{}))
	})
	b.Run("kube-apiserver", func(b *testing.B) { createClaims(b, realServer(b)) })
}

func createClaims(b *testing.B, cfg *clientrest.Config) {
	b.Helper()
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; b.Loop(); i++ {
		if err := createClaim(b.Context(), c, i); err != nil {
			b.Fatal(err)
		}
	}
}

func createClaim(ctx context.Context, c kubernetes.Interface, i int) error {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("claim-%d", i)},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
	_, err := c.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	return err
}
