package scenario

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/snapshotapi"
)

// appLabel is the label by which a group of snapshots selects claims.
const appLabel = "app"

// readyToUse is the phase of snapshots that are ready.
const readyToUse = "ReadyToUse"

// createsSnapshot reports whether the act creates a snapshot or a group of snapshots.
func (a Act) createsSnapshot() bool {
	return a.verb == "create" && (a.kind == "snapshot" || a.kind == "groupsnapshot")
}

// checkSnapshots returns an error for an act that creates snapshots in a world without them.
func (s *Scenario) checkSnapshots(a Act) error {
	if !a.createsSnapshot() || s.Snapshots || len(s.Definitions) > 0 {
		return nil
	}
	return fmt.Errorf("act %q: the world has no snapshots: add the header \"snapshots: on\"", a)
}

// createSnapshot creates a snapshot of a claim, or of the claims of an app.
func (a Act) createSnapshot(ctx context.Context, c *cluster.Cluster) error {
	t, err := a.target(c)
	if err != nil {
		return fmt.Errorf("%w: the world has no snapshots", err)
	}
	return t.create(ctx, a.snapshot(t.namespace, t.name))
}

// snapshot returns the snapshot, or the group of snapshots, that the act creates.
func (a Act) snapshot(namespace, name string) *unstructured.Unstructured {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	var class *string
	if word, ok := a.option("class"); ok {
		class = &word
	}
	if a.kind == "groupsnapshot" {
		return snapshotapi.GroupSnapshots.Unstructured(&snapshotapi.VolumeGroupSnapshot{ObjectMeta: meta, Spec: snapshotapi.GroupSnapshotSpec{
			VolumeGroupSnapshotClassName: class,
			Source: snapshotapi.GroupSnapshotSource{
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: a.args[0]}},
			},
		}})
	}
	return snapshotapi.Snapshots.Unstructured(&snapshotapi.VolumeSnapshot{ObjectMeta: meta, Spec: snapshotapi.SnapshotSpec{
		VolumeSnapshotClassName: class,
		Source:                  snapshotapi.SnapshotSource{PersistentVolumeClaimName: &a.args[0]},
	}})
}

// setSource sets from what the volume of a claim is made.
func (a Act) setSource(claim *corev1.PersistentVolumeClaim) {
	if name, ok := a.option("snapshot"); ok {
		claim.Spec.DataSource = snapshotapi.DataSource(name)
	}
	if name, ok := a.option("clone"); ok {
		claim.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: name}
	}
	if app, ok := a.option("app"); ok {
		claim.Labels = map[string]string{appLabel: app}
	}
}

// content is what a write without a size writes.
const content = "written"

// read checks that a volume of a pod has the file that a pod has written. It waits while the volume is not
// mounted.
func (a Act) read(ctx context.Context, c *cluster.Cluster) error {
	claim, writer := a.args[0], a.args[1]
	return a.whenMounted(ctx, c, func() error {
		found, err := c.ReadFile(metav1.NamespaceDefault, a.name, claim, writer)
		switch {
		case err != nil:
			return err
		case string(found) != content:
			return fmt.Errorf("file %s of volume %s has %q, want %q", writer, claim, found, content)
		}
		return nil
	})
}

// whenMounted calls do, again and again while the volume of the act is not mounted.
func (a Act) whenMounted(ctx context.Context, c *cluster.Cluster, do func() error) error {
	err := do()
	if !errors.Is(err, cluster.ErrNotMounted) {
		return err
	}
	waited := c.Wait(ctx, fmt.Sprintf("volume %s of pod %s to be mounted", a.args[0], a.name), func() bool {
		err = do()
		return !errors.Is(err, cluster.ErrNotMounted)
	})
	return errors.Join(waited, err)
}
