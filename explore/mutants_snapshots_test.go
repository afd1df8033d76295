package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim"
)

const snapshotComponents = `components: pvcontroller, provisioner, snapshotcontroller, snapshotter
snapshots: on
`

// restoresAndDeletes is a snapshot that a claim restores and that is deleted then.
const restoresAndDeletes = snapshotComponents + `user alice
  create claim data 1Gi
  wait claim data Bound
  create snapshot before data
  wait snapshot before ReadyToUse
  create claim restored 1Gi snapshot=before
  wait claim restored Bound
  delete snapshot before
  wait snapshot before gone
`

// staysInUse is a snapshot that is deleted while a claim that waits for a pod restores from it.
const staysInUse = snapshotComponents + `user alice
  create class late binding=WaitForFirstConsumer
  create claim data 1Gi
  wait claim data Bound
  create snapshot before data
  wait snapshot before ReadyToUse
  create claim restored 1Gi snapshot=before class=late
  delete snapshot before
`

// takes is a snapshot for which the user does not wait.
const takes = snapshotComponents + `user alice
  create claim data 1Gi
  wait claim data Bound
  create snapshot before data
`

// snapshotMutants are defects of snapshots.
var snapshotMutants = []mutant{
	{
		name: "a volume for a claim with a source is empty", rule: "I65",
		scenario: restoresAndDeletes, between: driver("provisioner", makesEmptyVolumes), config: holds, within: 1,
	},
	{
		name: "a snapshot is released while a claim restores from it", rule: "I66",
		scenario: "rules: I66\n" + staysInUse, between: none, extra: releases, config: holds, within: 2,
	},
	{
		name: "a claim is released while its snapshot is taken", rule: "I66",
		scenario: "rules: I66\n" + takes, between: none, extra: releases, config: holds, within: 2,
	},
	{
		name: "a driver reports the deletion of a snapshot and keeps it", rule: "I67",
		scenario: restoresAndDeletes, between: driver("snapshotter", keepsSnapshots), config: holds, within: 1,
	},
	{
		name: "that a snapshot is ready is not written", rule: "L19",
		scenario: takes, between: client("snapshotcontroller", swallowsReadiness), config: holds, within: 1,
	},
	{
		name: "a content is deleted without its snapshot", rule: "L19",
		scenario: "rules: L19\n" + restoresAndDeletes, between: driver("snapshotter", keepsSnapshots), config: holds, within: 1,
	},
}

// makesEmptyVolumes creates volumes without their source, and reports that it was used.
func makesEmptyVolumes() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		r, is := args.(*csispec.CreateVolumeRequest)
		if !is || r.GetVolumeContentSource() == nil {
			return invoke(ctx, method, args, reply)
		}
		err := invoke(ctx, method, &csispec.CreateVolumeRequest{
			Name: r.GetName(), CapacityRange: r.GetCapacityRange(), VolumeCapabilities: r.GetVolumeCapabilities(), Parameters: r.GetParameters(),
		}, reply)
		if made := reply.(*csispec.CreateVolumeResponse).GetVolume(); made != nil {
			made.ContentSource = r.GetVolumeContentSource()
		}
		return err
	}
}

// keepsSnapshots answers DeleteSnapshot without a call.
func keepsSnapshots() invoking {
	return func(ctx context.Context, method string, args, reply any, invoke invoke) error {
		if method == csispec.Controller_DeleteSnapshot_FullMethodName {
			return nil
		}
		return invoke(ctx, method, args, reply)
	}
}

// swallowsReadiness skips the updates of the status of snapshots, and treats them as done.
func swallowsReadiness(*fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if !asks(r, "update", "volumesnapshots/status") {
			return serve()
		}
		return r.Body, nil
	}
}

// releases returns a component that removes the finalizers of sources as soon as it sees them: of claims at once, of
// snapshots that are being deleted.
func releases(broken bool) []cluster.Component {
	if !broken {
		return nil
	}
	return []cluster.Component{{Name: "releaser", Start: startReleasing}}
}

func startReleasing(p cluster.ComponentContext) error {
	client := p.Client.(*fake.Clientset)
	snapshots := snapshotapi.Snapshots.Client(client.Dynamic())
	seen, informer, err := snapshotapi.Snapshots.Cache(p.Informers)
	if err != nil {
		return err
	}
	queue := sim.NewQueue[string](p.Process, sim.QueueConfig{Name: "sources"})
	queue.Work(func(ctx context.Context, key string) error {
		namespace, name, _ := strings.Cut(key, "/")
		if s := seen.Get(namespace, name); s != nil && s.DeletionTimestamp != nil {
			s.Finalizers = slices.DeleteFunc(s.Finalizers, func(f string) bool { return f == snapshotapi.SourceFinalizer })
			_, err := snapshots.Update(ctx, s)
			return unlessGone(err)
		}
		claims := client.CoreV1().PersistentVolumeClaims(namespace)
		claim, err := claims.Get(ctx, "data", metav1.GetOptions{})
		if err != nil || !slices.Contains(claim.Finalizers, snapshotapi.ClaimSourceFinalizer) {
			return unlessGone(err)
		}
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == snapshotapi.ClaimSourceFinalizer })
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return unlessGone(err)
	})
	add := func(obj any) {
		if key, err := cache.MetaNamespaceKeyFunc(obj); err == nil {
			queue.Add(key)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: add, UpdateFunc: func(_, is any) { add(is) }})
	p.Informers.Core().V1().PersistentVolumeClaims().Informer()
	return err
}

func unlessGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// A sharingBackend has snapshots that share their data with their volumes: a defect of a driver.
type sharingBackend struct{ arrayBackend }

func (b sharingBackend) Source(handle string) string {
	v, _ := b.Array.Volume(handle)
	return v.SourceID
}

func (b sharingBackend) Snapshots() []invariant.Snapshot {
	var all []invariant.Snapshot
	for _, s := range b.Array.Snapshots() {
		all = append(all, invariant.Snapshot{Handle: s.ID, Name: s.Name, Hash: strings.Join(b.Files(s.SourceID), "\n")})
	}
	return all
}

// TestSnapshotThatSharesItsData finds the driver of which a write to a volume changes the snapshots.
func TestSnapshotThatSharesItsData(t *testing.T) {
	t.Parallel()
	s := testcheck.Must(scenario.Parse("shares", `snapshots: on
user alice
  apply
    apiVersion: snapshot.storage.k8s.io/v1
    kind: VolumeSnapshotClass
    metadata: {name: disk, annotations: {snapshot.storage.kubernetes.io/is-default-class: "true"}}
    driver: disk.example.com
    deletionPolicy: Delete
  create claim data 1Gi
  wait claim data Bound
  create snapshot before data
  wait snapshot before ReadyToUse
  create pod web data
  wait pod web Running
  write pod web data
  delete pod web
  wait pod web gone
`))
	for name, broken := range map[string]bool{"correct": false, "shared": true} {
		other := withOtherDriver(s, true)
		if broken {
			other.Drivers = map[string]func() cluster.Driver{"disk": func() cluster.Driver {
				d := newOtherDriver(true)
				d.Backend = sharingBackend{d.Backend.(arrayBackend)}
				return d
			}}
		}
		r := testcheck.Must(explore.Search(t.Context(), other, explore.Config{Count: 5}))
		var rule string
		if r.Failure != nil {
			rule = r.Failure.Scenario.Violates
		}
		want := ""
		if broken {
			want = "I64"
		}
		testcheck.Equal(t, name, want, rule)
	}
}
