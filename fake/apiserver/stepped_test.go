package apiserver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestAClientsetIsSuspendedAtEachRequest runs client-go's clientset in two users of a stepped host.
// Their requests alternate, one a step.
func TestAClientsetIsSuspendedAtEachRequest(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	s := fake.NewServer(fake.Config{Now: host.Now})
	var order []string
	for _, name := range []string{"a", "b"} {
		c := host.Process(name)
		claims := kubernetes.NewForConfigOrDie(apiserver.NewConfig(s, c)).CoreV1().PersistentVolumeClaims("default")
		c.User("", func(ctx context.Context) {
			testcheck.Must(claims.Create(ctx, newClaim(name), metav1.CreateOptions{}))
			order = append(order, name+" created")
			testcheck.Must(claims.Get(ctx, name, metav1.GetOptions{}))
			order = append(order, name+" got")
			list := testcheck.Must(claims.List(ctx, metav1.ListOptions{}))
			order = append(order, fmt.Sprintf("%s listed %d", name, len(list.Items)))
		})
	}
	if err := host.Run(); err != nil {
		t.Fatal(err)
	}
	want := []string{"a created", "b created", "a got", "b got", "a listed 2", "b listed 2"}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestAClientsetIsUnwound closes a host while a request of a client-go client is suspended.
func TestAClientsetIsUnwound(t *testing.T) {
	host := sim.NewStepped(sim.SteppedConfig{})
	s := fake.NewServer(fake.Config{Now: host.Now})
	c := host.Process("a")
	claims := kubernetes.NewForConfigOrDie(apiserver.NewConfig(s, c)).CoreV1().PersistentVolumeClaims("default")
	unwound, returned := false, false
	c.User("", func(ctx context.Context) {
		defer func() { unwound = true }()
		_, _ = claims.Create(ctx, newClaim("a"), metav1.CreateOptions{})
		returned = true
	})
	host.Step()
	host.Close()
	if !unwound || returned {
		t.Errorf("unwound %v, returned %v", unwound, returned)
	}
	if got := s.List("persistentvolumeclaims"); len(got) != 0 {
		t.Errorf("left: %d claims", len(got))
	}
}
