package cluster_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// A wait for snapshots that fails says why.
func TestSnapshotWaitFailsWithTheCause(t *testing.T) {
	ready := func(ctx context.Context, c *cluster.Cluster) error {
		return c.WaitFor(ctx, volumeSnapshots, "default", "before", readyToUse)
	}
	restored := func(ctx context.Context, c *cluster.Cluster) error {
		return c.WaitForClaim(ctx, "default", "restored", corev1.ClaimBound)
	}
	gone := func(resource, name string) func(context.Context, *cluster.Cluster) error {
		return func(ctx context.Context, c *cluster.Cluster) error {
			return c.WaitForGone(ctx, resource, "default", name)
		}
	}
	taken := func(t *testing.T, c *cluster.Cluster) {
		t.Helper()
		add(t, c, cluster.NewClaim("data", "1Gi"))
		testcheck.NoError(t, c.WaitForClaim(t.Context(), "default", "data", corev1.ClaimBound), c.Apply(t.Context(), snapshotOfData),
			ready(t.Context(), c))
	}
	deleteSnapshot := func(t *testing.T, c *cluster.Cluster) {
		t.Helper()
		testcheck.NoError(t, snapshotsOf(c).Delete(t.Context(), "default", "before", metav1.DeleteOptions{}))
	}
	for _, test := range []struct {
		name string
		play func(t *testing.T, c *cluster.Cluster)
		wait func(ctx context.Context, c *cluster.Cluster) error
		want string // part of the first line
	}{
		{"no claim", func(t *testing.T, c *cluster.Cluster) {
			testcheck.NoError(t, c.Apply(t.Context(), snapshotOfData))
		}, ready, "{.status.readyToUse} is not set; claim default/data, its source, not found"},
		{"a claim that is not bound", func(t *testing.T, c *cluster.Cluster) {
			add(t, c, claimOf("data", "fast"))
			testcheck.NoError(t, c.Apply(t.Context(), snapshotOfData))
		}, ready, "claim default/data, its source, is Pending"},
		{"a class that does not exist", func(t *testing.T, c *cluster.Cluster) {
			add(t, c, cluster.NewClaim("data", "1Gi"))
			testcheck.NoError(t, c.WaitForClaim(t.Context(), "default", "data", corev1.ClaimBound),
				c.Apply(t.Context(), strings.Replace(snapshotOfData, "spec: {", "spec: {volumeSnapshotClassName: gold, ", 1)))
		}, ready, `Failed to get snapshot class with error volumesnapshotclass.snapshot.storage.k8s.io "gold" not found`},
		{"no controller", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			deleteSnapshot(t, c)
			testcheck.NoError(t, c.WaitForRest(t.Context()), c.Stop("snapshotcontroller"), c.Apply(t.Context(), snapshotOfData))
		}, ready, "component snapshotcontroller is stopped"},
		{"no snapshotter", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			deleteSnapshot(t, c)
			testcheck.NoError(t, c.WaitForRest(t.Context()), c.Stop("snapshotter"), c.Apply(t.Context(), snapshotOfData))
		}, ready, `{.status.readyToUse} is "false"; component snapshotter is stopped`},
		{"restored from nothing", func(t *testing.T, c *cluster.Cluster) {
			add(t, c, restoredFrom("before", "restored", "1Gi"))
		}, restored, "snapshot default/before, its source, not found"},
		{"restored from a snapshot that is not ready", func(t *testing.T, c *cluster.Cluster) {
			testcheck.NoError(t, c.Apply(t.Context(), snapshotOfData))
			add(t, c, restoredFrom("before", "restored", "1Gi"))
		}, restored, "snapshot default/before is not ready (claim default/data, its source, not found)"},
		{"restored into less", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			add(t, c, restoredFrom("before", "restored", "1Mi"))
		}, restored, "it requests 1Mi, and snapshot default/before needs 1Gi"},
		{"a claim that is a source", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			deleteSnapshot(t, c)
			testcheck.NoError(t, c.WaitForRest(t.Context()), c.Stop("snapshotter"), c.Apply(t.Context(), snapshotOfData),
				c.Wait(t.Context(), "the claim to be held", func() bool {
					claim, _ := c.Server().Get("persistentvolumeclaims", "default", "data")
					return slices.Contains(claim.GetFinalizers(), "snapshot.storage.kubernetes.io/pvc-as-source-protection")
				}), c.Client().CoreV1().PersistentVolumeClaims("default").Delete(t.Context(), "data", metav1.DeleteOptions{}))
		}, gone("persistentvolumeclaims", "data"), "finalizer snapshot.storage.kubernetes.io/pvc-as-source-protection is not removed " +
			"(snapshot default/before of the claim is not ready to use)"},
		{"a snapshot that is restored", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			testcheck.NoError(t, c.Stop("provisioner"))
			add(t, c, restoredFrom("before", "restored", "1Gi"))
			deleteSnapshot(t, c)
		}, gone(volumeSnapshots, "before"), "finalizer snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection is not removed " +
			"(claim default/restored is made from it)"},
		{"a content that is left", func(t *testing.T, c *cluster.Cluster) {
			taken(t, c)
			testcheck.NoError(t, c.Stop("snapshotter"))
			deleteSnapshot(t, c)
		}, gone(volumeSnapshots, "before"), "finalizer snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection is not removed " +
			"(component snapshotter is stopped)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := start(t, cluster.Config{Snapshots: true, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20000}})
			test.play(t, c)
			err := test.wait(t.Context(), c)
			if err == nil {
				t.Fatal("no error")
			}
			if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.Contains(first, test.want) {
				t.Errorf("%v\nwant %s", err, test.want)
			}
		})
	}
}

// TestRestWaitsForSnapshots: a stepped world is not at rest while a snapshot is taken, restored or deleted.
func TestRestWaitsForSnapshots(t *testing.T) {
	ctx := t.Context()
	c := start(t, cluster.Config{Snapshots: true, Nodes: 1, Stepped: &sim.SteppedConfig{StepsMax: 20000}})
	add(t, c, cluster.NewClaim("data", "1Gi"))
	testcheck.NoError(t, c.WaitForClaim(ctx, "default", "data", corev1.ClaimBound), c.Apply(ctx, snapshotOfData), c.WaitForRest(ctx))
	rest := func(what string) {
		t.Helper()
		steps := c.Trace().Steps()
		testcheck.NoError(t, c.Run(ctx))
		for _, r := range c.Trace().Records() {
			if r.Step > steps && r.Resource() != "events" && (r.After != nil || r.Kind == trace.KindDriver && !r.Read) {
				t.Errorf("%s: the world was at rest, and then: %v", what, r)
			}
		}
	}
	snapshot := testcheck.Must(snapshotsOf(c).Get(ctx, "default", "before"))
	if !snapshot.IsReady() {
		t.Errorf("at rest: %+v", snapshot.Status)
	}
	rest("taken")
	add(t, c, restoredFrom("before", "restored", "1Gi"))
	testcheck.NoError(t, c.Wait(ctx, "a request", func() bool { return len(c.Pending()) > 0 }), c.WaitForRest(ctx))
	claim, _ := c.Server().Get("persistentvolumeclaims", "default", "restored")
	testcheck.Equal(t, "phase", corev1.ClaimBound, claim.(*corev1.PersistentVolumeClaim).Status.Phase)
	leaks, err := c.Leaks()
	testcheck.NoError(t, err)
	if slices.ContainsFunc(leaks, func(leak string) bool { return strings.HasPrefix(leak, "snapshot ") }) {
		t.Errorf("a snapshot that a content names is a leak: %v", leaks)
	}
	testcheck.NoError(t, snapshotsOf(c).Delete(ctx, "default", "before", metav1.DeleteOptions{}), c.WaitForRest(ctx))
	rest("deleted")
	if left := len(c.Server().List(volumeSnapshots)) + len(c.Server().List(snapshotContents)); left != 0 {
		t.Errorf("%d objects are left", left)
	}
}
