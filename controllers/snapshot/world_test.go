package snapshot_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/snapshot"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var ctx = context.Background()

const driverName = "disk.example.com"

// A world has the kinds of snapshots, the controller and a scripted csi-snapshotter.
type world struct {
	*testworld.World
	fail    func(action trace.Action) error // requests of the controller; nil: none fails
	process *sim.Process                    // of the controller

	snapshots customresource.Client[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot]
	contents  customresource.Client[snapshotapi.VolumeSnapshotContent, *snapshotapi.VolumeSnapshotContent]
	classes   customresource.Client[snapshotapi.VolumeSnapshotClass, *snapshotapi.VolumeSnapshotClass]
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser})}
	w.NoError(definitions.InstallText(ctx, w.Server, snapshotapi.Definitions()))
	w.ActImmediately()
	user := w.User.Dynamic()
	w.snapshots, w.contents, w.classes = snapshotapi.Snapshots.Client(user), snapshotapi.Contents.Client(user), snapshotapi.Classes.Client(user)
	w.process = w.start(0)
	w.startSnapshotter()
	return w
}

// start starts the controller. Its first list of claims lacks the given number of events.
func (w *world) start(delay int) (process *sim.Process) {
	process = w.Host.Process("snapshotcontroller")
	client := w.Server.Client(testworld.FailingCaller{Caller: process, Fail: func(action trace.Action) error {
		if w.fail == nil {
			return nil
		}
		return w.fail(action)
	}})
	var factory informers.SharedInformerFactory
	factory = w.Server.Informers(process, snapshot.Filters(func() informers.SharedInformerFactory { return factory })...)
	w.Server.DelayCache(process, "persistentvolumeclaims", delay)
	w.NoError(snapshot.New(snapshot.Config{
		Process: process, Client: client, Dynamic: client.Dynamic(), Informers: factory,
		Recorder: events.New(events.Config{Process: process, Client: w.Server.Client(process), Source: snapshot.EventSource}),
	}))
	return process
}

// startSnapshotter starts a process that takes every snapshot at once, and removes it with its content.
func (w *world) startSnapshotter() {
	process := w.Host.Process("snapshotter")
	contents, informer, err := snapshotapi.Contents.Cache(w.Server.Informers(process))
	w.NoError(err)
	client := snapshotapi.Contents.Client(w.Server.Client(process).Dynamic())
	queue := sim.NewQueue[string](process, sim.QueueConfig{Name: "contents"})
	eventhandler.Add(informer, func(_, content *unstructured.Unstructured) { queue.Add(content.GetName()) }, nil)
	queue.Work(func(ctx context.Context, name string) error {
		content := contents.Get("", name)
		switch {
		case content == nil:
			return nil
		case content.Annotations[snapshotapi.GroupHandleAnnotation] != "" && content.DeletionTimestamp == nil:
			return nil // a member of a group
		case content.DeletionTimestamp != nil && content.Annotations[snapshotapi.BeingDeleted] == "yes":
			_, err = client.Patch(ctx, "", name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		case content.Status == nil:
			content.Status = &snapshotapi.ContentStatus{
				SnapshotHandle: ptr.To("taken-" + name), CreationTime: ptr.To(process.Now().UnixNano()),
				ReadyToUse: ptr.To(true), RestoreSize: ptr.To[int64](1 << 30),
			}
			_, err = client.UpdateStatus(ctx, content)
		}
		return err
	})
}

// volume creates a claim that is bound to a volume of the driver.
func (w *world) volume(claim string) {
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	made := testcheck.Must(claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claim},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeName: "pv-" + claim,
			Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}, metav1.CreateOptions{}))
	testcheck.Must(w.User.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + claim},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: size,
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: "handle-" + claim},
			},
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: claim, UID: made.UID},
		},
	}, metav1.CreateOptions{}))
	made.Status.Phase = corev1.ClaimBound
	testcheck.Must(claims.UpdateStatus(ctx, made, metav1.UpdateOptions{}))
}

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func (w *world) class(name string, policy snapshotapi.DeletionPolicy, annotations map[string]string) {
	testcheck.Must(w.classes.Create(ctx, &snapshotapi.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations}, Driver: driverName, DeletionPolicy: policy,
	}))
}

var isDefault = map[string]string{snapshotapi.DefaultClass: "true"}

// snapshot creates a snapshot of a claim.
func (w *world) snapshot(name, claim, class string) {
	s := &snapshotapi.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	s.Spec.Source.PersistentVolumeClaimName = &claim
	if class != "" {
		s.Spec.VolumeSnapshotClassName = &class
	}
	testcheck.Must(w.snapshots.Create(ctx, s))
}

// read returns a snapshot and its content, each nil if it does not exist.
func (w *world) read(name string) (*snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshotContent) {
	s, err := w.snapshots.Get(ctx, "default", name)
	if err != nil {
		return nil, nil
	}
	content, err := w.contents.Get(ctx, "", snapshotapi.ContentName(s))
	if err != nil {
		content = nil
	}
	return s, content
}

// finalizers returns the finalizers of a claim that the controller has written.
func (w *world) held(claim string) bool {
	c := testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Get(ctx, claim, metav1.GetOptions{}))
	return strings.Contains(strings.Join(c.Finalizers, " "), snapshotapi.ClaimSourceFinalizer)
}

// count returns the numbers of snapshots and contents.
func (w *world) count() (snapshots, contents int) {
	return len(w.Server.List(snapshotapi.Snapshots.CommitName())), len(w.Server.List(snapshotapi.Contents.CommitName()))
}

// events returns the events as "REASON: MESSAGE", in order.
func (w *world) events() []string {
	var all []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		all = append(all, e.Reason+": "+e.Message)
	}
	return all
}
