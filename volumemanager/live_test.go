package volumemanager_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// TestLive runs a manager on goroutines and the real clock.
func TestLive(t *testing.T) {
	t.Parallel()
	host := sim.NewLive(sim.LiveConfig{})
	defer host.Close()
	w := &world{World: &testworld.World{TB: t, Server: fake.NewServer(fake.Config{Now: host.Now})}}
	w.User = w.Server.Client(host.ExternalCaller())
	w.backend = &backend{
		attachable: true, stages: true,
		attached: map[string]bool{"disk-1": true}, devices: map[string]bool{}, pods: map[string]map[types.UID]bool{},
		disk: nodefs.NewMemory(diskRoot), unreadable: map[string]bool{},
		now:      func() string { return "now" },
		reported: func() []corev1.UniqueVolumeName { return w.node().Status.VolumesInUse },
		owns:     func(types.UID) bool { return true }, // that is the component's own
	}
	w.createNode()
	w.disk("disk-1")
	w.list("disk-1")
	w.start(host.Process("kubelet"))
	w.NoError(w.manager.MarkAllPodsAdded())
	host.Start()
	inUse := func(want bool) func() bool {
		return func() bool { return slices.Contains(w.node().Status.VolumesInUse, unique("disk-1")) == want }
	}
	mounted := make(chan bool, 1)
	w.kubelet.User("pod", func(context.Context) {
		w.manager.AddPod(newPod("a", "disk-1"))
		w.kubelet.Wait("mounted", 0, func() bool { return w.manager.Mounted("a") })
		mounted <- inUse(true)()
		w.manager.RemovePod("a")
		w.kubelet.Wait("unmounted", 0, func() bool { return w.manager.Quiescent() && !w.manager.HasVolumes("a") })
	})
	if !<-mounted {
		t.Error("mounted, and not in use")
	}
	w.NoError(host.Wait(t.Context(), "no volumes in use", inUse(false)))
	host.Close()
	testcheck.Equal(w, "mounts", nil, w.backend.mounts())
	testcheck.Equal(w, "violations", nil, w.backend.wrong)
}
