package scenario_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/sim"
)

const goneWhileUsed = `# The claim goes while its pod is being created.
components: pvcontroller, pvcprotection
rules: I1, I2
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data on=node-1
user bob
  wait claim data Bound
  delete claim data
`

func TestRunEndsAtRest(t *testing.T) {
	s, err := scenario.Parse("gone", goneWhileUsed)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(t.Context(), scenario.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Outcome.String(); r.Failure != nil || got != "1 pod Pending, 1 volume Released" {
		t.Errorf("ended with %s, %v\n%s", got, r.Failure, r.Trace.Text())
	}
}

func TestTextParsesBack(t *testing.T) {
	text := goneWhileUsed + "schedule\n  14 hold: pvcprotection/cache pods\n  20 event: crash pvcontroller\nviolates: I28\n"
	s, err := scenario.Parse("gone", text)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != text {
		t.Errorf("written again:\n%s\nwant\n%s", s, text)
	}
}

// A world without components differs from one with all components.
func TestNoComponentsParseBack(t *testing.T) {
	s := scenario.Scenario{Components: []string{}, Users: []scenario.User{{Name: "alice"}}}
	read, err := scenario.Parse("none", s.String())
	if err != nil || read.Components == nil || len(read.Components) > 0 {
		t.Errorf("written\n%sread with parts %v, %v, want none", s.String(), read.Components, err)
	}
}

func TestParseErrorsNameTheLine(t *testing.T) {
	for text, want := range map[string]string{
		"components: a\n": "no user",
		"user a\n  fly\n": "line 2",
		"user a\n  create claim c 1Gi colour=red\n": `unknown option "colour=" (have class=, volume=, modes=, mode=, snapshot=, clone=, app=)`,
		"user a\n  create claim c much\n":           "size",
		"user a\n  write pod p c size=much\n":       "size",
		"user a\n  create claim c\n":                "want create claim NAME SIZE, then options: class=",
		"  create claim c 1Gi\n":                    "indented line without a user",
		"volumes-per-node: 0\n":                     "at least 1",
		"selinux: strict\n":                         "want on",
		"user a\n  limit few\n":                     "want a number",
		"user a\n  pass soon\n":                     "want a duration",
		"user a\n  set node n\n":                    "want ready=",
		"weather: fine\n":                           "weather",
		"rules: I99\n":                              "I99",
		"faults: conflict\n":                        "conflict",
		"nodes: none\n":                             "none",
	} {
		if s, err := scenario.Parse("s", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v and %v, want an error with %q", text, s, err, want)
		}
	}
}

// lived runs a scenario that must pass, and returns its world.
func lived(t *testing.T, text string) *cluster.Cluster {
	t.Helper()
	s, err := scenario.Parse("s", text)
	if err != nil {
		t.Fatal(err)
	}
	var world *cluster.Cluster
	r, err := s.Run(t.Context(), scenario.Options{Watch: func(c *cluster.Cluster) { world = c }})
	if err != nil || r.Failure != nil {
		t.Fatal(err, r.Failure)
	}
	return world
}

// Users let time pass, set whether a node is ready and in service, and limit its volumes.
func TestUsersChangeNodes(t *testing.T) {
	const text = `nodes: 1
volumes-per-node: 3
components: kubelet
user alice
  set node node-1 ready=Unknown
  apply {"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"},"spec":{"taints":[{"effect":"NoSchedule","key":"drained"}]}}
  set node node-1 out-of-service=true
  limit 2
  pass 5m
`
	s, err := scenario.Parse("s", text)
	if err != nil || s.String() != text {
		t.Fatalf("%v; it is\n%s\nwant\n%s", err, s, text)
	}
	world := lived(t, text)
	obj, _ := world.Server().Get("nodes", "", "node-1")
	node := obj.(*corev1.Node)
	var taints []string
	for _, t := range node.Spec.Taints {
		taints = append(taints, t.Key)
	}
	testcheck.Equal(t, "taints", []string{"drained", corev1.TaintNodeOutOfService}, taints)
	if node.Status.Conditions[0].Status != corev1.ConditionUnknown {
		t.Errorf("conditions %v", node.Status.Conditions)
	}
	obj, _ = world.Server().Get("csinodes", "", "node-1")
	if d := obj.(*storagev1.CSINode).Spec.Drivers[0]; d.Allocatable == nil || *d.Allocatable.Count != 2 {
		t.Errorf("the CSINode says %v, want 2", d.Allocatable)
	}
	if passed := world.Host().Now().Sub(sim.Epoch); passed < 5*time.Minute {
		t.Errorf("%v have passed, want 5m at least", passed)
	}
}

// Users let a pod be unready, and its containers exit.
func TestUsersChangePods(t *testing.T) {
	const text = `nodes: 1
components: kubelet
user alice
  create pod web on=node-1
  set pod web ready=false
  wait pod web condition=Ready=False
  set pod web ready= exits=1,,3
  wait pod web condition=Ready
  wait pod web status.containerStatuses[0].restartCount=1
  set pod gone exits=1
`
	s, err := scenario.Parse("s", text)
	if err != nil || s.String() != text {
		t.Fatalf("%v; it is\n%s\nwant\n%s", err, s, text)
	}
	obj, _ := lived(t, text).Server().Get("pods", "default", "web")
	if a := obj.GetAnnotations(); len(a) != 1 || a[kubelet.ExitCodesAnnotation] != "1,,3" {
		t.Errorf("annotations %v", a)
	}
}

func TestAPodWritesIntoItsVolume(t *testing.T) {
	c := lived(t, `
components: pvcontroller, provisioner, attachdetach, attacher, kubelet
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  write pod web data
  write pod web data size=512Mi
`)
	summary, err := c.VolumeStats(t.Context(), "node-1")
	if err != nil || len(summary.Pods) != 1 || *summary.Pods[0].VolumeStats[0].UsedBytes != 512<<20 {
		t.Errorf("usage %+v, %v; want 512 MiB", summary, err)
	}
	truth := c.DeviceState()
	if got := truth.(interface{ Files(handle string) []string }).Files(truth.Volumes()[0].Handle); !slices.Equal(got, []string{"web"}) {
		t.Errorf("the volume has %q, want the file web", got)
	}
}

func TestAVolumeIsUsedOnItsNode(t *testing.T) {
	c := lived(t, `
components: pvcontroller, scheduler, kubelet
rules: I30
user alice
  create volume disk 1Gi node=node-2
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data
`)
	pod, _ := c.Server().Get("pods", "default", "web")
	if got := pod.(*corev1.Pod).Spec.NodeName; got != "node-2" {
		t.Errorf("the pod is on %q, want node-2", got)
	}
}

func TestOneOfSeveralPhasesIsWaitedFor(t *testing.T) {
	c := lived(t, `
components: pvcontroller, pvcprotection
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
  wait claim data Lost|Bound
  delete claim data
  wait volume disk Failed|Released
`)
	if _, there := c.Server().Get("persistentvolumeclaims", "default", "data"); there {
		t.Error("the claim is there still: it was not waited for until it was Bound, or not at all")
	}
}

// TestInterruptedRunHasNoResult cancels the context of a run. The run has not failed.
func TestInterruptedRunHasNoResult(t *testing.T) {
	t.Parallel()
	s, err := scenario.Find("pod-moves")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r, err := s.Run(ctx, scenario.Options{StepsMax: 100, Watch: func(*cluster.Cluster) { cancel() }})
	if !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("got %v, %v; want only the error of the context", r, err)
	}
}
