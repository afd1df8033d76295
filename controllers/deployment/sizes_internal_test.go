package deployment

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/workload"
)

var start = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func parse(v string) *intstr.IntOrString {
	if v == "" {
		return nil
	}
	return ptr.To(intstr.Parse(v))
}

// rolling returns a Deployment with a rolling update.
func rolling(replicas int32, surge, unavailable string) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &replicas, Strategy: appsv1.DeploymentStrategy{
			Type:          appsv1.RollingUpdateDeploymentStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: parse(surge), MaxUnavailable: parse(unavailable)},
		}},
	}
}

// set returns a set of so many replicas, of which some are available. Higher versions are younger.
func set(version int, replicas, available int32) *appsv1.ReplicaSet {
	name := fmt.Sprintf("v%d", version)
	s := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(start.Add(time.Duration(version) * time.Hour)),
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas},
	}
	s.Status.AvailableReplicas = available
	return s
}

// sizesOf returns the sizes of sets, the oldest first, after changes.
func sizesOf(sets []*appsv1.ReplicaSet, changes []resize) string {
	sizes := map[string]int32{}
	for _, change := range changes {
		sizes[change.set.Name] = change.to
	}
	var out []string
	for _, set := range sets {
		size, changed := sizes[set.Name]
		if !changed {
			size = wanted(set)
		}
		out = append(out, strconv.Itoa(int(size)))
	}
	return strings.Join(out, " ")
}

// TestScaled: the sizes of sets after the number of replicas has changed. The last set is the new one,
// unless there is none.
func TestScaled(t *testing.T) {
	for _, test := range []struct {
		name      string
		before    *appsv1.Deployment
		d         *appsv1.Deployment
		sizes     []int32 // the oldest first
		available int32   // of the new set
		noNew     bool
		want      string
	}{
		{"normal scaling event: 10 -> 12", rolling(10, "", ""), rolling(12, "", ""), []int32{10}, 0, false, "12"},
		{"normal scaling event: 10 -> 5", rolling(10, "", ""), rolling(5, "", ""), []int32{10}, 0, false, "5"},
		{"proportional scaling: 5 -> 10", rolling(5, "", ""), rolling(10, "", ""), []int32{3, 2}, 0, false, "6 4"},
		{"proportional scaling: 5 -> 3", rolling(5, "", ""), rolling(3, "", ""), []int32{3, 2}, 0, false, "2 1"},
		{"proportional scaling: 9 -> 4", rolling(9, "", ""), rolling(4, "", ""), []int32{1, 8}, 0, false, "0 4"},
		{"proportional scaling: 7 -> 10", rolling(7, "", ""), rolling(10, "", ""), []int32{2, 3, 2}, 0, false, "3 4 3"},
		{"proportional scaling: 13 -> 8", rolling(13, "", ""), rolling(8, "", ""), []int32{3, 8, 2}, 0, false, "2 5 1"},
		{"leftover distribution: 3 -> 4", rolling(3, "", ""), rolling(4, "", ""), []int32{1, 1, 1}, 0, false, "1 1 2"},
		{"leftover distribution: 3 -> 2", rolling(3, "", ""), rolling(2, "", ""), []int32{1, 1, 1}, 0, false, "0 1 1"},
		{"proportional scaling (no new rs): 4 -> 5", rolling(4, "", ""), rolling(5, "", ""), []int32{2, 2}, 0, true, "2 3"},
		{"proportional scaling: 6 -> 0", rolling(6, "", ""), rolling(0, "", ""), []int32{1, 2, 3}, 0, false, "0 0 0"},
		{"proportional scaling: 0 -> 6", rolling(6, "", ""), rolling(6, "", ""), []int32{0, 0, 0}, 0, false, "0 0 6"},
		{"deployment with surge pods", rolling(10, "2", ""), rolling(20, "2", ""), []int32{6, 6}, 0, false, "11 11"},
		{"change both surge and size", rolling(10, "3", ""), rolling(50, "6", ""), []int32{8, 5}, 0, false, "34 22"},
		{"change both size and template", rolling(10, "", ""), rolling(14, "", ""), []int32{3, 7}, 0, true, "4 10"},
		{
			"saturated but broken new replica set does not affect old pods", rolling(2, "1", "1"), rolling(2, "1", "1"),
			[]int32{1, 2},
			0, false, "1 2",
		},
		{"saturated: the old pods go", rolling(2, "1", "1"), rolling(2, "1", "1"), []int32{1, 2}, 2, false, "0 2"},
		{"no set", rolling(2, "", ""), rolling(2, "", ""), nil, 0, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &rollout{d: test.d}
			for i, size := range test.sizes {
				s := set(i, size, 0)
				annotateSizes(test.before, s)
				r.old = append(r.old, s)
			}
			if !test.noNew {
				r.newest, r.old = r.old[len(r.old)-1], r.old[:len(r.old)-1]
				r.newest.Status.AvailableReplicas = test.available
			}
			if got := sizesOf(r.all(), r.scaled()); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestFailedScaling: a set that was written before the failure of another keeps its size.
func TestFailedScaling(t *testing.T) {
	r := &rollout{d: rolling(5, "", ""), old: []*appsv1.ReplicaSet{set(1, 1, 0), set(2, 1, 0)}, newest: set(3, 2, 0)}
	annotateSizes(rolling(5, "", ""), r.newest)
	annotateSizes(rolling(5, "", ""), r.old[0])
	annotateSizes(rolling(3, "", ""), r.old[1])
	if got := sizesOf(r.all(), r.scaled()); got != "1 2 2" {
		t.Errorf("%s", got)
	}
}

// TestProportion: the part of a set in the replicas that are added.
func TestProportion(t *testing.T) {
	for _, test := range []struct {
		name                    string
		replicas, status, surge int32
		set                     int32
		annotation              string
		want                    int32
	}{
		{"empty deployment always scales to 0", 0, 0, 0, 10, "", -10},
		{"unsynced deployment does not scale when max-replicas annotation is missing (removed by a 3rd party)", 10, 0, 0, 5, "", 0},
		{"unsynced deployment does not scale when max-replicas annotation is incorrectly set to 0 (by a 3rd party)", 10, 0, 0, 5, "0", 0},
		{
			"scale up by 1/5 should increase RS replicas by 1/5 when max-replicas annotation is missing (removed by a 3rd party)",
			120, 100, 0, 50, "", 10,
		},
		{
			"scale up by 1/5 should increase RS replicas by 1/5 when max-replicas annotation is incorrectly set to 0 (by a 3rd party)",
			120, 100, 0, 50, "0", 10,
		},
		{"scale up by 1/5 should increase RS replicas by 1/5", 120, 0, 0, 50, "100", 10},
		{"scale up with maxSurge by 1/5 should increase RS replicas approximately by 1/5", 120, 0, 10, 50, "110", 9},
		{"scale down by 1/6 should decrease RS replicas by 1/6", 10, 0, 0, 6, "12", -1},
		{"scale down with maxSurge by 1/6 should decrease RS replicas approximately by 1/6", 100, 0, 10, 50, "130", -8},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &rollout{d: rolling(test.replicas, strconv.Itoa(int(test.surge)), "1")}
			r.d.Status.Replicas = test.status
			s := set(1, test.set, 0)
			if test.annotation != "" {
				s.Annotations = map[string]string{maxAnnotation: test.annotation}
			}
			more := int32(100)
			if test.want < 0 {
				more = -100
			}
			if got := r.proportion(s, more, 0); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestFencesOf: maxSurge and maxUnavailable as numbers and percentages.
func TestFencesOf(t *testing.T) {
	for _, test := range []struct {
		name  string
		d     *appsv1.Deployment
		wantS int32
		wantU int32
	}{
		{"both 0%", rolling(10, "0%", "0%"), 0, 1},
		{"percentages are rounded up and down", rolling(10, "39%", "39%"), 4, 3},
		{"no surge", rolling(10, "", "39%"), 0, 3},
		{"maxUnavailable unset", rolling(10, "39%", ""), 4, 0},
		{"none", rolling(10, "", ""), 0, 1},
		{"maxUnavailable less than replicas", rolling(10, "0", "5"), 0, 5},
		{"maxUnavailable equal replicas", rolling(10, "0", "10"), 0, 10},
		{"maxUnavailable greater than replicas", rolling(5, "0", "10"), 0, 5},
		{"maxUnavailable with replicas is 0", rolling(0, "0", "10"), 0, 0},
		{"maxUnavailable with Recreate deployment strategy", &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
		}}, 0, 0},
		{"maxUnavailable less than replicas with percents", rolling(10, "0", "50%"), 0, 5},
		{"maxUnavailable equal replicas with percents", rolling(10, "0", "100%"), 0, 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			if surge, unavailable := fences(test.d); surge != test.wantS || unavailable != test.wantU {
				t.Errorf("%d, %d, want %d, %d", surge, unavailable, test.wantS, test.wantU)
			}
		})
	}
}

// TestNewSize: the size of the new set besides an old one.
func TestNewSize(t *testing.T) {
	recreated := rolling(3, "", "")
	recreated.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	for _, test := range []struct {
		name           string
		d              *appsv1.Deployment
		old, has, want int32
	}{
		{"should not scale up", rolling(10, "0", "0"), 10, 0, 0},
		{"up to the surge", rolling(10, "2", "0"), 10, 0, 2},
		{"fewer old ones", rolling(10, "2", "0"), 5, 0, 7},
		{"the surge is used", rolling(10, "2", "0"), 10, 2, 2},
		{"should scale down", rolling(10, "2", "0"), 2, 11, 10},
		{"scale up - to depReplicas", rolling(6, "10", "1"), 5, 2, 6},
		{"more than allowed", rolling(6, "1", "1"), 10, 2, 2},
		{"recreate - to depReplicas", recreated, 5, 1, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &rollout{d: test.d, old: []*appsv1.ReplicaSet{set(1, test.old, 0)}}
			if got := r.newSize(test.has); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// TestSmallerOld: the sizes of old sets, the oldest first.
func TestSmallerOld(t *testing.T) {
	for _, test := range []struct {
		name          string
		d             *appsv1.Deployment
		old           [][2]int32 // replicas, available
		new           [2]int32
		want          string
		wantedChanges int
	}{
		{"all available", rolling(10, "0", "0"), [][2]int32{{10, 10}}, [2]int32{}, "9", 1},
		{"two may be unavailable", rolling(10, "0", "2"), [][2]int32{{10, 10}}, [2]int32{}, "8", 1},
		{"two are unavailable", rolling(10, "0", "2"), [][2]int32{{10, 8}}, [2]int32{}, "8", 1},
		{"one is unavailable", rolling(10, "0", "2"), [][2]int32{{10, 9}}, [2]int32{}, "8", 2},
		{"too few are available", rolling(10, "0", "2"), [][2]int32{{10, 1}}, [2]int32{}, "8", 1},
		{"the new ones are not available", rolling(10, "0", "2"), [][2]int32{{8, 8}}, [2]int32{2, 0}, "8", 0},
		{"the new ones are available", rolling(10, "0", "2"), [][2]int32{{8, 8}}, [2]int32{2, 2}, "6", 1},
		{"the oldest first", rolling(10, "2", "0"), [][2]int32{{1, 1}, {9, 9}}, [2]int32{2, 2}, "0 8", 2},
		{"unhealthy ones of a younger set first", rolling(4, "1", "0"), [][2]int32{{4, 4}, {1, 0}}, [2]int32{}, "4 0", 1},
		{"a status of an earlier size", rolling(10, "2", "0"), [][2]int32{{8, 9}}, [2]int32{4, 4}, "8", 0},
		{"no old ones", rolling(10, "2", "0"), [][2]int32{{0, 0}}, [2]int32{10, 10}, "0", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &rollout{d: test.d, newest: set(9, test.new[0], test.new[1])}
			for i, old := range test.old {
				r.old = append(r.old, set(i, old[0], old[1]))
			}
			changes := r.smallerOld()
			if got := sizesOf(r.old, changes); got != test.want || len(changes) != test.wantedChanges {
				t.Errorf("%s in %d changes, want %s in %d", got, len(changes), test.want, test.wantedChanges)
			}
		})
	}
}

// TestSplit: the oldest set with the template is the new one, all others are old.
func TestSplit(t *testing.T) {
	of := func(version int, image string) *appsv1.ReplicaSet {
		s := set(version, 1, 0)
		s.Spec.Template.Spec.Containers = []corev1.Container{{Image: image}}
		return s
	}
	r := &rollout{d: rolling(1, "", "")}
	r.d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "2"}}
	r.split([]*appsv1.ReplicaSet{of(1, "1"), of(2, "2"), of(3, "2"), of(4, "3")})
	if r.newest.Name != "v2" || sizesOf(r.old, nil) != "1 1 1" || r.old[1].Name != "v3" {
		t.Errorf("new %s, old %v", r.newest.Name, r.old)
	}
	r = &rollout{d: r.d}
	if r.split([]*appsv1.ReplicaSet{of(1, "1")}); r.newest != nil || len(r.old) != 1 {
		t.Errorf("new %v, old %v", r.newest, r.old)
	}
}

// TestHasOldPods: whether a pod of an old set may run. That of the new set does not count.
func TestHasOldPods(t *testing.T) {
	phases := func(phases ...corev1.PodPhase) []corev1.PodPhase { return phases }
	for _, test := range []struct {
		name     string
		noOld    bool
		existing int32 // by the status of the old set
		phases   []corev1.PodPhase
		want     bool
	}{
		{"no old RSs", true, 0, nil, false},
		{"old RSs with running pods", false, 1, phases(corev1.PodRunning), true},
		{"old RSs without pods but with non-zero status replicas", false, 1, nil, true},
		{"old RSs without pods or non-zero status replicas", false, 0, nil, false},
		{
			"old RSs with zero status replicas but pods in terminal state are present", false, 0,
			phases(corev1.PodFailed, corev1.PodSucceeded), false,
		},
		{"old RSs with zero status replicas but pod in unknown phase present", false, 0, phases(corev1.PodUnknown), true},
		{"old RSs with zero status replicas with pending pod present", false, 0, phases(corev1.PodPending), true},
		{"old RSs with zero status replicas with running pod present", false, 0, phases(corev1.PodRunning), true},
		{
			"old RSs with zero status replicas but pods in terminal state and pending are present", false, 0,
			phases(corev1.PodFailed, corev1.PodSucceeded, corev1.PodPending), true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			index := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
			workload.IndexPods(index)
			r := &rollout{controller: &controller{podIndex: index}, d: rolling(1, "", ""), newest: set(2, 1, 0)}
			add := func(owner *appsv1.ReplicaSet, i int, phase corev1.PodPhase) {
				pod := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
				pod.Name = fmt.Sprint(owner.Name, i)
				pod.OwnerReferences = []metav1.OwnerReference{workload.ControllerRef(owner, setKind)}
				if err := index.Add(pod); err != nil {
					t.Fatal(err)
				}
			}
			add(r.newest, 0, corev1.PodRunning)
			if !test.noOld {
				r.old = []*appsv1.ReplicaSet{set(1, 0, 0)}
				r.old[0].Status.Replicas = test.existing
				for i, phase := range test.phases {
					add(r.old[0], i, phase)
				}
			}
			if got := r.hasOldPods(); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}
