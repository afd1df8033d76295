package snapshotter_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/snapshotter"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// faultyCaller fails some requests, before or after their effect.
type faultyCaller struct {
	sim.Caller
	world *world
}

var errLost = errors.New("lost")

func (c *faultyCaller) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return c.Caller.Call(action, func() trace.Outcome {
		if c.world.faults == 0 || c.world.draw.Choose(8) > 0 {
			return effect()
		}
		c.world.faults--
		if c.world.draw.Choose(2) == 0 {
			effect()
		}
		return trace.Outcome{Err: errLost}
	})
}

// TestEveryScheduleEndsWithoutLeaks has rounds of one content and one group, each of which may be deleted
// at any time, with faults of the driver and of requests, and with crashes after which the cache lags.
// In the end a content that exists is ready and has its snapshot, and no other snapshot exists.
func TestEveryScheduleEndsWithoutLeaks(t *testing.T) {
	t.Parallel()
	for seed := range uint64(12) {
		w := newWorld(t, sim.NewSeeded(seed), snapshotter.Config{})
		w.draw = sim.NewSeeded(seed + 1_000_000)
		w.class("gold", nil)
		w.groupClass("gold", nil)
		w.restart()
		w.watchDeletions()
		for round := range 15 {
			w.round(fmt.Sprintf("c-%d", round))
			if t.Failed() {
				t.Fatalf("seed %d, round %d\n%s", seed, round, w.Host.Log().Text())
			}
		}
	}
}

// restart crashes the snapshotter, and starts another one whose cache may lag.
func (w *world) restart() {
	w.Host.Crash(w.process)
	w.start()
	w.Server.DelayCache(w.process, snapshotapi.Contents.CommitName(), w.draw.Choose(6))
	w.Server.DelayCache(w.process, snapshotapi.GroupContents.CommitName(), w.draw.Choose(6))
}

// watchDeletions fails the test if a content is removed before its snapshot.
func (w *world) watchDeletions() {
	w.lookAt(func(before, after *snapshotapi.VolumeSnapshotContent) {
		if after == nil && slices.Contains(w.storage.handles(), "handle-of-snapshot-"+string(before.Spec.VolumeSnapshotRef.UID)) {
			w.Errorf("content %s is removed before its snapshot", before.Name)
		}
	})
}

// round creates a content and a group, and lets the world run until it is quiescent.
func (w *world) round(name string) {
	w.faults, w.storage.readyAfter = w.draw.Choose(4), w.draw.Choose(3)
	w.drawDriverFaults()
	content, group := newContent(name), newGroupContent(name)
	content.Spec.VolumeSnapshotRef.UID, group.Spec.VolumeGroupSnapshotRef.UID = types.UID(name), types.UID(name)
	w.add(content)
	w.addGroup(group)
	deleteAt, deleteGroupAt, crashes := w.draw.Choose(40), w.draw.Choose(40), w.draw.Choose(3)
	for step := 0; w.Host.Step(); step++ {
		switch {
		case step == deleteAt:
			w.delete(name)
		case step == deleteGroupAt:
			w.deleteGroup(name)
		case crashes > 0 && w.draw.Choose(12) == 0:
			crashes--
			w.restart()
		}
	}
	w.NoError(w.Host.Err())
	w.checkLeaks(name)
}

// drawDriverFaults draws faults of the driver: final ones without effect, or others. A final error after
// another one would be a lie: the driver may have the snapshot.
func (w *world) drawDriverFaults() {
	w.conn.Faults = nil
	methods := []string{"CreateSnapshot", "DeleteSnapshot", "CreateVolumeGroupSnapshot", "DeleteVolumeGroupSnapshot"}
	open, final := []codes.Code{codes.OK, codes.DeadlineExceeded, codes.Aborted}, w.draw.Choose(4) == 0
	for range w.draw.Choose(4) {
		fault := scripted.Fault{Method: methods[w.draw.Choose(4)], Code: codes.Internal}
		if !final {
			fault.Code, fault.After = open[w.draw.Choose(3)], w.draw.Choose(2) == 0
		}
		w.conn.Faults = append(w.conn.Faults, fault)
	}
}

// checkLeaks compares the contents with the snapshots of the storage.
func (w *world) checkLeaks(name string) {
	var want []string
	if content := w.content(name); content != nil {
		want = append(want, "handle-of-snapshot-"+name)
		if got := w.describe(name); got != want[0]+" 00:00:00 1000 bytes ready" {
			w.Errorf("content %s: %s", name, got)
		}
		w.delete(name) // for the next round
	}
	if group := w.groupContent(name); group != nil {
		want = append(want, "handle-of-groupsnapshot-"+name+"-0", "handle-of-groupsnapshot-"+name+"-1")
		if status := group.Status; status == nil || !*status.ReadyToUse || len(status.VolumeSnapshotInfoList) != 2 || len(group.Annotations) > 0 {
			w.Errorf("group %s: %s", name, w.describeGroup(name))
		}
		w.deleteGroup(name)
	}
	slices.Sort(want)
	if got := w.storage.handles(); !slices.Equal(got, want) {
		w.Errorf("snapshots %v, want %v", got, want)
	}
	w.conn.Faults, w.faults = nil, 0
	w.Run()
	if got := w.storage.handles(); len(got) > 0 {
		w.Errorf("snapshots %v are left", got)
	}
}

// TestSchedulesRepeat runs one seed twice.
func TestSchedulesRepeat(t *testing.T) {
	t.Parallel()
	var logs []string
	for range 2 {
		w := newWorld(t, sim.NewSeeded(7), snapshotter.Config{})
		w.draw = sim.NewSeeded(8)
		w.class("gold", nil)
		w.groupClass("gold", nil)
		w.round("c")
		logs = append(logs, w.Host.Log().Text())
	}
	testcheck.NoError(t, sameText(logs[0], logs[1]))
}

func sameText(a, b string) error {
	if a != b {
		return fmt.Errorf("two runs differ:\n%s\n%s", a, b)
	}
	return nil
}
