package executor_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/executor"
)

const volume = corev1.UniqueVolumeName("kubernetes.io/csi/driver^1")

// naiveOverlaps states upstream's table of key forms: which fields are set, and whether they are
// equal.
func naiveOverlaps(a, b executor.Key) bool {
	if a.Volume == "" || b.Volume == "" || a.Volume != b.Volume {
		return false
	}
	podsDiffer := a.Pod != "" && b.Pod != "" && a.Pod != b.Pod
	nodesDiffer := a.Node != "" && b.Node != "" && a.Node != b.Node
	return !podsDiffer && !nodesDiffer
}

func drawKey(t *rapid.T) executor.Key {
	return executor.Key{
		Volume: rapid.SampledFrom([]corev1.UniqueVolumeName{"", "v", "w"}).Draw(t, "volume"),
		Pod:    rapid.SampledFrom([]types.UID{"", "a", "b"}).Draw(t, "pod"),
		Node:   rapid.SampledFrom([]types.NodeName{"", "m", "n"}).Draw(t, "node"),
	}
}

func TestOverlapsEqualsTheModelAndIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKey(t), drawKey(t)
		if got, want := a.Overlaps(b), naiveOverlaps(a, b); got != want {
			t.Errorf("%v overlaps %v: %v, want %v", a, b, got, want)
		}
		if a.Overlaps(b) != b.Overlaps(a) {
			t.Errorf("%v and %v: overlapping is not symmetric", a, b)
		}
		if got, want := a.Overlaps(a), a.Volume != ""; got != want {
			t.Errorf("%v overlaps itself: %v, want %v", a, got, want)
		}
	})
}

// TestConcurrencyMatrix checks which operations may run concurrently on one volume.
func TestConcurrencyMatrix(t *testing.T) {
	t.Parallel()
	keys := map[string]executor.Key{
		"attach RWO":      {Volume: volume},
		"attach n1 RWX":   {Volume: volume, Node: "n1"},
		"attach n2 RWX":   {Volume: volume, Node: "n2"},
		"mount shared":    {Volume: volume},
		"unmount pod A":   {Volume: volume, Pod: "A"},
		"unmount pod B":   {Volume: volume, Pod: "B"},
		"unmount device":  {Volume: volume},
		"mount own pod A": {Volume: volume, Pod: "A"},
		"verify attached": {},
	}
	together := map[[2]string]bool{
		{"attach n1 RWX", "attach n2 RWX"}:   true,
		{"unmount pod A", "unmount pod B"}:   true,
		{"mount own pod A", "unmount pod B"}: true,
	}
	for running, a := range keys {
		for next, b := range keys {
			want := together[[2]string{running, next}] || together[[2]string{next, running}] ||
				running == "verify attached" || next == "verify attached"
			if got := !a.Overlaps(b); got != want {
				t.Errorf("%s while %s runs: allowed %v, want %v", next, running, got, want)
			}
		}
	}
}
