package session_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
)

func play(t *testing.T, ops ...string) *session.Session {
	t.Helper()
	s, err := session.New(ops...).Play()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if v := s.Violation(); v != nil {
			t.Errorf("a rule was violated: %v", v)
		}
	})
	return s
}

func do(t *testing.T, s *session.Session, ops ...string) {
	t.Helper()
	for _, op := range ops {
		if err := s.Do(op); err != nil {
			t.Fatal(err)
		}
	}
}

// stateOf returns the state of an object, "" if it does not exist.
func stateOf(s *session.Session, name string) string {
	for _, o := range s.Objects() {
		if o.Name == name {
			return o.State
		}
	}
	return ""
}

var life = session.New("create claim data 64Mi", "hold scheduler", "rest", "release scheduler", "create pod web data on=node-1",
	"fail conflict", "wait pod web Running", "crash kubelet(node-1)", "rest", "delete pod web", "step 40", "rest")

func TestTheSameOperationsLeadToTheSameWorld(t *testing.T) {
	a, b := play(t, life...), play(t, life...)
	if a.Log().Text() != b.Log().Text() {
		t.Error("the traces differ")
	}
	if diff := cmp.Diff(a.Story(), b.Story()); diff != "" {
		t.Errorf("the stories differ: %s", diff)
	}
	half := play(t, life[:6]...)
	do(t, half, life[6:]...)
	if half.Log().Text() != a.Log().Text() {
		t.Error("played in two parts, the trace differs")
	}
	if diff := cmp.Diff(life, half.Ops()); diff != "" {
		t.Errorf("the operations that it tells of: %s", diff)
	}
	if got := stateOf(a, "claim default/data"); !strings.HasPrefix(got, "Bound to pvc-") {
		t.Errorf("the claim is %q at the end", got)
	}
}

const manifests = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: data
spec:
  accessModes: [ReadWriteOnce]
  resources:
    requests:
      storage: 64Mi
---
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: pause
    volumeMounts:
    - {name: data, mountPath: /mnt/data}
  volumes:
  - name: data
    persistentVolumeClaim: {claimName: data}
`

func TestManifestsAreApplied(t *testing.T) {
	applied := play(t, "apply"+manifests, "wait pod web Running")
	created := play(t, "create claim data 64Mi", "create pod web data", "wait pod web Running")
	if diff := cmp.Diff(created.Log().Text(), applied.Log().Text()); diff != "" {
		t.Errorf("the trace differs from that of the same objects created otherwise: %s", diff)
	}
	if story := applied.Story(); !strings.HasPrefix(story, "> apply …\n") || strings.Contains(story, "{") {
		t.Errorf("the story contains the manifest:\n%s", story)
	}
	again := applied.Replayable()
	if strings.Contains(strings.Join(again, ""), "\n") {
		t.Errorf("an operation to save has several lines: %q", again)
	}
	if diff := cmp.Diff(applied.Log().Text(), play(t, again...).Log().Text()); diff != "" {
		t.Errorf("the trace of the saved operations differs: %s", diff)
	}
}

func TestNothingHappensByItself(t *testing.T) {
	s := play(t, "create claim data 64Mi")
	if got := stateOf(s, "claim default/data"); got != "Pending, 64Mi requested" {
		t.Errorf("before a step the claim is %q", got)
	}
	before := len(s.Records())
	if s.Next(); len(s.Records()) != before || len(s.StaleComponents()) == 0 {
		t.Error("looking moved the world")
	}
	next := s.Next()[0]
	do(t, s, "step")
	if got := s.Records()[before].Task; got != next.Task {
		t.Errorf("%s moved, and %s was said to be next", got, next.Task)
	}
	do(t, s, "step 3")
	if got := len(s.Records()) - before; got != 4 {
		t.Errorf("%d actions in 4 steps", got)
	}
}

func TestHeldTaskRunsByNameOnly(t *testing.T) {
	cache := "pvcontroller/cache persistentvolumeclaims"
	s := play(t, "create claim data 64Mi", "hold "+cache, "rest")
	if got := s.Last(); !strings.Contains(got, "except for held tasks: "+cache) {
		t.Errorf("it does not say why no task runs: %s", got)
	}
	if got := s.Story(); strings.Contains(got, "provision") {
		t.Errorf("a held cache has seen the claim: %s", got)
	}
	want := []session.Option{{Task: cache, Description: "sees claim default/data added", Held: true}}
	if diff := cmp.Diff(want, s.Next()); diff != "" {
		t.Errorf("what is next: %s", diff)
	}
	do(t, s, "step "+cache, "rest")
	if got := s.Story(); !strings.Contains(got, "has the driver create a volume") {
		t.Errorf("nothing came of what it heard: %s", got)
	}
	do(t, s, "release "+cache, "rest")
	if got := stateOf(s, "claim default/data"); !strings.HasPrefix(got, "Bound") {
		t.Errorf("released, and the claim is %q", got)
	}
}

func TestStaleComponents(t *testing.T) {
	s := play(t, "components: pvcontroller", "create volume v 1Gi", "create claim a 1Gi class=", "rest")
	if got := s.StaleComponents(); got != nil {
		t.Errorf("at rest somebody does not know: %v", got)
	}
	do(t, s, "hold pvcontroller/cache persistentvolumeclaims", "delete claim a", "rest")
	var claims []session.StaleComponent
	for _, each := range s.StaleComponents() {
		if each.Component == "pvcontroller" {
			each.Version = ""
			claims = append(claims, each)
		}
	}
	want := []session.StaleComponent{{Component: "pvcontroller", Object: "claim default/a", Cached: "Bound to v, 1Gi", Actual: "Bound to v, being deleted, 1Gi"}}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("stale objects of pvcontroller: %s", diff)
	}
	if got := s.StateTable(); !strings.Contains(got, "cached by pvcontroller:") || !strings.Contains(got, "being deleted") {
		t.Errorf("the table does not show the stale cache: %s", got)
	}
}

// A pod on another node is outside the scope of a kubelet, so its cache is not stale.
func TestCacheIsStaleOnlyInItsScope(t *testing.T) {
	s := play(t, "create claim data 64Mi", "create pod web data on=node-2")
	for _, each := range s.StaleComponents() {
		if each.Component == "kubelet(node-1)" {
			t.Errorf("kubelet(node-1) is reported as stale in %s", each.Object)
		}
	}
	if !slices.ContainsFunc(s.StaleComponents(), func(u session.StaleComponent) bool {
		return u.Component == "kubelet(node-2)" && u.Object == "pod default/web"
	}) {
		t.Errorf("kubelet(node-2) is not reported as stale: %v", s.StaleComponents())
	}
}

func TestFaultsApplyToTheNextCall(t *testing.T) {
	s := play(t, "create claim data 64Mi", "fail driver Unavailable provisioner", "rest")
	if got := strings.Count(s.Story(), "code = Unavailable"); got != 1 {
		t.Errorf("%d calls failed, want 1: %s", got, s.Story())
	}
	if got := stateOf(s, "claim default/data"); !strings.HasPrefix(got, "Bound") {
		t.Errorf("the call was not retried: the claim is %q", got)
	}
	s = play(t, "create claim data 64Mi", "fail driver-lost Unavailable CreateVolume", "rest")
	if got := strings.Count(s.Story(), "has the driver create a volume"); got != 2 || !strings.Contains(s.Story(), "but the response is lost") {
		t.Errorf("want one lost response to CreateVolume: %s", s.Story())
	}
	s = play(t, "create claim data 64Mi", "fail conflict pvcontroller", "rest")
	if got := strings.Count(s.Story(), "gets a conflict"); got != 1 {
		t.Errorf("%d conflicts, want 1: %s", got, s.Story())
	}
}

func TestNextListsFaults(t *testing.T) {
	s := play(t, "create claim data 64Mi")
	for len(s.Next()[0].Faults) == 0 {
		do(t, s, "step")
	}
	call := s.Next()[0]
	if !slices.Contains(call.Faults, "refused") || slices.Contains(call.Faults, "hang") {
		t.Errorf("a request that %s can go wrong in these ways: %v", call.Description, call.Faults)
	}
	for _, each := range call.Faults {
		do(t, s, "fail "+each+" pvcontroller")
		if got := s.PendingFault(); got != each+" pvcontroller" {
			t.Errorf("what is to go wrong is %q, want %q", got, each)
		}
	}
	do(t, s, "step "+call.Task)
	if got := s.PendingFault(); got != "" {
		t.Errorf("the call was made, and %q is still to come", got)
	}
	if last := s.Records()[len(s.Records())-1]; !last.Failed() {
		t.Errorf("the call did not fail: %s", last)
	}
}

func TestPossibleEventsCanBeInjected(t *testing.T) {
	begin := session.New("create claim data 64Mi", "create pod web data", "step 5")
	all := play(t, begin...).PossibleEvents()
	for _, want := range []string{"crash pvcontroller", "partition node-1", "reboot node-2", "expire persistentvolumeclaims"} {
		if !slices.Contains(all, want) {
			t.Errorf("%q is not among %v", want, all)
		}
	}
	for _, each := range all {
		s := play(t, begin...)
		before := s.Steps()
		if do(t, s, each); s.Steps() == before {
			t.Errorf("%q made no step", each)
		}
	}
}

func TestRestartedComponentListsAgain(t *testing.T) {
	s := play(t, "crash pvcontroller")
	var words []string
	for _, each := range s.Next() {
		words = append(words, each.Description)
	}
	if diff := cmp.Diff([]string{"lists the claims", "lists the volumes", "lists the storage classes", "lists the pods"}, words[:4]); diff != "" {
		t.Error(diff)
	}
}

func TestHeldAreInTheirOrder(t *testing.T) {
	s := play(t, "hold scheduler", "hold pvcontroller", "release scheduler", "hold attacher")
	if diff := cmp.Diff([]string{"pvcontroller", "attacher"}, s.Held()); diff != "" {
		t.Error(diff)
	}
}

func TestUntilRunsTheWorldToACall(t *testing.T) {
	s := play(t, "create claim data 64Mi", "until CreateVolume provisioner")
	records := s.Records()
	if last := records[len(records)-1]; last.Verb != "CreateVolume" {
		t.Errorf("it went on until %s", last)
	}
	if err := s.Do("until NodeStageVolume"); err == nil || !strings.Contains(err.Error(), "no such call") {
		t.Errorf("no task stages a volume: %v", err)
	}
}

func TestSettleDoesNotAdvanceTheClock(t *testing.T) {
	s := play(t, "create claim data 1Gi", "create pod web data on=node-1", "wait pod web Running", "partition node-1", "delete pod web now=true",
		"create pod other data on=node-2")
	before := s.Cluster().Host().Now()
	do(t, s, "settle")
	if now := s.Cluster().Host().Now(); !now.Equal(before) {
		t.Errorf("%s have passed", now.Sub(before))
	}
	if got := stateOf(s, "pod default/other"); got != "Pending on node-2" {
		t.Errorf("the pod is %q", got)
	}
	do(t, s, "rest")
	if got := stateOf(s, "pod default/other"); got != "Running on node-2" {
		t.Errorf("after a rest the pod is %q", got)
	}
}

func TestPassAdvancesTheClock(t *testing.T) {
	s := play(t, "create claim data 64Mi", "rest")
	before := s.Cluster().Host().Now()
	do(t, s, "pass 5m")
	if got := s.Cluster().Host().Now().Sub(before).String(); got != "5m0s" {
		t.Errorf("%s have passed", got)
	}
}

func TestInvalidOperations(t *testing.T) {
	for _, tc := range []struct{ op, want string }{
		{"nonsense", `unknown operation "nonsense" (have step, until, `},
		{"node x y", `unknown operation "node"`},
		{"create cat tom", `unknown act "create cat" (have create claim, create class, create groupsnapshot, create pod, create snapshot, create volume)`},
		{"create", "want create claim, create class, create groupsnapshot, create pod, create snapshot, create volume"},
		{"create claim", "want create claim NAME SIZE, then options: class=, volume=, modes=, mode="},
		{"create claim data", "want create claim NAME SIZE, then options: "},
		{"create claim data much", `size "much": want a quantity, such as 64Mi`},
		{"wait pod web", "want wait pod NAME PHASE"},
		{"delete class", "want delete class NAME"},
		{"cordon", "want cordon NODE"},
		{"pass", "want pass DURATION"},
		{"set claim data", "want an option: reclaim=, size="},
		{"set claim data size=much", `size "much": want a quantity, such as 64Mi`},
		{"step 0", "at least 1"},
		{"step scheduler/none", `scheduler: no such task "scheduler/none" (have scheduler/`},
		{"step none", `no such component "none" (have pvcontroller`},
		{"step scheduler/cache pods", "cannot run now"},
		{"until", "want a call, such as until NodeStageVolume"},
		{"until soon", `unknown call "soon"`},
		{"until update/foo", `unknown subresource "foo" (have`},
		{"until CreateVolume none", `no such component "none"`},
		{"hold", "want a component"},
		{"hold none", `no such component "none"`},
		{"release scheduler", "not held (held: none)"},
		{"fail", "want a fault"},
		{"fail badly", `fault "badly": want one of conflict, refused, `},
		{"fail conflict none", `no such component "none"`},
		{"crash none", `"crash none": no such target "none" (have pvcontroller`},
		{"crash", "want a target, such as crash pvcontroller"},
		{"reboot", "want a target, such as reboot node-1"},
		{"start pvcontroller", "not possible now"},
		{"let crash none", `no such target "none" (have pvcontroller`},
		{"components: pvcontroller", "before all other operations"},
		{"wait claim none Bound", "no task can run"},
		{"write pod none data", "none"},
	} {
		s := play(t)
		err := s.Do(tc.op)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.op) {
			t.Errorf("%q: %v, want %q and the operation in it", tc.op, err, tc.want)
		}
		if err := s.Do("step"); err != nil { // it goes on
			t.Errorf("after %q: %v", tc.op, err)
		}
		if s, err := session.New(tc.op).Play(); err == nil && tc.op != "components: pvcontroller" {
			t.Errorf("%q can be played", tc.op)
			s.Close()
		}
	}
}

// A user acts between two steps. The number of the last one is not that of the act.
func TestStoryNumbersStepsOnly(t *testing.T) {
	s := play(t, "create claim data 64Mi", "rest", "create claim more 64Mi", "crash pvcontroller", "step")
	for _, want := range []string{"      … 15s later:\n      user creates claim default/more of 64Mi\n", "  pvcontroller crashes and restarts\n"} {
		if !strings.Contains(s.Story(), want) {
			t.Errorf("%q is not in\n%s", want, s.Story())
		}
	}
	if !regexp.MustCompile(`(?m)^ +\d+  pvcontroller crashes`).MatchString(s.Story()) {
		t.Errorf("the crash has no number:\n%s", s.Story())
	}
}

func TestThenLeavesTheListAsItIs(t *testing.T) {
	first := append(make(session.Ops, 0, 8), "create claim a 1Gi")
	one, other := first.Then("rest"), first.Then("step")
	if one[1] != "rest" || other[1] != "step" || len(first) != 1 {
		t.Errorf("%v, %v, %v", first, one, other)
	}
}

func TestCommentsAndHeaders(t *testing.T) {
	s := play(t, "# a small world", "nodes: 1", "components: pvcontroller", "", "create volume v 1Gi", "# and a claim", "create claim a 1Gi class=", "rest")
	if got := s.Cluster().Components(); !slices.Contains(got, "pvcontroller") || slices.Contains(got, "scheduler") {
		t.Errorf("the parts are %v", got)
	}
	if got := stateOf(s, "claim default/a"); got != "Bound to v, 1Gi" {
		t.Errorf("the claim is %q", got)
	}
	if _, err := session.New("nodes: none").Play(); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("a header that is wrong: %v", err)
	}
}

// Several workers of one queue have the same name. Next numbers them, so that a step can name each.
func TestTasksOfTheSameNameAreNumbered(t *testing.T) {
	s := play(t, "create claim a 64Mi", "create claim b 64Mi", "hold provisioner", "settle", "release provisioner")
	const task = "provisioner/claims"
	workers := func() (all []session.Option) {
		for _, o := range s.Next() {
			if trace.TrimTaskNumber(o.Task) == task {
				all = append(all, o)
			}
		}
		return all
	}
	differ := func() bool {
		all := workers()
		return len(all) > 1 && all[0].Description != all[len(all)-1].Description
	}
	for i := 0; !differ(); i++ {
		if do(t, s, "step"); i > 500 {
			t.Fatal("the world never has two workers of one queue that can run")
		}
	}
	options := workers()
	for i, o := range options {
		if want := fmt.Sprintf("%s#%d", task, i+1); o.Task != want {
			t.Errorf("task %d is %q, want %q", i+1, o.Task, want)
		}
	}
	last := options[len(options)-1]
	do(t, s, "step "+last.Task)
	for _, o := range workers() {
		if o.Description == last.Description {
			t.Errorf("after the step of %s, %q is still to do", last.Task, o.Description)
		}
	}
	if err := s.Do("step " + task + "#99"); err == nil || !strings.Contains(err.Error(), "cannot run now") {
		t.Errorf("a step of a task that does not exist: %v", err)
	}
	do(t, s, "step "+task) // the first
}
