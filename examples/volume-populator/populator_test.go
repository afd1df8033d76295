package populator_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/cluster"
	populator "github.com/volsim/volsim/examples/volume-populator"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// TestBugIsFound finds that a claim gets a volume that is not filled, and nothing in the design of
// lib-volume-populator.
func TestBugIsFound(t *testing.T) {
	for design, want := range map[populator.Design]string{populator.Eager: "filled", populator.Patient: ""} {
		report, err := explore.Search(t.Context(), populator.World(design), explore.Config{Count: 40})
		testcheck.NoError(t, err)
		switch failure := report.Failure; {
		case failure == nil && want != "":
			t.Errorf("%s: no failure in %d schedules, want %s", design, report.Schedules, want)
		case failure != nil && failure.Scenario.Violates != want:
			t.Errorf("%s: violates %q, want %q\n%s", design, failure.Scenario.Violates, want, scenario.Story(failure.Scenario, failure.Result))
		case failure != nil:
			t.Logf("%s: schedule %d", design, failure.Schedules)
		}
	}
}

// TestContentIsRead runs a pod with a claim that was filled, and an unknown kind of source.
func TestContentIsRead(t *testing.T) {
	c, err := cluster.New(cluster.Config{
		Nodes: 1, Stepped: &sim.SteppedConfig{}, VolumePopulators: true, CRDDirectoryPaths: []string{"hello.yaml"},
		Extra: []cluster.Component{populator.Component(populator.Patient)},
	})
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	testcheck.NoError(t, c.Start(t.Context()))
	c.User("container", func(ctx context.Context) error { return populator.Container("world")(ctx, c) })
	testcheck.NoError(t, c.Apply(t.Context(), `
apiVersion: populator.storage.k8s.io/v1beta1
kind: VolumePopulator
metadata: {name: hello}
sourceKind: {group: hello.example.com, kind: Hello}
---
apiVersion: hello.example.com/v1
kind: Hello
metadata: {name: world, namespace: default}
spec: {text: hello world}
---
`+populator.Claim("world")+`
---
apiVersion: v1
kind: Pod
metadata: {name: reader, namespace: default}
spec:
  containers: [{name: reader, image: busybox, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
---
`+strings.NewReplacer("name: data", "name: unknown", "kind: Hello", "kind: Unheard").Replace(populator.Claim("world"))))
	testcheck.NoError(t, c.Run(t.Context()))
	if got := testcheck.Must(c.ReadFile("default", "reader", "data", "hello")); string(got) != "hello world" {
		t.Errorf("the pod reads %q", got)
	}
	for _, obj := range c.Server().List("persistentvolumeclaims") {
		if obj.GetNamespace() == populator.Namespace || len(obj.GetFinalizers()) > 1 {
			t.Errorf("claim %s/%s is left with finalizers %v", obj.GetNamespace(), obj.GetName(), obj.GetFinalizers())
		}
	}
	warned := false
	for _, obj := range c.Server().List("events") {
		e := obj.(*corev1.Event)
		if e.Reason == "UnrecognizedDataSourceKind" {
			warned = true
			if e.InvolvedObject.Name != "unknown" {
				t.Errorf("a warning about claim %s", e.InvolvedObject.Name)
			}
		}
	}
	if !warned {
		t.Error("no warning about the claim whose source nothing handles")
	}
}
