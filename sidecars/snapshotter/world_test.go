package snapshotter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/snapshotter"
	"github.com/volsim/volsim/sim"
)

const driverName = "disk.example.com"

var epoch = sim.Epoch

// world is an API server that serves snapshots, a storage system, and its snapshotter.
type world struct {
	*testworld.World
	storage *storage
	conn    *scripted.Conn
	process *sim.Process
	start   func() // starts the snapshotter, also after a crash

	draw   *sim.Seeded // what happens; nil: no faults
	faults int         // of requests, left
}

func newWorld(t *testing.T, chooser sim.Chooser, cfg snapshotter.Config) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 20_000}), storage: newStorage()}
	w.ActImmediately()
	w.NoError(definitions.InstallText(t.Context(), w.Server, snapshotapi.Definitions()))
	w.conn = &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, w.storage)
		csispec.RegisterGroupControllerServer(r, w.storage)
	})}
	w.start = func() {
		p := w.Host.Process("snapshotter")
		client := w.Server.Client(p)
		if w.draw != nil {
			client = w.Server.Client(&faultyCaller{Caller: p, world: w})
		}
		w.process = p
		cfg.Process, cfg.Client, cfg.Dynamic, cfg.DriverName = p, client, client.Dynamic(), driverName
		cfg.Informers = w.Server.Informers(p, snapshotter.Filters(driverName)...)
		cfg.Recorder = events.New(events.Config{Process: p, Client: client, Source: "csi-snapshotter " + driverName})
		cfg.Conn = csi.Suspend(p, driverName, w.conn)
		testcheck.Must(snapshotter.New(cfg))
	}
	w.start()
	return w
}

// after lets the world run for a time.
func (w *world) after(d time.Duration) {
	w.Helper()
	end := w.Host.Now().Add(d)
	p := w.Host.Process("time")
	p.User("passes", func(context.Context) { p.Sleep(d) })
	w.NoError(w.Host.Wait(context.Background(), "time to pass", func() bool { return !w.Host.Now().Before(end) }))
}

func (w *world) secret(name string) {
	w.Helper()
	w.NoError(w.Server.Add(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: name}, Data: map[string][]byte{"user": []byte("alice")},
	}))
}

func (w *world) class(name string, parameters map[string]string) {
	w.Helper()
	testcheck.Must(snapshotapi.Classes.Client(w.User.Dynamic()).Create(w.Context(), &snapshotapi.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Driver: driverName, DeletionPolicy: snapshotapi.Delete, Parameters: parameters,
	}))
}

// newContent returns a content as the snapshot controller creates it.
func newContent(name string) *snapshotapi.VolumeSnapshotContent {
	return &snapshotapi.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{snapshotapi.ContentFinalizer}},
		Spec: snapshotapi.ContentSpec{
			VolumeSnapshotRef: corev1.ObjectReference{
				APIVersion: "snapshot.storage.k8s.io/v1", Kind: "VolumeSnapshot", Namespace: "default", Name: "data", UID: "uid-of-data",
			},
			DeletionPolicy: snapshotapi.Delete, Driver: driverName, VolumeSnapshotClassName: ptr.To("gold"),
			Source: snapshotapi.ContentSource{VolumeHandle: ptr.To("volume-1")},
		},
	}
}

// existing returns a content as an administrator writes it, and the snapshot controller binds it.
func existing(name, handle string) *snapshotapi.VolumeSnapshotContent {
	content := newContent(name)
	content.Spec.Source = snapshotapi.ContentSource{SnapshotHandle: &handle}
	content.Spec.VolumeSnapshotClassName = nil
	return content
}

// add stores a content with its status.
func (w *world) add(content *snapshotapi.VolumeSnapshotContent) {
	w.Helper()
	client, status := snapshotapi.Contents.Client(w.User.Dynamic()), content.Status
	stored := testcheck.Must(client.Create(w.Context(), content))
	if status != nil {
		stored.Status = status
		testcheck.Must(client.UpdateStatus(w.Context(), stored))
	}
}

func (w *world) content(name string) *snapshotapi.VolumeSnapshotContent {
	obj, ok := w.Server.Get(snapshotapi.Contents.CommitName(), "", name)
	if !ok {
		return nil
	}
	return testcheck.Must(snapshotapi.Contents.Parse(obj))
}

// delete deletes a content, as the snapshot controller does: it agrees first.
func (w *world) delete(name string) {
	w.Helper()
	client := snapshotapi.Contents.Client(w.User.Dynamic())
	content := testcheck.Must(client.Get(w.Context(), "", name))
	metav1.SetMetaDataAnnotation(&content.ObjectMeta, snapshotapi.BeingDeleted, "yes")
	testcheck.Must(client.Update(w.Context(), content))
	w.NoError(client.Delete(w.Context(), "", name, metav1.DeleteOptions{}))
}

// describe returns what is seen of a content: its own annotations, finalizers and status.
func (w *world) describe(name string) string {
	content := w.content(name)
	if content == nil {
		return "none"
	}
	var words []string
	for _, annotation := range []string{snapshotapi.BeingCreated, snapshotapi.BeingDeleted} {
		if value, has := content.Annotations[annotation]; has {
			words = append(words, annotation[strings.Index(annotation, "/volumesnapshot-")+len("/volumesnapshot-"):]+"="+value)
		}
	}
	if len(content.Finalizers) == 0 {
		words = append(words, "no finalizer")
	}
	if content.DeletionTimestamp != nil {
		words = append(words, "deleted")
	}
	if s := content.Status; s != nil {
		words = append(words, describeStatus(s)...)
	}
	return strings.Join(words, " ")
}

func describeStatus(s *snapshotapi.ContentStatus) (words []string) {
	if s.SnapshotHandle != nil {
		words = append(words, *s.SnapshotHandle)
	}
	if s.VolumeGroupSnapshotHandle != nil {
		words = append(words, "of "+*s.VolumeGroupSnapshotHandle)
	}
	if s.CreationTime != nil {
		words = append(words, time.Unix(0, *s.CreationTime).UTC().Format(time.TimeOnly))
	}
	if s.RestoreSize != nil {
		words = append(words, fmt.Sprintf("%d bytes", *s.RestoreSize))
	}
	if s.ReadyToUse != nil {
		words = append(words, map[bool]string{true: "ready", false: "not ready"}[*s.ReadyToUse])
	}
	if s.Error != nil {
		words = append(words, "error: "+*s.Error.Message)
	}
	return words
}

// events returns the events, each once, as "type reason: message".
func (w *world) events() []string {
	var texts []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		texts = append(texts, e.Type+" "+e.Reason+": "+e.Message)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// lookAt reports a commit of a content to a test.
func (w *world) lookAt(look func(before, after *snapshotapi.VolumeSnapshotContent)) {
	w.Server.OnCommit(func(commit fake.Commit) {
		if commit.Resource != snapshotapi.Contents.CommitName() {
			return
		}
		var before, after *snapshotapi.VolumeSnapshotContent
		if commit.Before != nil {
			before = testcheck.Must(snapshotapi.Contents.Parse(commit.Before))
		}
		if commit.After != nil {
			after = testcheck.Must(snapshotapi.Contents.Parse(commit.After))
		}
		look(before, after)
	})
}
