package deployment_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/deployment"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// TestLife: a Deployment is created, scaled, updated, rolled back and deleted.
func TestLife(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newDeployment(3))
		w.want("1@1=3", "created")
		if got := w.status(); got != "3 3 3 3 0" {
			t.Fatalf("status %s", got)
		}
		w.edit(replicas(5))
		w.want("1@1=5", "scaled up")
		w.edit(image("2"))
		w.want("1@1=0 2@2=5", "updated")
		w.edit(replicas(2), image("3"))
		w.want("1@1=0 2@2=0 3@3=2", "updated and scaled down")
		w.edit(image("1"))
		w.want("1@4=2 2@2=0 3@3=0", "rolled back")
		d := w.get()
		if d.Annotations["deployment.kubernetes.io/revision"] != "4" ||
			w.sets()[0].Annotations["deployment.kubernetes.io/revision-history"] != "1" {
			t.Errorf("annotations %v, %v", d.Annotations, w.sets()[0].Annotations)
		}
		if got := w.condition(appsv1.DeploymentProgressing); got != "True NewReplicaSetAvailable" {
			t.Errorf("condition %s", got)
		}
		w.delete(metav1.DeletePropagationBackground)
		w.want("", "deleted")
	}
}

// TestFences: a rolling update keeps to maxSurge and maxUnavailable.
func TestFences(t *testing.T) {
	for _, test := range []struct {
		name     string
		strategy func(*appsv1.Deployment)
		most     int32
		fewest   int
	}{
		{"surge 1", rolling("1", "0"), 11, 10},
		{"unavailable 1", rolling("0", "1"), 10, 9},
		{"25%", rolling("25%", "25%"), 13, 8},
		{"all at once", rolling("100%", "100%"), 20, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			for seed := range uint64(3) {
				w := newWorld(t, sim.NewSeeded(seed))
				w.create(newDeployment(10, test.strategy))
				w.Run()
				w.watch()
				w.edit(image("2"))
				w.want("1@1=0 2@2=10", "updated")
				if w.most > test.most || w.fewest < test.fewest {
					t.Errorf("at most %d replicas, at least %d ready, want %d and %d", w.most, w.fewest, test.most, test.fewest)
				}
			}
		})
	}
}

// TestRecreate: no pod of a new set exists besides one of an old set.
func TestRecreate(t *testing.T) {
	for seed := range uint64(10) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newDeployment(3, recreate))
		w.want("1@1=3", "created")
		images := map[string]int{}
		w.Server.OnCommit(func(fake.Commit) {
			clear(images)
			for _, pod := range w.pods() {
				images[pod.Spec.Containers[0].Image]++
			}
			if len(images) > 1 {
				t.Errorf("pods %v", images)
			}
		})
		w.edit(image("2"))
		w.want("1@1=0 2@2=3", "updated")
	}
}

// TestRollover: an update during another one.
func TestRollover(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newDeployment(4, rolling("1", "1")))
		w.Run()
		w.broken = "2"
		w.edit(image("2"))
		w.want("1@1=3 2@2=2", "stuck")
		if got := w.condition(appsv1.DeploymentProgressing); got != "False ProgressDeadlineExceeded" {
			t.Errorf("condition %s", got)
		}
		w.watch()
		w.edit(image("3"))
		w.want("1@1=0 2@2=0 3@3=4", "rolled over")
		if w.most > 5 || w.fewest < 3 {
			t.Errorf("at most %d replicas, at least %d ready", w.most, w.fewest)
		}
	}
}

// TestDeadline: a rollout without progress times out, and completes later. Nothing is pending then.
func TestDeadline(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(2, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](60) }))
	w.Run()
	if d := w.Host.Now().Sub(w.get().CreationTimestamp.Time); d > 30*time.Second {
		t.Errorf("a complete rollout took %v", d)
	}
	w.broken = "2"
	w.edit(image("2"))
	began := w.Host.Now()
	w.Until("the timeout", func() bool { return w.condition(appsv1.DeploymentProgressing) == "False ProgressDeadlineExceeded" })
	if d := w.Host.Now().Sub(began); d < 60*time.Second || d > 65*time.Second {
		t.Errorf("timed out after %v", d)
	}
	w.broken = ""
	for _, pod := range w.pods() {
		if pod.Spec.Containers[0].Image == "2" {
			w.NoError(w.User.CoreV1().Pods("default").Delete(ctx, pod.Name, metav1.DeleteOptions{}))
		}
	}
	w.want("1@1=0 2@2=2", "completed")
	if got := w.condition(appsv1.DeploymentProgressing); got != "True NewReplicaSetAvailable" {
		t.Errorf("condition %s", got)
	}
}

// TestScaledWhenComplete: after a complete rollout, pods that do not become available do not time out.
func TestScaledWhenComplete(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(1, func(d *appsv1.Deployment) { d.Spec.ProgressDeadlineSeconds = ptr.To[int32](60) }))
	w.Run()
	w.Host.SetTime(w.Host.Now().Add(time.Hour))
	w.broken = "1"
	w.edit(replicas(2))
	w.want("1@1=2", "scaled")
	if got := w.condition(appsv1.DeploymentProgressing); got != "True NewReplicaSetAvailable" {
		t.Errorf("condition %s", got)
	}
}

// TestPause: a Deployment that is paused is scaled, but not rolled out. Its sets keep their proportions.
func TestPause(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(4, rolling("0", "2")))
	w.Run()
	w.edit(paused(true))
	w.Run()
	if got := w.condition(appsv1.DeploymentProgressing); got != "Unknown DeploymentPaused" {
		t.Errorf("condition %s", got)
	}
	w.edit(image("2"))
	w.want("1@1=4", "paused")
	w.edit(replicas(6))
	w.want("1@1=6", "scaled while paused")
	w.broken = "2"
	w.edit(paused(false))
	w.want("1@1=4 2@2=2", "resumed, and stuck")
	w.edit(paused(true), replicas(12))
	w.want("1@1=8 2@2=4", "scaled in proportion")
	w.edit(replicas(3))
	w.want("1@1=2 2@2=1", "scaled down in proportion")
}

// TestScaledDuringARollout: the sets keep their proportions, also without a pause.
func TestScaledDuringARollout(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(4, rolling("0", "2")))
	w.Run()
	w.broken = "2"
	w.edit(image("2"))
	w.want("1@1=2 2@2=2", "stuck")
	w.edit(replicas(8))
	w.want("1@1=4 2@2=4", "scaled")
	w.edit(replicas(0))
	w.want("1@1=0 2@2=0", "scaled to none")
}

// TestHistoryLimit: the oldest sets without pods are deleted.
func TestHistoryLimit(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(1, history(1)))
	w.Run()
	for _, version := range []string{"2", "3", "4"} {
		w.edit(image(version))
		w.Run()
	}
	w.want("3@3=0 4@4=1", "limited")
	w.edit(history(0))
	w.want("4@4=1", "none")
}

// TestMinReadySeconds: a pod counts when it has been ready for so long.
func TestMinReadySeconds(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(2, rolling("1", "0"), func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 20 }))
	w.Run()
	began := w.Host.Now()
	w.edit(image("2"))
	w.want("1@1=0 2@2=2", "updated")
	if d := w.Host.Now().Sub(began); d < 40*time.Second || d > 50*time.Second {
		t.Errorf("updated after %v", d)
	}
	w.edit(func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 5 })
	w.Run()
	if got := w.sets()[1].Spec.MinReadySeconds; got != 5 {
		t.Errorf("minReadySeconds %d", got)
	}
}

// TestOrphans: the sets of a Deployment that is deleted with orphan remain, and another one of its name
// adopts them. A set that it does not select is released.
func TestOrphans(t *testing.T) {
	for seed := range uint64(5) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.create(newDeployment(2))
		w.Run()
		w.delete(metav1.DeletePropagationOrphan)
		w.want("1@1=2 orphan", "orphaned")
		w.create(newDeployment(2))
		w.want("1@1=2", "adopted")
		set := w.sets()[0]
		set.Labels["app"] = "other"
		testcheck.Must(w.User.AppsV1().ReplicaSets("default").Update(ctx, set, metav1.UpdateOptions{}))
		w.Run()
		if got := w.sizes(); !strings.Contains(got, "orphan") {
			t.Errorf("not released: %s", got)
		}
	}
}

// TestNoAdoptionByADeletedDeployment: a Deployment that is being deleted adopts no set, also if its cache
// lacks the deletion, and rolls nothing out.
func TestNoAdoptionByADeletedDeployment(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(1, func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/hold"} }))
	w.Run()
	set := w.sets()[0]
	set.OwnerReferences = nil
	testcheck.Must(w.User.AppsV1().ReplicaSets("default").Update(ctx, set, metav1.UpdateOptions{}))
	w.Step("deployment/cache replicasets")
	w.delete(metav1.DeletePropagationBackground)
	w.edit(image("2"))
	w.want("1@1=1 orphan", "deleted")
	if d := w.get(); d.Status.ObservedGeneration != d.Generation {
		t.Errorf("status %+v", d.Status)
	}
}

// TestCollision: another set has the name of the new one. The Deployment counts that, and takes another
// name.
func TestCollision(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(1))
	w.Run()
	taken := w.sets()[0].Name
	w.delete(metav1.DeletePropagationBackground)
	w.Run()
	other := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: taken}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}},
		Template: newDeployment(1).Spec.Template,
	}}
	other.Spec.Template.Labels = other.Spec.Selector.MatchLabels
	testcheck.Must(w.User.AppsV1().ReplicaSets("default").Create(ctx, other, metav1.CreateOptions{}))
	w.create(newDeployment(1))
	w.Run()
	if d := w.get(); ptr.Deref(d.Status.CollisionCount, 0) != 1 || w.status() != "1 1 1 1 0" {
		t.Errorf("status %+v", d.Status)
	}
}

// TestRollbackByAnnotation: the annotation of an API of the past asks for a rollback.
func TestRollbackByAnnotation(t *testing.T) {
	to := func(revision string) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) { d.Annotations[appsv1.DeprecatedRollbackTo] = revision }
	}
	w := newWorld(t, nil)
	w.create(newDeployment(1, func(d *appsv1.Deployment) { d.Annotations = map[string]string{"note": "first"} }))
	w.Run()
	w.edit(to("0"))
	w.Run()
	w.edit(image("2"), func(d *appsv1.Deployment) { d.Annotations["note"] = "second" })
	w.Run()
	w.edit(to("2"))
	w.Run()
	w.edit(to("7"))
	w.want("1@1=0 2@2=1", "refused")
	w.edit(to("1"))
	w.want("1@3=1 2@2=0", "rolled back")
	if note := w.get().Annotations["note"]; note != "first" {
		t.Errorf("note %q", note)
	}
	var events []string
	for _, event := range w.messages() {
		if strings.Contains(event, "Rollback") {
			events = append(events, event)
		}
	}
	want := []string{
		`Normal DeploymentRollback Rolled back deployment "web" to revision 1`,
		"Warning DeploymentRollbackRevisionNotFound Unable to find last revision.",
		"Warning DeploymentRollbackRevisionNotFound Unable to find the revision to rollback to.",
		`Warning DeploymentRollbackTemplateUnchanged The rollback revision contains the same template as current deployment "web"`,
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if _, asked := w.get().Annotations[appsv1.DeprecatedRollbackTo]; asked {
		t.Error("the annotation remains")
	}
}

// TestEvents: what the controller reports.
func TestEvents(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(2, rolling("1", "0")))
	w.Run()
	w.edit(image("2"))
	w.Run()
	want := []string{
		"Normal ScalingReplicaSet Scaled down replica set image 1 from 1 to 0",
		"Normal ScalingReplicaSet Scaled down replica set image 1 from 2 to 1",
		"Normal ScalingReplicaSet Scaled up replica set image 1 from 0 to 2",
		"Normal ScalingReplicaSet Scaled up replica set image 2 from 0 to 1",
		"Normal ScalingReplicaSet Scaled up replica set image 2 from 1 to 2",
	}
	if diff := cmp.Diff(want, w.messages()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestFailedRequests: a request that fails is retried.
func TestFailedRequests(t *testing.T) {
	for _, test := range []struct{ name, verb, resource, event string }{
		{"create a set", "create", "replicasets", "Warning ReplicaSetCreateError Failed to create new replica set"},
		{"scale a set", "update", "replicasets", ""},
		{"write the status", "update/status", "deployments", ""},
		{"delete a set", "delete", "replicasets", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.create(newDeployment(3, history(0)))
			w.Run()
			failures := 0
			w.fail = func(action trace.Action) error {
				if action.Verb != test.verb || !strings.HasPrefix(action.Object, test.resource+"/") || failures == 3 {
					return nil
				}
				failures++
				return apierrors.NewInternalError(errors.New("API server down"))
			}
			w.edit(image("2"))
			w.want("2@2=3", "updated")
			if failures != 3 {
				t.Errorf("%d failures", failures)
			}
			if got := strings.Join(w.messages(), "\n"); test.event != "" && !strings.Contains(got, test.event) {
				t.Errorf("events:\n%s", got)
			}
		})
	}
}

// TestPodFailures: that a set cannot create pods is a condition of the Deployment.
func TestPodFailures(t *testing.T) {
	w := newWorld(t, nil)
	w.noPods = true
	w.create(newDeployment(1))
	w.Until("the condition", func() bool { return w.condition(appsv1.DeploymentReplicaFailure) == "True FailedCreate" })
	w.noPods = false
	w.want("1@1=1", "created")
	if got := w.condition(appsv1.DeploymentReplicaFailure); got != "" {
		t.Errorf("condition %s", got)
	}
}

// TestSetOfTheWantedSize: the only set of a Deployment was scaled by others, and the Deployment then to
// the same size. It is rolled out still.
func TestSetOfTheWantedSize(t *testing.T) {
	w := newWorld(t, nil)
	w.create(newDeployment(1))
	w.Run()
	set := w.sets()[0]
	set.Spec.Replicas = ptr.To[int32](2)
	testcheck.Must(w.User.AppsV1().ReplicaSets("default").Update(ctx, set, metav1.UpdateOptions{}))
	w.edit(replicas(2))
	w.Run()
	w.edit(image("2"))
	w.want("1@1=0 2@2=2", "updated")
}

// TestStaleCache: a template is replaced by another at once. The controller, whose cache lacks the set
// that it has created, waits. Without this protection it exceeds maxSurge.
func TestStaleCache(t *testing.T) {
	for _, stale := range []bool{false, true} {
		w := newWorld(t, nil, deployment.Config{ActOnStaleCaches: stale})
		w.create(newDeployment(2, rolling("1", "0")))
		w.Run()
		w.watch()
		w.edit(image("2"))
		for len(w.sets()) < 2 && w.Host.Step() {
		}
		w.edit(image("3"))
		for range 10 { // the cache of sets lags
			for _, task := range []string{"deployment/cache deployments", "deployment/deployment"} {
				_ = w.Host.StepTask(task) // it may have nothing to do
			}
		}
		w.want("1@1=0 2@2=0 3@3=2", "updated")
		if exceeded := w.most > 3; exceeded != stale {
			t.Errorf("act on stale caches %v: at most %d replicas", stale, w.most)
		}
	}
}

// TestCrashAnywhere: a crash at any request changes nothing of what follows.
func TestCrashAnywhere(t *testing.T) {
	for _, strategy := range []func(*appsv1.Deployment){rolling("1", "0"), recreate} {
		at, reached := 0, true
		for ; reached; at++ {
			reached = false
			w := newWorld(t, nil)
			commits := 0
			w.Server.OnCommit(func(fake.Commit) { commits++ })
			check := func(want, when string) {
				w.Helper()
				for !reached && commits < at && w.Host.Step() {
				}
				if commits >= at && !reached {
					reached = true
					w.crash()
				}
				w.want(want, when)
			}
			w.create(newDeployment(2, strategy, history(1)))
			check("1@1=2", "created")
			w.edit(image("2"))
			check("1@1=0 2@2=2", "updated")
			w.edit(replicas(1), image("3"))
			check("2@2=0 3@3=1", "updated and scaled down")
			if w.most > 3 {
				t.Errorf("%d replicas", w.most)
			}
		}
		if at < 30 {
			t.Errorf("%d crashes", at)
		}
	}
}
