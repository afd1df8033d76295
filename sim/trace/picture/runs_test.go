package picture_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
	"github.com/volsim/volsim/sim/trace/picture"
)

// A run is the records of a run, and the options of its pictures.
type run struct {
	records []trace.Record
	options picture.Options
}

// runOf runs a scenario, perhaps with a broken component.
func runOf(t testing.TB, s *scenario.Scenario, between cluster.Interceptors) run {
	t.Helper()
	s.Interceptors = between
	r, err := s.Run(context.Background(), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r.Mismatch != "" {
		t.Fatalf("scenario %s: the schedule does not fit: %s", s.Name, r.Mismatch)
	}
	return run{r.Trace.Records(), scenario.Picture(s, r)}
}

// kept returns the scenario in a file, without the story after it.
func kept(t testing.TB, file string) *scenario.Scenario {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\n\n")
	s, err := scenario.Parse(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), head)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inBook returns a built-in scenario.
func inBook(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// before returns interceptors between one component and the API server.
func before(process string, stands fake.InterceptorFunc) cluster.Interceptors {
	return cluster.Interceptors{Client: func(of string, client *fake.Clientset) *fake.Clientset {
		if of != process {
			return client
		}
		return client.WithInterceptor(stands)
	}}
}

// careless makes the PersistentVolume controller update volumes without a resourceVersion.
func careless() cluster.Interceptors {
	return before("pvcontroller", func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if volume, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "update" {
			volume.ResourceVersion = ""
		}
		return serve()
	})
}

// trusting answers every list of pods by the claim protection with an empty list, so that it relies on its
// cache.
func trusting() cluster.Interceptors {
	return before("pvcprotection", func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Verb == "list" && r.Resource.Resource == "pods" {
			return &corev1.PodList{}, nil
		}
		return serve()
	})
}

const stories = "../../../explore/scenario/testdata/"

// runs returns the runs whose pictures are in testdata.
func runs(t testing.TB) map[string]run {
	t.Helper()
	twice := kept(t, stories+"unconditional-updates.story")
	twice.Name = "two-binders"
	return map[string]run{
		"old-list":              runOf(t, kept(t, stories+"restart.story"), careless()),
		"held-delivery":         runOf(t, kept(t, stories+"no-live-list.story"), trusting()),
		"unconditional-updates": runOf(t, kept(t, stories+"unconditional-updates.story"), careless()),
		"conflict":              runOf(t, twice, cluster.Interceptors{}),
		"kubelet-crash":         runOf(t, kept(t, stories+"kubelet/seen-and-not-looked-at.txt"), cluster.Interceptors{}),
		"lost-create":           runOf(t, kept(t, stories+"attach/lostcreate.txt"), cluster.Interceptors{}),
		"one-pod-life":          runOf(t, inBook(t, "one-pod-life"), cluster.Interceptors{}),
		"pod-moves":             runOf(t, inBook(t, "pod-moves"), cluster.Interceptors{}),
		"node-is-lost":          runOf(t, inBook(t, "node-is-lost"), cluster.Interceptors{}),
	}
}
