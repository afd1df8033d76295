package kubelet_test

import (
	"errors"
	"testing"

	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestVolumeStats asks the driver of each volume that is mounted, and leaves out what cannot be
// measured.
func TestVolumeStats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.create("web", "data", "more")
	w.create("db", "log")
	w.createPod(cluster.NewPod("waits", "missing"))
	w.rest()
	testcheck.NoError(w.t, w.WriteFile("default", "web", "data", "f", []byte("twelve bytes")))
	asked := 0
	w.driver = func(method string, _ any) error {
		if method != "NodeGetVolumeStats" {
			return nil
		}
		if asked++; asked == 1 {
			return errors.New("broken")
		}
		return nil
	}
	got, err := w.VolumeStats(t.Context(), "node-1")
	testcheck.NoError(w.t, err)
	testcheck.Equal(w.t, "node", "node-1", got.Node.NodeName)
	type row struct{ Pod, Volume, Claim string }
	var rows []row
	for _, pod := range got.Pods {
		if len(pod.VolumeStats) == 0 {
			rows = append(rows, row{Pod: pod.PodRef.Name})
		}
		for _, v := range pod.VolumeStats {
			rows = append(rows, row{pod.PodRef.Name, v.Name, v.PVCRef.Namespace + "/" + v.PVCRef.Name})
			if v.CapacityBytes == nil || *v.CapacityBytes == 0 || v.AvailableBytes == nil || v.UsedBytes == nil {
				t.Errorf("of %s nothing is known: %+v", v.Name, v.FsStats)
			}
		}
	}
	testcheck.Equal(w.t, "pods and volumes", []row{
		{Pod: "db"}, {Pod: "waits"}, {"web", "data", "default/data"}, {"web", "more", "default/more"},
	}, rows)
	testcheck.Equal(w.t, "used by data", uint64(12), used(got, "data"))
	testcheck.Equal(w.t, "used by more", uint64(0), used(got, "more"))
}

// used is how much of a volume is used; 0 where that is not told.
func used(of *stats.Summary, volume string) uint64 {
	for _, pod := range of.Pods {
		for _, v := range pod.VolumeStats {
			if v.Name == volume && v.UsedBytes != nil {
				return *v.UsedBytes
			}
		}
	}
	return 0
}

func TestVolumeStatsOfNoNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if _, err := w.VolumeStats(t.Context(), "node-7"); !errors.Is(err, cluster.ErrUnknownComponent) {
		t.Errorf("error of a node that there is not: %v", err)
	}
	testcheck.NoError(w.t, w.Stop("kubelet(node-1)"))
	if _, err := w.VolumeStats(t.Context(), "node-1"); !errors.Is(err, cluster.ErrUnknownComponent) {
		t.Errorf("error of a node whose kubelet is down: %v", err)
	}
}
