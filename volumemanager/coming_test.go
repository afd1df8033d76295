package volumemanager_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// coming is a world in which pods with shared volumes are created and deleted, and the controller
// attaches and detaches.
type coming struct {
	*world
	live       map[types.UID][]string // existing pods and their volumes
	controller *controller
}

// newComing returns such a world; the seed decides the pods, the faults and the interleaving.
func newComing(t *testing.T, seed uint64) *coming {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	w := &coming{world: newWorld(t, sim.NewSeeded(seed), func(b *backend) {
		b.stages = random.IntN(4) > 0
		b.attachable = random.IntN(5) > 0
	}), live: map[types.UID][]string{}}
	w.controller = newController(w)
	w.backend.inspect = w.inspect
	var pods [6]types.UID
	for i := range pods {
		pods[i] = types.UID(fmt.Sprintf("p%d", i))
	}
	disks := []string{"disk-0", "disk-1", "disk-2"}
	for _, disk := range disks {
		w.disk(disk)
		w.backend.faults = append(w.backend.faults, someFaults(random, disk, pods[:])...)
	}
	for range random.IntN(4) {
		w.failing = append(w.failing, reportFault{err: errFinal, after: random.IntN(2) == 0})
	}
	stays := random.IntN(2) == 0
	for half := range 2 {
		w.kubelet.User(fmt.Sprint("pods ", half), func(context.Context) {
			nap := func() {
				if random.IntN(2) == 0 {
					w.kubelet.Sleep(time.Duration(random.IntN(4)) * 700 * time.Millisecond)
					return
				}
				begun := w.backend.begun + random.IntN(2)
				w.kubelet.Wait("a call to begin", time.Second, func() bool { return w.backend.begun > begun })
			}
			for i, uid := range pods[half*3 : half*3+3] {
				random.Shuffle(len(disks), func(i, j int) { disks[i], disks[j] = disks[j], disks[i] })
				w.come(uid, slices.Clone(disks[:1+random.IntN(2)]))
				nap()
				if i == 2 && stays {
					return
				}
				w.leave(uid)
				if random.IntN(2) == 0 {
					nap()
				}
			}
		})
	}
	return w
}

// someFaults are faults of a volume's calls. A driver does not lie: only a mount with an uncertain
// error may have taken effect.
func someFaults(random *rand.Rand, disk string, pods []types.UID) []fault {
	calls := []string{"MountDevice " + disk, "UnmountDevice " + disk}
	for _, uid := range pods {
		calls = append(calls, fmt.Sprintf("SetUp %s %s", disk, uid), fmt.Sprintf("TearDown %s %s", disk, uid))
	}
	var faults []fault
	for _, call := range calls {
		mounts := strings.HasPrefix(call, "MountDevice") || strings.HasPrefix(call, "SetUp")
		for range random.IntN(3) {
			err := []error{errFinal, errTransient, errUncertain}[random.IntN(3)]
			faults = append(faults, fault{
				call: call, err: err,
				after: random.IntN(2) == 0 && (err == errUncertain || err == errFinal && !mounts),
			})
		}
	}
	return faults
}

func (w *coming) come(uid types.UID, disks []string) {
	w.live[uid] = disks
	w.manager.AddPod(newPod(uid, disks...))
	w.controller.look()
}

func (w *coming) leave(uid types.UID) {
	delete(w.live, uid)
	w.manager.RemovePod(uid)
	w.controller.look()
}

// wanted returns the volumes of the existing pods, sorted.
func (w *coming) wanted() []string {
	all := slices.Concat(slices.Collect(maps.Values(w.live))...)
	slices.Sort(all)
	return slices.Compact(all)
}

// inspect checks that pods reported as mounted are mounted.
func (w *coming) inspect() {
	for _, uid := range slices.Sorted(maps.Keys(w.live)) {
		for _, disk := range w.live[uid] {
			if w.manager.Mounted(uid) && !w.backend.pods[disk][uid] {
				w.backend.blame("pod %s is said to be mounted, and %s is not", uid, disk)
			}
		}
	}
}

// checkEnd checks what must be so when nothing is left to happen.
func (w *coming) checkEnd() {
	w.Helper()
	w.quiet()
	var mounts []string
	for _, uid := range slices.Sorted(maps.Keys(w.live)) {
		w.pod(uid, true, true)
		for _, disk := range w.live[uid] {
			mounts = append(mounts, disk+" "+string(uid))
		}
	}
	if w.backend.stages {
		mounts = append(mounts, w.wanted()...)
	}
	slices.Sort(mounts)
	got := w.backend.mounts()
	slices.Sort(got)
	testcheck.Equal(w, "mounts", mounts, got)
	if !w.backend.attachable {
		w.inUse()
		return
	}
	w.inUse(w.wanted()...)
	testcheck.Equal(w, "attached", w.wanted(), slices.Sorted(maps.Keys(w.backend.attached)))
}

// controller is a minimal attach/detach controller. It attaches the volumes that pods want, then
// lists them. It removes a volume from the list that no pod wants and the node does not report in
// use, and detaches it if the node, read after that, still does not.
type controller struct {
	w         *coming
	component *sim.Process
	client    kubernetes.Interface
	dirty     bool
}

func newController(w *coming) *controller {
	c := w.Host.Process("attachdetach")
	k := &controller{w: w, component: c, client: w.Server.Client(c)}
	c.Worker("sync", func() bool { return k.dirty }, k.sync)
	w.Server.OnCommit(func(fake.Commit) { k.look() })
	return k
}

func (k *controller) look() {
	k.dirty = true
	k.component.Wake()
}

func (k *controller) sync(ctx context.Context) {
	k.dirty = false
	b := k.w.backend
	if !b.attachable {
		return
	}
	for _, volume := range slices.Sorted(maps.Keys(b.attached)) {
		if !slices.Contains(k.w.wanted(), volume) && !k.inUse(ctx, volume) {
			k.detach(ctx, volume)
		}
	}
	for _, volume := range k.w.wanted() {
		if !b.attached[volume] {
			k.act("Attach", volume, func() { b.attached[volume] = true })
			k.list(ctx, slices.Sorted(maps.Keys(b.attached)))
		}
	}
}

func (k *controller) detach(ctx context.Context, volume string) {
	all := slices.Sorted(maps.Keys(k.w.backend.attached))
	k.list(ctx, slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == volume }))
	if k.inUse(ctx, volume) {
		k.list(ctx, all) // still in use
		return
	}
	k.act("Detach", volume, func() { k.w.backend.detach(volume) })
}

func (k *controller) act(verb, volume string, effect func()) {
	k.component.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: volume}, func() trace.Outcome {
		effect()
		return trace.Outcome{}
	})
}

func (k *controller) inUse(ctx context.Context, volume string) bool {
	node, err := k.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
	k.w.NoError(err)
	return slices.ContainsFunc(node.Status.VolumesInUse,
		func(n corev1.UniqueVolumeName) bool { return n == unique(volume) })
}

func (k *controller) list(ctx context.Context, volumes []string) {
	k.w.NoError(list(ctx, k.client, volumes))
}

// TestPodsAreCreatedAndDeleted runs many interleavings. The backend checks each step: I16, I17,
// I35, I36; at rest nothing is pending (L5, L6).
func TestPodsAreCreatedAndDeleted(t *testing.T) {
	t.Parallel()
	calls, failures := 0, 0
	for seed := range uint64(300) {
		w := newComing(t, seed)
		w.Run()
		w.checkEnd()
		calls += len(w.backend.calls)
		for _, call := range w.backend.calls {
			if strings.Contains(call, ": ") {
				failures++
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d\n%s", seed, w.Host.Log().Text())
		}
	}
	t.Logf("%d calls, %d of them failed", calls, failures)
	if calls < 3000 || failures < 300 {
		t.Errorf("only %d calls in all worlds, %d of them failed: too few", calls, failures)
	}
}

func TestSameSeedGivesTheSameTrace(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		first, second := newComing(t, seed), newComing(t, seed)
		first.Run()
		second.Run()
		if first.Host.Log().Text() != second.Host.Log().Text() {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
