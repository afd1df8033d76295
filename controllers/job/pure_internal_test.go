package job

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// noon is the time of the tables.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// parsePods returns pods named a, b, c, … from words: INDEX:PHASE, where the index may be "", the phase is
// P, R, S or F, then perhaps /FAILURES of its index before it, -SECONDS at which it ended before noon, and
// ! if it has no finalizer.
func parsePods(text string) []*corev1.Pod {
	phases := map[string]corev1.PodPhase{"P": corev1.PodPending, "R": corev1.PodRunning, "S": corev1.PodSucceeded, "F": corev1.PodFailed}
	var pods []*corev1.Pod
	for i, word := range strings.Fields(text) {
		name := string(rune('a' + i))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{}}}
		word, untracked := strings.CutSuffix(word, "!")
		if !untracked {
			pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
		}
		index, rest, _ := strings.Cut(word, ":")
		if index != "" {
			pod.Annotations[batchv1.JobCompletionIndexAnnotation] = index
		}
		rest, ago, ended := strings.Cut(rest, "-")
		phase, failures, failed := strings.Cut(rest, "/")
		pod.Status.Phase = phases[phase]
		if failed {
			pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = failures
		}
		if ended {
			seconds, err := strconv.ParseFloat(ago, 64)
			if err != nil {
				panic(err)
			}
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{endedAt(noon.Add(-time.Duration(seconds * float64(time.Second))))}
		}
		pods = append(pods, pod)
	}
	return pods
}

func endedAt(at time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(at)}}}
}

// namesOf returns the names of pods, in order.
func namesOf(pods []*corev1.Pod) string {
	var names []string
	for _, pod := range pods {
		names = append(names, pod.Name)
	}
	return strings.Join(names, " ")
}

// indexedState returns the state of an indexed job.
func indexedState(completions int32, pods string, change ...func(*batchv1.Job)) *state {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "pi"}}
	j.Spec.CompletionMode, j.Spec.Completions, j.Spec.Parallelism = ptr.To(batchv1.IndexedCompletion), &completions, ptr.To[int32](9)
	for _, f := range change {
		f(j)
	}
	return newState(j, parsePods(pods), nil, noon)
}

func perIndex(limit int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = &limit }
}

func TestSucceededIndexes(t *testing.T) {
	for name, test := range map[string]struct {
		before      string
		pods        string
		completions int32
		counted     string // of the status
		want        string
	}{
		"one index":                            {"", "1:S", 2, "", "1"},
		"two separate":                         {"", "2:F 5:S 5:S 10:F 10:S", 11, "", "5,10"},
		"two intervals":                        {"", "0:R 1:P 2:S 3:S 5:S 6:S 7:S", 8, "", "2,3,5-7"},
		"one index and one interval":           {"", "0:S 1:F 2:S 3:S 4:S 5:S :S -2:S", 6, "", "0,2-5"},
		"out of range":                         {"", "0:S 1:S 2:S 3:F 4:S 5:S :S -2:S", 5, "", "0-2,4"},
		"prev interval out of range":           {"0-5,8-10", "", 8, "0-5", "0-5"},
		"prev interval partially out of range": {"0-5,8-10", "", 10, "0-5,8,9", "0-5,8,9"},
		"prev and new separate":                {"0,4,5,10-12", "2:S 7:S 8:S", 13, "0,4,5,10-12", "0,2,4,5,7,8,10-12"},
		"prev between new":                     {"3,4,6", "2:S 7:S 8:S", 9, "3,4,6", "2-4,6-8"},
		"new between prev":                     {"2,7,8", "3:S 4:S 6:S", 9, "2,7,8", "2-4,6-8"},
		"new within prev":                      {"2-7", "0:S 3:S 5:S 9:S", 10, "2-7", "0,2-7,9"},
		"corrupted interval":                   {"0,1-foo,bar", "3:S", 4, "0", "0,3"},
	} {
		s := indexedState(test.completions, test.pods, func(j *batchv1.Job) { j.Status.CompletedIndexes = test.before })
		s.observeIndexes()
		if got, want := s.counted.String()+" "+s.succeededIndexes.String(), test.counted+" "+test.want; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestFailedIndexes(t *testing.T) {
	for name, test := range map[string]struct {
		before *string
		pods   string
		limit  int32
		want   string
	}{
		"limit 0":                                      {nil, "0:F/0", 0, "0"},
		"limit 1":                                      {nil, "1:F/1", 1, "1"},
		"one new index failed":                         {nil, "0:F/0 1:F/1", 1, "1"},
		"pod without finalizer is ignored":             {nil, "0:F/0!", 0, ""},
		"pod outside completions is ignored":           {nil, "3:F/0", 0, ""},
		"extend the failed indexes":                    {ptr.To("0"), "1:F/0", 0, "0,1"},
		"prev failed indexes empty":                    {ptr.To(""), "1:F/0", 0, "1"},
		"prev failed indexes outside the completions":  {ptr.To("9"), "1:F/0", 0, "1"},
		"a pod that succeeded after too many failures": {nil, "1:S/7", 0, ""},
	} {
		s := indexedState(2, test.pods, perIndex(test.limit), func(j *batchv1.Job) { j.Status.FailedIndexes = test.before })
		s.observeIndexes()
		if got := s.failedIndexes.String(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestReplaced: which failed pods keep their finalizers until their successors exist.
func TestReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		completions, limit int32
		pods               string
		removing           []types.UID
		want               string
	}{
		"failed pods are kept corresponding to non-failed indexes are kept": {3, 1, "0:F/0 1:F/1 2:F/0", nil, "a c"},
		"failed pod without finalizer":                                      {2, 0, "0:F/0!", nil, ""},
		"failed pod with expected finalizer removal":                        {2, 0, "0:F/0", []types.UID{"a"}, ""},
		"failed pod with index outside of completions":                      {2, 0, "4:F/0", nil, ""},
		"failed pod for active index":                                       {2, 1, "0:F/0 0:R/1", nil, ""},
		"failed pod for succeeded index":                                    {2, 1, "0:F/0 0:S/1", nil, ""},
		"multiple failed pods for index with different failure count":       {2, 4, "0:F/0 0:F/2 0:F/1", nil, "b"},
		"multiple failed pods for index with different finish times":        {2, 4, "0:F/1-1 0:F/1-0 0:F/1-2", nil, "b"},
	} {
		s := indexedState(test.completions, test.pods, perIndex(test.limit), func(j *batchv1.Job) { j.Spec.BackoffLimit = ptr.To[int32](99) })
		s.removing = setOf(test.removing)
		s.observe(backoff{})
		var kept []*corev1.Pod
		for i := range int(test.completions) {
			if pod := s.replaced[i]; pod != nil {
				kept = append(kept, pod)
			}
		}
		if got := namesOf(kept); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestFailuresOfIndex: the failures that a pod has from its predecessor.
func TestFailuresOfIndex(t *testing.T) {
	disrupted := func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:          batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}},
		}}}
	}
	for name, test := range map[string]struct {
		before    string
		disrupted bool
		want      string
	}{
		"first pod created": {"", false, "0 0"},
		"failed pod being replaced with 0 index failure count":  {"0:F/0", false, "1 1"},
		"failed pod being replaced with >0 index failure count": {"0:F/3", false, "4 4"},
		"failed pod being replaced, matching the ignore rule":   {"0:F/3", true, "3 4"},
	} {
		s := indexedState(1, test.before, perIndex(9), disrupted)
		s.replaced = map[int]*corev1.Pod{}
		for _, pod := range s.pods {
			s.replaced[0] = pod
			if test.disrupted {
				pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
			}
		}
		next := &corev1.Pod{}
		s.setIndex(next, 0)
		counted, all := failuresOf(next)
		if got := fmt.Sprint(counted, all); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for value, want := range map[string]int32{
		"": 0, "2": 2, strconv.Itoa(math.MaxInt32): math.MaxInt32, strconv.Itoa(math.MaxInt32 + 1): 0, "-1": 0, "xyz": 0,
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1.JobIndexFailureCountAnnotation: value}}}
		if got, _ := failuresOf(pod); got != want {
			t.Errorf("%q: %d, want %d", value, got, want)
		}
	}
}

func TestIntervals(t *testing.T) {
	two := intervals{{2, 4}, {6, 8}}
	for index, want := range map[int]bool{1: false, 9: false, 5: false, 2: true, 3: true, 8: true} {
		if got := two.has(index); got != want {
			t.Errorf("%v has %d: %v", two, index, got)
		}
	}
	if intervals(nil).has(4) {
		t.Error("no intervals have an index")
	}
	for name, test := range map[string]struct {
		most        int
		completions int32
		active      string
		succeeded   intervals
		failed      intervals
		want        []int
	}{
		"cnt greater than completions":  {5, 3, "", nil, nil, []int{0, 1, 2}},
		"cnt less than completions":     {2, 5, "", nil, nil, []int{0, 1}},
		"first pods active":             {3, 10, "0:R 1:P", nil, nil, []int{2, 3, 4}},
		"last pods active or succeeded": {6, 6, "6:P", intervals{{4, 5}}, nil, []int{0, 1, 2, 3}},
		"mixed":                         {5, 20, "3:P 5:R 8:P :R -3:R", intervals{{2, 4}, {9, 9}}, nil, []int{0, 1, 6, 7, 10}},
		"with failed indexes":           {5, 20, "3:P 9:P", intervals{{1, 1}, {5, 5}, {9, 9}}, intervals{{2, 2}, {6, 7}}, []int{0, 4, 8, 10, 11}},
	} {
		s := indexedState(test.completions, test.active)
		s.active, s.succeededIndexes, s.failedIndexes = s.pods, test.succeeded, test.failed
		if got := s.pending(test.most); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestExcess: of the active pods of an index one is left, and none without an index that the job has.
func TestExcess(t *testing.T) {
	for name, test := range map[string]struct {
		pods, want string
	}{
		"all unique":     {":P 2:P 5:R 6:R", "a d"},
		"all with index": {"5:P 0:R 3:P 0:R 3:R 0:P 6:R 6:P", "c f h b g"},
		"mixed":          {":P invalid:R -2:R 0:P 1:P 1:P 1:R", "a e f b c"},
	} {
		s := indexedState(6, test.pods)
		s.active = parsePods(test.pods)
		if got := namesOf(s.excess(0)); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestNamePrefix(t *testing.T) {
	for name, want := range map[string]string{
		"indexed-job":             "indexed-job-1-",
		strings.Repeat("h", 68):   strings.Repeat("h", 55) + "-1-",
		strings.Repeat("h", 57):   strings.Repeat("h", 55) + "-1-",
		strings.Repeat("h", 55):   strings.Repeat("h", 55) + "-1-",
		strings.Repeat("h", 54):   strings.Repeat("h", 54) + "-1-",
		strings.Repeat("ab-", 10): strings.Repeat("ab-", 10) + "-1-",
	} {
		s := indexedState(3, "")
		s.job.Name = name
		pod := &corev1.Pod{}
		s.setIndex(pod, 1)
		if pod.GenerateName != want {
			t.Errorf("%s: %s, want %s", name, pod.GenerateName, want)
		}
	}
}

// TestBackoff: failures since the last success, the last of them, and the delay at noon.
func TestBackoff(t *testing.T) {
	for name, test := range map[string]struct {
		before            backoff
		succeeded, failed string
		want              backoff
		wait              time.Duration
	}{
		"one new failure":                                   {backoff{}, "", ":F-0", backoff{1, noon}, 10 * time.Second},
		"one failure a second ago":                          {backoff{}, "", ":F-1", backoff{1, noon.Add(-time.Second)}, 9 * time.Second},
		"one failure ten seconds ago":                       {backoff{}, "", ":F-10", backoff{1, noon.Add(-10 * time.Second)}, 0},
		"one failure eleven seconds ago":                    {backoff{}, "", ":F-11", backoff{1, noon.Add(-11 * time.Second)}, 0},
		"two new failures":                                  {backoff{}, "", ":F-0 :F-0.001", backoff{2, noon}, 20 * time.Second},
		"two failures followed by success":                  {backoff{}, ":S-0", ":F-0.002 :F-0.001", backoff{}, 0},
		"two failures, one success and two more failures":   {backoff{}, ":S-2", ":F-0 :F-4 :F-3 :F-1", backoff{2, noon}, 20 * time.Second},
		"failure count 2 and one new failure":               {backoff{failures: 2}, "", ":F-0", backoff{3, noon}, 40 * time.Second},
		"six failures":                                      {backoff{failures: 5}, "", ":F-0", backoff{6, noon}, 320 * time.Second},
		"seven failures exceed the maximum":                 {backoff{failures: 6}, "", ":F-0", backoff{7, noon}, 600 * time.Second},
		"a hundred failures":                                {backoff{failures: 99}, "", ":F-0", backoff{100, noon}, 600 * time.Second},
		"success and failure at same timestamp":             {backoff{}, ":S-0", ":F-0", backoff{}, 0},
		"no success/failure":                                {backoff{}, "", "", backoff{}, 0},
		"one success":                                       {backoff{failures: 3, last: noon}, ":S-0", "", backoff{}, 0},
		"nothing new":                                       {backoff{failures: 3, last: noon}, "", "", backoff{3, noon}, 40 * time.Second},
		"a failure that ended before one already known has": {backoff{failures: 1, last: noon}, "", ":F-9", backoff{2, noon.Add(-9 * time.Second)}, 11 * time.Second},
	} {
		got := test.before.after(parsePods(test.succeeded), parsePods(test.failed))
		if got != test.want || got.remaining(noon) != test.wait {
			t.Errorf("%s: %+v, wait %v; want %+v, %v", name, got, got.remaining(noon), test.want, test.wait)
		}
	}
	for name, test := range map[string]struct {
		pod     string
		ignored string
		want    time.Duration
	}{
		"two prev failures":                              {"0:F/2-0", "", 40 * time.Second},
		"one prev failure counted and one ignored":       {"0:F/1-0", "1", 40 * time.Second},
		"two prev failures, the last a quarter hour ago": {"0:F/2-900", "", 0},
	} {
		s := indexedState(1, test.pod, perIndex(9))
		s.pods[0].Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = test.ignored
		s.replaced = map[int]*corev1.Pod{0: s.pods[0]}
		if _, got := s.due([]int{0}); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestDue: the indexes whose back-off is over or, without any, the shortest delay.
func TestDue(t *testing.T) {
	for name, test := range map[string]struct {
		failed string
		now    []int
		wait   time.Duration
	}{
		"simple index creation":       {"", []int{0, 1, 2}, 0},
		"no index can be created now": {"0:F/0-0 1:F/1-0 2:F/0-4", nil, 6 * time.Second},
		"one of three":                {"0:F/0-0 1:F/0-10 2:F/0-9", []int{1}, 0},
	} {
		s := indexedState(3, test.failed, perIndex(9))
		s.replaced = map[int]*corev1.Pod{}
		for i, pod := range s.pods {
			s.replaced[i] = pod
		}
		if now, wait := s.due([]int{0, 1, 2}); !slices.Equal(now, test.now) || wait != test.wait {
			t.Errorf("%s: %v %v, want %v %v", name, now, wait, test.now, test.wait)
		}
	}
}

func TestEndOf(t *testing.T) {
	early := noon.Add(-30 * time.Second)
	running := corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	ready := func(status corev1.ConditionStatus, at time.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(at)}}
	}
	sidecar := endedAt(noon)
	sidecar.Name = "sidecar"
	init := endedAt(noon.Add(time.Hour))
	init.Name = "init"
	for name, test := range map[string]struct {
		containers, inits []corev1.ContainerStatus
		conditions        []corev1.PodCondition
		deleted           time.Time
		grace             *int64
		want              time.Time
	}{
		"all containers terminated": {[]corev1.ContainerStatus{endedAt(early), endedAt(noon), endedAt(early)}, nil, nil, time.Time{}, nil, noon},
		"one container runs":        {[]corev1.ContainerStatus{endedAt(early), running}, nil, nil, noon, nil, noon},
		"fallback to deletionTimestamp, decremented by grace period": {[]corev1.ContainerStatus{running}, nil, nil, noon, ptr.To[int64](30), early},
		"not ready":         {[]corev1.ContainerStatus{endedAt(time.Time{})}, nil, ready(corev1.ConditionFalse, early), noon, nil, early},
		"ready":             {[]corev1.ContainerStatus{endedAt(time.Time{})}, nil, ready(corev1.ConditionTrue, early), noon, nil, noon},
		"creationTimestamp": {[]corev1.ContainerStatus{endedAt(time.Time{})}, nil, nil, time.Time{}, nil, noon.Add(-time.Hour)},
		"sidecar":           {[]corev1.ContainerStatus{endedAt(early)}, []corev1.ContainerStatus{init, sidecar}, nil, time.Time{}, nil, noon},
	} {
		pod := &corev1.Pod{}
		pod.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
		pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)}}
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.Conditions = test.containers, test.inits, test.conditions
		if !test.deleted.IsZero() {
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = ptr.To(metav1.NewTime(test.deleted)), test.grace
		}
		if got := endOf(pod); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
