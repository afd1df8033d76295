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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

// opsRules are the rules of operations, events, caches, schedules, sizes and rest.
var opsRules = []string{"I23", "I23b", "I29", "I30", "I31", "I32", "I33", "I34", "L3", "L7", "L8", "L9"}

// opsRisks are what goes wrong in the worlds in which something does. Not among them are: a conflict of a kubelet's patch of a
// pod's status, which it takes for the pod's end; a read that is refused, which a kubelet repeats as a poll only; and a
// binding whose answer is lost, after which the scheduler may put another pod on a claim for one pod alone.
const opsRisks = "conflict(update, 0.05), conflict(attach, 0.05), conflict(provisioner, 0.05), refused(update, 0.03), " +
	"refused(patch, 0.03), refused(delete, 0.03), refused(create, 0.03), lost(update, 0.03), lost(patch, 0.03), " +
	"lost(delete, 0.03), lost(attach, 0.03), lost(provisioner, 0.03), driver Unavailable(0.2), driver Internal(0.1), " +
	"driver-lost DeadlineExceeded(0.1), hang(3), tick(0.02)"

// script is what a user does in a world.
type script func(ctx context.Context, c *cluster.Cluster) error

// retry repeats a request that went wrong on its way, as a user would.
func retry(request func() error) error {
	var err error
	for range 100 {
		err = request()
		if !apierrors.IsServiceUnavailable(err) && !apierrors.IsTimeout(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return err
}

// moves is the life of a volume: two pods, one after the other, on one node and then on the other.
func moves(ctx context.Context, c *cluster.Cluster) error {
	client := c.Client().CoreV1()
	if err := createClaim(ctx, c, cluster.NewClaim("data", "32Mi")); err != nil {
		return err
	}
	for _, node := range []string{"node-1", "node-2"} {
		if err := createPod(ctx, c, cluster.NewPod("web", "data")); err != nil {
			return err
		}
		if err := c.WaitForPod(ctx, "default", "web", corev1.PodRunning); err != nil {
			return err
		}
		err := retry(func() error {
			_, err := client.Nodes().Patch(ctx, node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
			return err
		})
		if err != nil {
			return err
		}
		if err := deletePod(ctx, c, "web"); err != nil {
			return err
		}
	}
	return gone(retry(func() error {
		return client.PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{})
	}))
}

// rivals are two pods that want a claim for one pod alone, of a class that waits for its first consumer.
func rivals(ctx context.Context, c *cluster.Cluster) error {
	mode, class := storagev1.VolumeBindingWaitForFirstConsumer, "late"
	err := created(retry(func() error {
		_, err := c.Client().StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: c.DriverName(), VolumeBindingMode: &mode,
		}, metav1.CreateOptions{})
		return err
	}))
	if err != nil {
		return err
	}
	claim := cluster.NewClaim("data", "32Mi")
	claim.Spec.StorageClassName = &class
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	if err := createClaim(ctx, c, claim); err != nil {
		return err
	}
	names := []string{"a", "b"}
	for _, name := range names {
		if err := createPod(ctx, c, cluster.NewPod(name, "data")); err != nil {
			return err
		}
	}
	for range names {
		running := ""
		err := c.Wait(ctx, "one of the pods to run", func() bool {
			for _, o := range c.Server().List("pods") {
				if o.(*corev1.Pod).Status.Phase == corev1.PodRunning {
					running = o.GetName()
				}
			}
			return running != ""
		})
		if err != nil {
			return err
		}
		if err := deletePod(ctx, c, running); err != nil {
			return err
		}
	}
	return nil
}

// neighbours are two pods of one node that share a volume, and come and go.
func neighbours(ctx context.Context, c *cluster.Cluster) error {
	if err := createClaim(ctx, c, cluster.NewClaim("data", "32Mi")); err != nil {
		return err
	}
	for range 2 {
		for _, name := range []string{"a", "b"} {
			pod := cluster.NewPod(name, "data")
			pod.Spec.NodeName = "node-1"
			if err := createPod(ctx, c, pod); err != nil {
				return err
			}
		}
		if err := c.WaitForPod(ctx, "default", "a", corev1.PodRunning); err != nil {
			return err
		}
		for _, name := range []string{"b", "a"} {
			if err := deletePod(ctx, c, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// leftovers is what comes to rest without being all gone: a claim that nothing suits, one without a consumer, and a volume
// that is kept while another claim has the name of its own.
func leftovers(ctx context.Context, c *cluster.Cluster) error {
	retain, mode := corev1.PersistentVolumeReclaimRetain, storagev1.VolumeBindingWaitForFirstConsumer
	for _, class := range []*storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Provisioner: c.DriverName(), ReclaimPolicy: &retain},
		{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: c.DriverName(), VolumeBindingMode: &mode},
	} {
		err := created(retry(func() error {
			_, err := c.Client().StorageV1().StorageClasses().Create(ctx, class.DeepCopy(), metav1.CreateOptions{})
			return err
		}))
		if err != nil {
			return err
		}
	}
	for _, of := range [][2]string{{"nothing", ""}, {"missing", "missing"}, {"late", "late"}, {"data", "kept"}} {
		claim := cluster.NewClaim(of[0], "32Mi")
		claim.Spec.StorageClassName = &of[1]
		if err := createClaim(ctx, c, claim); err != nil {
			return err
		}
	}
	if err := c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound); err != nil {
		return err
	}
	err := gone(retry(func() error {
		return c.Client().CoreV1().PersistentVolumeClaims("default").Delete(ctx, "data", metav1.DeleteOptions{})
	}))
	if err != nil {
		return err
	}
	if err := c.WaitForGone(ctx, "persistentvolumeclaims", "default", "data"); err != nil {
		return err
	}
	return createClaim(ctx, c, cluster.NewClaim("data", "32Mi"))
}

func createClaim(ctx context.Context, c *cluster.Cluster, claim *corev1.PersistentVolumeClaim) error {
	return created(retry(func() error {
		_, err := c.Client().CoreV1().PersistentVolumeClaims("default").Create(ctx, claim.DeepCopy(), metav1.CreateOptions{})
		return err
	}))
}

func createPod(ctx context.Context, c *cluster.Cluster, pod *corev1.Pod) error {
	return created(retry(func() error {
		_, err := c.Client().CoreV1().Pods("default").Create(ctx, pod.DeepCopy(), metav1.CreateOptions{})
		return err
	}))
}

// created takes what is there already for created: the answer to the first request was lost.
func created(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// gone takes what is not there for deleted, likewise.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func deletePod(ctx context.Context, c *cluster.Cluster, name string) error {
	err := gone(retry(func() error { return c.Client().CoreV1().Pods("default").Delete(ctx, name, metav1.DeleteOptions{}) }))
	if err != nil {
		return err
	}
	return c.WaitForGone(ctx, "pods", "default", name)
}

// play runs a world with the rules over it, at the end lets resyncs pass, and returns what was wrong.
func play(seed uint64, risks string, user script) error {
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
	if risks != "" {
		parsed, err := sim.ParseRisks(risks)
		if err != nil {
			return err
		}
		chaos, err := sim.NewChaos(sim.NewRandom(seed), seed, parsed, 1500, []string{"tick"})
		if err != nil {
			return err
		}
		host.SetStrategy(chaos)
	}
	c.User("user", func(ctx context.Context) error { return user(ctx, c) })
	err = c.Run(context.Background())
	for _, o := range check.Rest() {
		err = errors.Join(err, errors.New(o.String()))
	}
	owed := c.Owed()
	for _, o := range owed {
		err = errors.Join(err, errors.New(o))
	}
	if len(owed) == 0 && err == nil {
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

func tail(text string, lines int) string {
	all := strings.SplitAfter(text, "\n")
	return strings.Join(all[max(0, len(all)-lines):], "")
}

func TestOperationRulesHoldInRealWorlds(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 20
	}
	for _, world := range []struct {
		name string
		user script
	}{{"moves", moves}, {"rivals", rivals}, {"neighbours", neighbours}, {"leftovers", leftovers}} {
		for _, risks := range []string{"", opsRisks} {
			t.Run(fmt.Sprintf("%s faults=%v", world.name, risks != ""), func(t *testing.T) {
				for seed := range seeds {
					if err := play(seed, risks, world.user); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
}
