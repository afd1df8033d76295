package job_test

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

// runs is the result of a pod that does not end.
const runs = -1

// world is a server with a Job controller, a garbage collector, and a kubelet.
type world struct {
	*testworld.World

	cfg        job.Config // switches of the controller
	controller *sim.Process
	result     func(pod *corev1.Pod) int32     // exit code of a pod
	deaf       map[string]bool                 // pods that the kubelet does nothing for
	fail       func(action trace.Action) error // fails requests of the controller, if not nil
	lose       func(action trace.Action) bool  // loses answers to the controller, if not nil
}

// A losingCaller lets calls take effect, and loses the answers of some.
type losingCaller struct {
	sim.Caller
	w *world
}

// Call implements sim.Caller.
func (l losingCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	out := l.Caller.Call(action, effect)
	if l.w.lose != nil && l.w.lose(action) {
		out.Err = apierrors.NewTimeoutError("lost", 0)
	}
	return out
}

// newWorld returns a world whose controller has the switches of cfg, and whose pods do not end.
func newWorld(t testing.TB, chooser sim.Chooser, cfg ...job.Config) *world {
	w := &world{
		World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), deaf: map[string]bool{},
		result: func(*corev1.Pod) int32 { return runs },
	}
	for _, cfg := range cfg {
		w.cfg = cfg
	}
	w.startKubelet()
	process := w.Host.Process("garbagecollector")
	client := w.Server.Client(process)
	garbagecollector.New(garbagecollector.Config{
		Process: process, Client: client.Metadata(), Watcher: w.Server.MetadataWatcher(process),
		Recorder: events.New(events.Config{Process: process, Client: client, Source: garbagecollector.EventSource}),
	})
	w.controller = w.Host.Process("job")
	w.start()
	return w
}

// start starts the controller in its process.
func (w *world) start() {
	var seen informers.SharedInformerFactory
	seen = w.Server.Informers(w.controller, fake.Filter{Resource: "pods", Match: func(old, obj fake.Object) bool {
		return old != nil && job.ConcernsPod(seen, old.(*corev1.Pod)) || obj != nil && job.ConcernsPod(seen, obj.(*corev1.Pod))
	}})
	client := w.Server.Client(testworld.FailingCaller{Caller: losingCaller{w.controller, w}, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	cfg := w.cfg
	cfg.Process, cfg.Client, cfg.Informers = w.controller, client, seen
	cfg.Recorder = events.New(events.Config{Process: w.controller, Client: client, Source: job.EventSource})
	job.New(cfg)
}

// crash ends the controller's process, and starts another.
func (w *world) crash() { w.crashBehind("", 0) }

// crashBehind is crash; the first list of a resource lacks so many events.
func (w *world) crashBehind(resource string, events int) {
	w.Server.RemoveComponent(w.controller)
	w.Host.Crash(w.controller)
	w.controller = w.Host.Process("job")
	if events > 0 {
		w.Server.DelayCache(w.controller, resource, events)
	}
	w.start()
}

// startKubelet starts the kubelet of all nodes. It makes pods ready, ends them with their results, and
// kills those that are deleted.
func (w *world) startKubelet() {
	process := w.Host.Process("kubelet")
	client := w.Server.Client(process).CoreV1()
	pods := w.Server.Informers(process).Core().V1().Pods()
	queue := sim.NewQueue[types.NamespacedName](process, sim.QueueConfig{Name: "pods"})
	eventhandler.Add(pods.Informer(), func(_, pod *corev1.Pod) {
		queue.Add(types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	}, nil)
	process.GateWorkers(pods.Informer().HasSynced)
	queue.Work(func(ctx context.Context, key types.NamespacedName) error {
		pod, err := pods.Lister().Pods(key.Namespace).Get(key.Name)
		if err != nil || w.deaf[pod.Name] {
			return nil
		}
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		code := w.result(pod)
		pod = pod.DeepCopy()
		now := metav1.NewTime(process.Now())
		switch {
		case pod.DeletionTimestamp != nil && ended:
			err = client.Pods(key.Namespace).Delete(ctx, key.Name, metav1.DeleteOptions{
				GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
			})
		case pod.DeletionTimestamp != nil:
			end(pod, 137, now)
			_, err = client.Pods(key.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		case pod.Status.Phase == corev1.PodPending:
			testworld.MakeReady(pod, now)
			_, err = client.Pods(key.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		case !ended && code != runs:
			end(pod, code, now)
			_, err = client.Pods(key.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	})
}

// end gives a pod the status of one whose container has ended.
func end(pod *corev1.Pod, code int32, now metav1.Time) {
	pod.Status.Phase = corev1.PodSucceeded
	if code != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: now}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: now},
	}}}
}

// newJob returns the job "pi".
func newJob(change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi", Namespace: "default"},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeName: "node-1", RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "image:1"}},
		}}},
	}
	for _, f := range change {
		f(j)
	}
	return j
}

// size sets parallelism and, if it is not negative, completions.
func size(parallel, completions int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Spec.Parallelism, j.Spec.Completions = &parallel, &completions
		if completions < 0 {
			j.Spec.Completions = nil
		}
	}
}

func indexed(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func limit(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n }
}

func limitPerIndex(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		indexed(j)
		j.Spec.BackoffLimitPerIndex = &n
	}
}

func suspend(yes bool) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.Suspend = &yes }
}

func deadline(seconds int64) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = &seconds }
}

func onFailure(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

// exits returns a rule of a failure policy about exit codes.
func exits(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
		Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes,
	}}
}

func (w *world) create(j *batchv1.Job) {
	w.Helper()
	testcheck.Must(w.User.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{}))
}

func (w *world) job() *batchv1.Job {
	w.Helper()
	return testcheck.Must(w.User.BatchV1().Jobs("default").Get(ctx, "pi", metav1.GetOptions{}))
}

// edit changes the job.
func (w *world) edit(change ...func(*batchv1.Job)) {
	w.Helper()
	j := w.job()
	for _, f := range change {
		f(j)
	}
	testcheck.Must(w.User.BatchV1().Jobs("default").Update(ctx, j, metav1.UpdateOptions{}))
}

func (w *world) deleteJob(how metav1.DeletionPropagation) {
	w.Helper()
	w.NoError(w.User.BatchV1().Jobs("default").Delete(ctx, "pi", metav1.DeleteOptions{PropagationPolicy: &how}))
}

// pods returns the pods, by index, then in the order of their creation.
func (w *world) pods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range w.Server.List("pods") {
		pods = append(pods, obj.(*corev1.Pod).DeepCopy())
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		const index = batchv1.JobCompletionIndexAnnotation
		return cmp.Or(cmp.Compare(a.Annotations[index], b.Annotations[index]), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	return pods
}

// active returns the place of the first pod that runs.
func (w *world) active() int {
	return slices.IndexFunc(w.pods(), func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
}

// endPod ends a pod by its place in pods.
func (w *world) endPod(i int, code int32) {
	w.Helper()
	pod := w.pods()[i]
	end(pod, code, metav1.NewTime(w.Host.Now()))
	testcheck.Must(w.User.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
}

// status returns the status of the job: active, ready, terminating, succeeded and failed pods, the
// indexes, and the conditions that are True.
func (w *world) status() string {
	s := w.job().Status
	text := fmt.Sprintf("%d %d %d: %d %d", s.Active, ptr.Deref(s.Ready, -1), ptr.Deref(s.Terminating, -1), s.Succeeded, s.Failed)
	if s.CompletedIndexes != "" {
		text += " done " + s.CompletedIndexes
	}
	if failed := ptr.Deref(s.FailedIndexes, ""); failed != "" {
		text += " lost " + failed
	}
	for _, c := range s.Conditions {
		if c.Status == corev1.ConditionTrue {
			text += " " + string(c.Type)
		}
	}
	return text
}

// want runs the world and compares the status.
func (w *world) want(status, when string) {
	w.Helper()
	w.Run()
	w.has(status, when)
}

// has compares the status.
func (w *world) has(status, when string) {
	w.Helper()
	if got := w.status(); got != status {
		w.Fatalf("%s: %q, want %q", when, got, status)
	}
}

// pass lets a time pass.
func (w *world) pass(d time.Duration) {
	w.Helper()
	at, passed := w.Host.Now().Add(d), false
	w.Host.Process("clock").Spawn("", func(context.Context) {})
	timer := w.Host.Process("clock").NewTimer("pass", func() { passed = true })
	timer.ResetAt(at)
	w.Until("the time has passed", func() bool { return passed })
}

// requests returns the controller's requests of a verb and resource.
func (w *world) requests(verb, resource string) []trace.Record {
	var all []trace.Record
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "job/job") && r.Verb == verb && strings.HasPrefix(r.Object, resource+"/") {
			all = append(all, r)
		}
	}
	return all
}

var generated = regexp.MustCompile(`pi-[-a-z0-9]+`)

// messages returns the controller's events, each text once. Names of pods are replaced by a star.
func (w *world) messages() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		if e.Source.Component == job.EventSource {
			all = append(all, e.Type+" "+e.Reason+" "+generated.ReplaceAllString(e.Message, "*"))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
