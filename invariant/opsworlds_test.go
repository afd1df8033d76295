package invariant_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// opsRules are the rules of operations, events, caches, schedules, sizes and rest.
var opsRules = []string{"I23", "I23b", "I29", "I30", "I31", "I32", "I33", "I34", "L3", "L7", "L8", "L9"}

// opsFaults are the faults of the faulty worlds. Excluded are: a refused read, which a kubelet
// repeats only as a poll; a deletion of a VolumeAttachment with a lost answer, after which a stale
// cache can show the attach/detach controller the volume as attached indefinitely; an attach/detach
// controller that starts with a stale list of nodes, on which it relies indefinitely; and faults
// after which the scheduler forgets that it assigned a pod with a ReadWriteOncePod claim.
const opsFaults = "conflict(0.05), refused(update, 0.03), refused(patch, 0.03), refused(delete, 0.03), refused(create, 0.03), " +
	"lost(update, 0.03), lost(patch, 0.03), lost(attacher, 0.03), lost(provisioner, 0.03), " +
	"driver Unavailable(0.2), driver Internal(0.1), driver-lost DeadlineExceeded(0.1), hang(3), tick(0.02), " +
	"crash(pvcontroller, 1), crash(attachdetach with pods, 1), crash(attacher, 1), crash(pvcprotection, 1), relist(2), expire(1)"

// user is a script of a user. A panic with a wrong value ends it.
type user struct {
	ctx context.Context
	*cluster.Cluster
}

// wrong is an unexpected result, as a panic; see play.
type wrong struct{ error }

func (u user) do(_ any, err error) {
	if err != nil {
		panic(wrong{err})
	}
}

func (u user) wait(err error) { u.do(nil, err) }

func (u user) claim(name, class string, modes ...corev1.PersistentVolumeAccessMode) {
	claim := cluster.NewClaim(name, "32Mi")
	claim.Spec.StorageClassName = &class
	if len(modes) > 0 {
		claim.Spec.AccessModes = modes
	}
	u.do(u.Client().CoreV1().PersistentVolumeClaims("default").Create(u.ctx, claim, metav1.CreateOptions{}))
}

func (u user) deleteClaim(name string) {
	u.wait(u.Client().CoreV1().PersistentVolumeClaims("default").Delete(u.ctx, name, metav1.DeleteOptions{}))
	u.wait(u.WaitForGone(u.ctx, "persistentvolumeclaims", "default", name))
}

func (u user) pod(name, node string) {
	pod := cluster.NewPod(name, "data")
	pod.Spec.NodeName = node
	u.do(u.Client().CoreV1().Pods("default").Create(u.ctx, pod, metav1.CreateOptions{}))
}

func (u user) deletePod(name string) {
	u.wait(u.Client().CoreV1().Pods("default").Delete(u.ctx, name, metav1.DeleteOptions{}))
	u.wait(u.WaitForGone(u.ctx, "pods", "default", name))
}

func (u user) class(name string, change func(*storagev1.StorageClass)) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: u.DriverName()}
	change(class)
	u.do(u.Client().StorageV1().StorageClasses().Create(u.ctx, class, metav1.CreateOptions{}))
}

func late(class *storagev1.StorageClass) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	class.VolumeBindingMode = &mode
}

func kept(class *storagev1.StorageClass) {
	policy := corev1.PersistentVolumeReclaimRetain
	class.ReclaimPolicy = &policy
}

// moves is the life cycle of a volume: two pods, one after the other, on one node and then on
// another.
func moves(u user) {
	u.claim("data", cluster.ClassName)
	for _, node := range []string{"node-1", "node-2"} {
		u.pod("web", "")
		u.wait(u.WaitForPod(u.ctx, "default", "web", corev1.PodRunning))
		u.do(u.Client().CoreV1().Nodes().Patch(u.ctx, node, types.MergePatchType,
			[]byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{}))
		u.deletePod("web")
	}
	u.deleteClaim("data")
}

// rivals are two pods with the same ReadWriteOncePod claim, in a class with delayed binding.
func rivals(u user) {
	u.class("late", late)
	u.claim("data", "late", corev1.ReadWriteOncePod)
	u.pod("a", "")
	u.pod("b", "")
	for range 2 {
		running := ""
		u.wait(u.Wait(u.ctx, "one of the pods to run", func() bool {
			for _, o := range u.Server().List("pods") {
				if o.(*corev1.Pod).Status.Phase == corev1.PodRunning {
					running = o.GetName()
				}
			}
			return running != ""
		}))
		u.deletePod(running)
	}
}

// neighbours are two pods of one node that share a volume, and are created and deleted.
func neighbours(u user) {
	u.claim("data", cluster.ClassName)
	for range 2 {
		u.pod("a", "node-1")
		u.pod("b", "node-1")
		u.wait(u.WaitForPod(u.ctx, "default", "a", corev1.PodRunning))
		u.deletePod("b")
		u.deletePod("a")
	}
}

// leftovers are objects that remain at rest: a claim that no volume matches, one without its class,
// one without a consumer, and a retained volume while another claim has the name of its claim.
func leftovers(u user) {
	u.class("late", late)
	u.class("kept", kept)
	u.claim("nothing", "")
	u.claim("missing", "missing")
	u.claim("late", "late")
	u.claim("data", "kept")
	u.wait(u.WaitForClaim(u.ctx, "default", "data", corev1.ClaimBound))
	u.deleteClaim("data")
	u.claim("data", cluster.ClassName)
}

// play runs a world with the rules, lets resyncs pass at the end, and returns the violations.
func play(seed uint64, risks string, script func(user)) error {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{Strategy: sim.NewRandom(seed), StepsMax: 20_000}})
	if err != nil {
		return err
	}
	defer c.Close()
	rules, err := invariant.Select(opsRules...)
	if err != nil {
		return err
	}
	host := c.Host().(*sim.Stepped)
	check := invariant.Watch(invariant.World{API: c.Server(), Log: c.Trace(), Now: host.Now}, rules...)
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	drawn, err := sim.ParseFaultSpecs(risks)
	if err != nil {
		return err
	}
	chaos, err := sim.NewFaultInjector(sim.NewRandom(seed), seed, drawn, host.Steps()+500, cluster.EventKinds...)
	if err != nil {
		return err
	}
	host.SetStrategy(chaos)
	c.User("user", func(ctx context.Context) (err error) {
		defer func() {
			r := recover()
			if went, ok := r.(wrong); ok {
				err = went.error
			} else if r != nil {
				panic(r)
			}
		}()
		script(user{ctx, c})
		return nil
	})
	err = errors.Join(c.Run(context.Background()), pendingIn(c, check))
	if err == nil {
		host.SetStrategy(sim.NewRandom(seed))
		err = check.Resync(func() error {
			host.SetTime(host.Now().Add(10 * time.Minute))
			return host.Run()
		})
	}
	for _, v := range check.Violations() {
		err = errors.Join(err, fmt.Errorf("step %d: %w", v.Step, v))
	}
	if err != nil {
		return fmt.Errorf("seed %d: %w\n%s", seed, err, tail(c.Trace().Text(), 30))
	}
	return nil
}

// pendingIn returns what is pending in a world at rest.
func pendingIn(c *cluster.Cluster, check *invariant.Checker) error {
	var errs []error
	for _, o := range check.CheckAtRest() {
		errs = append(errs, errors.New(o.String()))
	}
	for _, o := range c.Pending() {
		errs = append(errs, errors.New(o))
	}
	return errors.Join(errs...)
}

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

func TestOperationRulesHoldInRealWorlds(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 4
	}
	for _, world := range []struct {
		name   string
		script func(user)
	}{{"moves", moves}, {"rivals", rivals}, {"neighbours", neighbours}, {"leftovers", leftovers}} {
		for name, risks := range map[string]string{"nothing goes wrong": "", "much goes wrong": opsFaults} {
			t.Run(world.name+", "+name, func(t *testing.T) {
				for seed := range seeds {
					if err := play(seed, risks, world.script); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
}
