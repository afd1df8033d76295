package volumebinding

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// cycleOf returns a cycle whose Filter has found how a pod gets its volumes on node n1.
func (w *rig) cycleOf(pod *corev1.Pod, volumes *podVolumes) *framework.Cycle {
	w.Helper()
	info, err := framework.NewPodInfo(pod)
	w.NoError(err)
	cycle := framework.NewCycle(info, framework.NewSnapshot(nil, nil))
	cycle.Write(Name, &state{byNode: map[string]*podVolumes{"n1": volumes}})
	return cycle
}

// assumedOn describes how the caches differ from those of the API server: the claim of each volume, and the
// node of each claim, that are assumed.
func (w *rig) assumedOn() string {
	w.Helper()
	var texts []string
	for _, obj := range w.plugin.volumes.store.List() {
		seen := obj.(*corev1.PersistentVolume)
		if v, err := w.plugin.volumes.get(seen.Name); err == nil && v != seen {
			texts = append(texts, v.Name+" for "+v.Spec.ClaimRef.Name)
		}
	}
	for _, obj := range w.plugin.claims.store.List() {
		seen := obj.(*corev1.PersistentVolumeClaim)
		if c, err := w.plugin.claims.get(keyOf(seen)); err == nil && c != seen {
			texts = append(texts, c.Name+" on "+c.Annotations[storagehelpers.AnnSelectedNode])
		}
	}
	return strings.Join(texts, ", ")
}

func TestAssumePodVolumes(t *testing.T) {
	second := claim("second", "1Gi", provided)
	for name, test := range map[string]struct {
		claims   claimList
		volumes  volumeList
		found    podVolumes
		allBound bool
		err      string
		want     string // that is assumed
	}{
		"all-bound": {claims: claimList{boundClaimA}, volumes: volumeList{taken}, allBound: true},
		"one-binding": {
			claims: claimList{small}, volumes: volumeList{on1}, found: podVolumes{bindings: []binding{{claim: small, volume: on1}}},
			want: "v1a for small",
		},
		"two-bindings": {
			claims: claimList{small, large}, volumes: volumeList{on1, on1b},
			found: podVolumes{bindings: []binding{{claim: small, volume: on1}, {claim: large, volume: on1b}}},
			want:  "v1a for small, v1b for large",
		},
		"pv-already-bound": {
			claims: claimList{small}, volumes: volumeList{volume("v1a", "n1", "5G", waits, of(small))},
			found: podVolumes{bindings: []binding{{claim: small, volume: volume("v1a", "n1", "5G", waits, of(small))}}},
		},
		"tmpupdate-failed": {
			claims: claimList{small}, volumes: volumeList{on1},
			found: podVolumes{bindings: []binding{{claim: small, volume: on1}, {claim: large, volume: on1b}}},
			err:   `persistentvolumes "v1b" not found`,
		},
		"one-binding, one-pvc-provisioned": {
			claims: claimList{small, toProvide}, volumes: volumeList{on1},
			found: podVolumes{bindings: []binding{{claim: small, volume: on1}}, provisions: []provision{{claim: toProvide}}},
			want:  "v1a for small, provided on n1",
		},
		"one-binding, one-provision-tmpupdate-failed": {
			claims: claimList{small, claim("second", "1Gi", provided, claimVersion("2"))}, volumes: volumeList{on1},
			found: podVolumes{bindings: []binding{{claim: small, volume: on1}}, provisions: []provision{{claim: second}}},
			err:   `"ns/second" is out of sync (stored: 2, assume: 1)`,
		},
		// not in upstream's table
		"claim has the node": {
			claims: claimList{claim("second", "1Gi", provided, forNode("n1"))},
			found:  podVolumes{provisions: []provision{{claim: claim("second", "1Gi", provided, forNode("n1"))}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newRig(t, Args{})
			p := pod("p")
			for _, c := range test.claims {
				w.cached(c)
				p.Spec.Volumes = append(p.Spec.Volumes, pod("", c.Name).Spec.Volumes...)
			}
			for _, v := range test.volumes {
				w.cached(v)
			}
			cycle := w.cycleOf(p, &test.found)
			status := w.plugin.Reserve(cycle, "n1")
			if status.Message() != test.err {
				t.Errorf("Reserve: %q, want %q", status.Message(), test.err)
			}
			if got := stateOf(cycle).allBound; got != test.allBound {
				t.Errorf("all bound: %v", got)
			}
			if got := w.assumedOn(); got != test.want {
				t.Errorf("assumed: %q, want %q", got, test.want)
			}
			w.plugin.Unreserve(cycle, "n1")
			w.plugin.Unreserve(cycle, "n1")
			if got := w.assumedOn(); got != "" {
				t.Errorf("assumed after Unreserve: %q", got)
			}
		})
	}
}

// After Reserve the same volumes are found again for the claim, and for no other.
func TestFindAssumeVolumes(t *testing.T) {
	w := newRig(t, Args{})
	w.cached(classes()...)
	w.cached(small, on2, on1, volume("v1b", "n1", "5G", waits))
	p, n1 := pod("p", "small"), node("n1")
	found, cycle := w.find(p, n1)
	if status := w.plugin.Reserve(cycle, "n1"); status != nil {
		t.Fatal(status)
	}
	for range 3 {
		again, _ := w.find(p, n1)
		if found.Volumes["small"] != "v1a" || again.Volumes["small"] != "v1a" {
			t.Fatalf("found %v, then %v", found, again)
		}
	}
	w.cached(claim("other", "1G", waits), claim("third", "1G", waits))
	other, second := w.find(pod("q", "other"), n1)
	if other.Volumes["other"] != "v1b" {
		t.Fatalf("the volume of another pod: %v", other)
	}
	if status := w.plugin.Reserve(second, "n1"); status != nil {
		t.Fatal(status)
	}
	if third, _ := w.find(pod("r", "third"), n1); len(third.Reasons) != 1 || third.Reasons[0] != noVolume {
		t.Errorf("a third pod: %v", third)
	}
	w.plugin.Unreserve(cycle, "n1")
	if third, _ := w.find(pod("r", "third"), n1); third.Volumes["third"] != "v1a" {
		t.Errorf("a third pod, after Unreserve: %v", third)
	}
}

// The claim of two pods is assumed once. The second pod must go to the node of the first.
func TestSharedClaimIsAssumed(t *testing.T) {
	w := newRig(t, Args{})
	w.cached(classes()...)
	w.cached(toProvide)
	_, cycle := w.find(pod("p", "provided"), node("n1"))
	if status := w.plugin.Reserve(cycle, "n1"); status != nil {
		t.Fatal(status)
	}
	if got, _ := w.find(pod("q", "provided"), node("n3")); len(got.Reasons) != 1 || got.Reasons[0] != noVolume {
		t.Errorf("on another node: %v", got)
	}
	got, second := w.find(pod("q", "provided"), node("n1"))
	if _, ok := got.Volumes["provided"]; !ok {
		t.Fatalf("on its node: %v", got)
	}
	if status := w.plugin.Reserve(second, "n1"); status != nil {
		t.Fatal(status)
	}
	w.plugin.Unreserve(second, "n1")
	if got := w.assumedOn(); got != "provided on n1" {
		t.Errorf("assumed after Unreserve of the second pod: %q", got)
	}
}

func TestPodWithoutClaimsNeedsNothing(t *testing.T) {
	w := newRig(t, Args{StorageCapacityScoring: true})
	p := pod("p")
	info, err := framework.NewPodInfo(p)
	w.NoError(err)
	cycle := framework.NewCycle(info, framework.NewSnapshot([]*corev1.Node{node("n1")}, nil))
	n1 := cycle.Snapshot.Node("n1")
	allocated := testing.AllocsPerRun(10, func() {
		if _, status := w.plugin.PreFilter(cycle); status.CodeOf() != framework.Skip {
			t.Errorf("PreFilter: %v", status)
		}
		if status := w.plugin.Filter(cycle, n1); status != nil {
			t.Errorf("Filter: %v", status)
		}
		if status := w.plugin.PreScore(cycle, nil); status.CodeOf() != framework.Skip {
			t.Errorf("PreScore: %v", status)
		}
		if score, status := w.plugin.Score(cycle, n1); score != 0 || status != nil {
			t.Errorf("Score: %v, %v", score, status)
		}
		if status := w.plugin.Reserve(cycle, "n1"); status != nil {
			t.Errorf("Reserve: %v", status)
		}
		if done, status := w.plugin.PreBind(t.Context(), cycle, "n1"); !done || status != nil {
			t.Errorf("PreBind: %v, %v", done, status)
		}
		w.plugin.Unreserve(cycle, "n1")
	})
	if allocated != 0 {
		t.Errorf("%v allocations", allocated)
	}
}
