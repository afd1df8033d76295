package snapdiff

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	_ "github.com/volsim/volsim/fake/crd" // serves the definitions
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
	"github.com/volsim/volsim/test/conformance/histories/storeddriver"
)

const (
	driverName = "disk.example.com"
	namespace  = "default"
	oldHandle  = "old" // of a snapshot that the driver has from the beginning
)

var ctx = context.Background()

// A world is an API server with its users, the driver's state included: all but the controllers.
type world struct {
	*controllers.World

	dynamic dynamic.Interface // of users
}

func newWorld(base *controllers.World) *world {
	w := &world{World: base, dynamic: base.Client.(*fake.Clientset).Dynamic()}
	if err := definitions.InstallText(ctx, base.Server, snapshotapi.Definitions()); err != nil {
		panic(err)
	}
	must(newDriver(base.Client).Create(ctx, map[string]string{keySnapshot + oldHandle: "an old one"}))
	base.Server.OnCommit(func(c fake.Commit) {
		if e, is := c.After.(*corev1.Event); is {
			w.addEvent(e)
		} else if c.Type == watch.Added {
			w.Events.Name(c.After.GetUID(), "%s#%d", c.Resource+"/"+c.After.GetName())
		}
	})
	return w
}

// addEvent records an event, unless it reports a conflict, or that a claim could not be released: upstream
// reports that of a claim that has just gone, if its cache still has it. It omits the name of the snapshot
// of a warning: upstream's lacks it if the error could not be written into the status.
func (w *world) addEvent(e *corev1.Event) {
	if strings.Contains(e.Message, "the object has been modified") || e.Reason == "ErrorPVCFinalizer" {
		return
	}
	about := e.InvolvedObject.Kind
	if e.Type != corev1.EventTypeWarning || about != snapshotapi.Snapshots.Name {
		about += " " + e.InvolvedObject.Name
	}
	w.Events.Add(e, fmt.Sprintf("event %s %s about %s: %s", e.Type, e.Reason, about,
		strings.TrimPrefix(e.Message, "(combined from similar events): ")))
}

// Tick removes the finalizer of claims that no pod uses: of all.
func (w *world) Tick() error {
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		if obj.GetDeletionTimestamp() == nil || !slices.Contains(obj.GetFinalizers(), protection) {
			continue
		}
		claim := obj.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == protection })
		if _, err := w.Client.CoreV1().PersistentVolumeClaims(namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("protection: %w", err)
		}
	}
	return nil
}

// protection is the finalizer of each claim.
const protection = "kubernetes.io/pvc-protection"

// list returns the objects of a kind, by name.
func list[T any, P customresource.Object[T]](w *world, kind customresource.Kind[T, P]) []P {
	var all []P
	for _, stored := range w.Server.List(kind.CommitName()) {
		obj, err := kind.Parse(stored)
		if err != nil {
			panic(err)
		}
		all = append(all, obj)
	}
	slices.SortFunc(all, func(a, b P) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all
}

// metadata returns the metadata of an object as text.
func metadata(obj metav1.Object) string {
	return fmt.Sprintf("%s, deleted %v, finalizers %v, annotations %v, labels %v, owners %v", obj.GetUID(), obj.GetDeletionTimestamp() != nil,
		obj.GetFinalizers(), obj.GetAnnotations(), obj.GetLabels(), obj.GetOwnerReferences())
}

// text returns the value of a pointer, or "none".
func text[T any](value *T) string {
	if value == nil {
		return "none"
	}
	return fmt.Sprint(*value)
}

func message(e *snapshotapi.Error) string {
	if e == nil {
		return "none"
	}
	return text(e.Message)
}

func describeSnapshot(s *snapshotapi.VolumeSnapshot) string {
	line := fmt.Sprintf("snapshot %s, class %s", metadata(s), text(s.Spec.VolumeSnapshotClassName))
	if st := s.Status; st != nil {
		line += fmt.Sprintf(", bound to %s, ready %s, size %v, created %v, group %s, error %s", text(st.BoundVolumeSnapshotContentName),
			text(st.ReadyToUse), st.RestoreSize, st.CreationTime != nil, text(st.VolumeGroupSnapshotName), message(st.Error))
	}
	return line
}

func describeContent(c *snapshotapi.VolumeSnapshotContent) string {
	ref := c.Spec.VolumeSnapshotRef
	line := fmt.Sprintf("content %s, of %s %s %s/%s %s version %v, policy %s, driver %s, class %s, volume %s, handle %s, mode %s", metadata(c),
		ref.APIVersion, ref.Kind, ref.Namespace, ref.Name, ref.UID, ref.ResourceVersion != "", c.Spec.DeletionPolicy, c.Spec.Driver,
		text(c.Spec.VolumeSnapshotClassName), text(c.Spec.Source.VolumeHandle), text(c.Spec.Source.SnapshotHandle), text(c.Spec.SourceVolumeMode))
	if st := c.Status; st != nil {
		line += fmt.Sprintf(", found %s, ready %s, size %s, created %v, group %s, error %s", text(st.SnapshotHandle), text(st.ReadyToUse),
			text(st.RestoreSize), ptr.Deref(st.CreationTime, 0) != 0, text(st.VolumeGroupSnapshotHandle), message(st.Error))
	}
	return line
}

// State describes the world in words that do not depend on it.
func (w *world) State() histories.State {
	var lines []string
	for _, s := range list(w, snapshotapi.Snapshots) {
		lines = append(lines, describeSnapshot(s))
	}
	for _, c := range list(w, snapshotapi.Contents) {
		lines = append(lines, describeContent(c))
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		lines = append(lines, "claim "+metadata(obj))
	}
	state := storeddriver.Stored(w.Server, namespace)
	for _, key := range slices.Sorted(maps.Keys(state)) {
		if strings.HasPrefix(key, keySnapshot) {
			lines = append(lines, key+": "+state[key])
		}
	}
	return w.Events.State(lines)
}

// patch changes an object by a merge patch.
func patch[T any, P customresource.Object[T]](w *world, kind customresource.Kind[T, P], namespace, name, text string) error {
	_, err := kind.Client(w.dynamic).Patch(ctx, namespace, name, types.MergePatchType, []byte(text))
	return controllers.IgnoreMissing(err)
}

// contents returns the contents, in the order of the names of their snapshots and of their own.
func (w *world) contents() []*snapshotapi.VolumeSnapshotContent {
	all := list(w, snapshotapi.Contents)
	slices.SortStableFunc(all, func(a, b *snapshotapi.VolumeSnapshotContent) int {
		return cmp.Compare(a.Spec.VolumeSnapshotRef.Name+" "+strings.TrimSuffix(a.Name, string(a.Spec.VolumeSnapshotRef.UID)),
			b.Spec.VolumeSnapshotRef.Name+" "+strings.TrimSuffix(b.Name, string(b.Spec.VolumeSnapshotRef.UID)))
	})
	return all
}
