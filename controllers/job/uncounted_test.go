package job_test

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/controllers/job"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
)

// firstFail lets the first two pods fail and the others succeed.
func firstFail() func(*corev1.Pod) int32 {
	pods := map[string]int{}
	return func(pod *corev1.Pod) int32 {
		if _, known := pods[pod.Name]; !known {
			pods[pod.Name] = len(pods)
		}
		if pods[pod.Name] < 2 {
			return 1
		}
		return 0
	}
}

// TestCrashWithOldCache: a controller that starts again with an old list of pods or jobs counts no pod
// again, and creates none too many.
func TestCrashWithOldCache(t *testing.T) {
	for name, test := range map[string]struct {
		job  *batchv1.Job
		want string
	}{
		"not indexed": {newJob(size(2, 3), suspend(true)), "0 0 0: 3 2 SuccessCriteriaMet Complete"},
		"indexed":     {newJob(size(2, 3), indexed, suspend(true)), "0 0 0: 3 2 done 0-2 SuccessCriteriaMet Complete"},
		"per index":   {newJob(size(2, 3), limitPerIndex(3), suspend(true)), "0 0 0: 3 2 done 0-2 SuccessCriteriaMet Complete"},
	} {
		for _, resource := range []string{"pods", "jobs"} {
			for _, behind := range []int{1, 3} {
				t.Run(name, func(t *testing.T) {
					for at, reached := 0, true; reached; at++ {
						reached = false
						w := newWorld(t, nil)
						w.watch()
						commits := 0
						w.Server.OnCommit(func(fake.Commit) { commits++ })
						w.result = firstFail()
						w.create(test.job.DeepCopy())
						w.Run()
						w.edit(suspend(false))
						for commits < at && w.Host.Step() {
						}
						if commits >= at {
							reached = true
							w.crashBehind(resource, behind)
						}
						w.Run()
						if got := w.status(); got != test.want || len(w.pods()) != 5 {
							t.Fatalf("crash at write %d with %s %d behind: %q and %d pods, want %q and 5",
								at, resource, behind, got, len(w.pods()), test.want)
						}
						if reads := len(w.requests("get", "jobs")) + len(w.requests("list", "pods")); !reached && reads > 0 {
							t.Fatalf("%d reads without a crash", reads)
						}
					}
				})
			}
		}
	}
}

// TestCrashActingOnOldCache: a controller that does not wait for its caches counts no pod twice either.
func TestCrashActingOnOldCache(t *testing.T) {
	for behind := range 4 {
		for at, reached := 0, true; reached; at++ {
			reached = false
			w := newWorld(t, nil, job.Config{ActOnStaleCaches: true})
			w.watch()
			commits := 0
			w.Server.OnCommit(func(fake.Commit) { commits++ })
			w.result = firstFail()
			w.create(newJob(size(2, 3)))
			for commits < at && w.Host.Step() {
			}
			if commits >= at {
				reached = true
				w.crashBehind("pods", behind)
			}
			w.Run()
			if w.job().Status.CompletionTime == nil {
				t.Fatalf("crash at write %d with pods %d behind: %q", at, behind, w.status())
			}
		}
	}
}

// TestTwoControllers: two processes that act on the same job count no pod twice.
func TestTwoControllers(t *testing.T) {
	for seed := range uint64(100) {
		w := newWorld(t, sim.NewSeeded(seed))
		w.watch()
		w.result = firstFail()
		w.controller = w.Host.Process("job#2")
		w.start()
		w.create(newJob(size(2, 6)))
		w.Run()
		if got := w.job().Status; got.Succeeded < 6 || got.CompletionTime == nil {
			t.Fatalf("seed %d: %+v", seed, got)
		}
	}
}
