package pvcontroller_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

var (
	ctx          = context.Background()
	mergePatch   = types.MergePatchType
	noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)
)

// world is a stepped world with an API server and, after a call of control, the controller.
type world struct {
	*testworld.World
}

func newWorld(t testing.TB, chooser sim.Chooser) *world {
	steps := 20_000 // many more than any test needs
	if _, ok := t.(*testing.B); ok {
		steps = 1_000_000
	}
	w := testworld.New(t, sim.SteppedConfig{Chooser: chooser, StepsMax: steps})
	w.User = w.Server.Client(testworld.ImmediateCaller(w.Host.Now)) // tests act within requests
	if t, ok := t.(*testing.T); ok {
		forbidChanges(t, w.Server)
	}
	return &world{w}
}

// forbidChanges fails the test at its end if a stored object has changed: the controller's client
// returns stored objects without copying.
func forbidChanges(t *testing.T, server *fake.Server) {
	stored := map[fake.Object]runtime.Object{}
	server.OnCommit(func(c fake.Commit) { stored[c.After] = c.After.DeepCopyObject() })
	t.Cleanup(func() {
		for is, was := range stored {
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("a stored object was changed (-want +got)\n%s", diff)
			}
		}
	})
}

// beforeCall calls a function just before each request of a process takes effect.
type beforeCall struct {
	sim.Caller
	before func(trace.Action)
}

func (m beforeCall) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return m.Caller.Call(action, func() trace.Outcome {
		m.before(action)
		return effect()
	})
}

// control adds the controller. before, if given, is called just before each of its requests takes
// effect.
func (w *world) control(before ...func(trace.Action)) { w.controlOn(w.Host, before...) }

func (w *world) controlOn(host sim.Host, before ...func(trace.Action)) {
	component := host.Process("pvcontroller")
	var caller sim.Caller = component
	if len(before) > 0 {
		caller = beforeCall{component, before[0]}
	}
	client := w.Server.Client(caller).WithoutCopies()
	pvcontroller.New(pvcontroller.Config{
		Process:   component,
		Client:    client,
		Informers: w.Server.Informers(component),
		Recorder: events.New(events.Config{
			Process: component, Client: client, Source: pvcontroller.EventSource,
		}),
	})
}

type (
	claimOption  func(*corev1.PersistentVolumeClaim)
	volumeOption func(*corev1.PersistentVolume)
)

// claim creates a claim in namespace default, ReadWriteOnce.
func (w *world) claim(name, size string, options ...claimOption) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	for _, option := range options {
		option(claim)
	}
	return testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
}

// volume creates a volume, ReadWriteOnce, with policy Retain.
func (w *world) volume(name, size string, options ...volumeOption) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name}
	for _, option := range options {
		option(volume)
	}
	return testcheck.Must(w.User.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}))
}

// class creates a class.
func (w *world) class(name, provisioner string, mode storagev1.VolumeBindingMode, isDefault bool) {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode,
	}
	if isDefault {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	testcheck.Must(w.User.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}))
}

// pod creates a pod that uses a claim.
func (w *world) pod(name, claim string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "image"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}}
	return testcheck.Must(w.User.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}))
}

// editClaim updates the current version of a claim.
func (w *world) editClaim(name string, edit claimOption) {
	claims := w.User.CoreV1().PersistentVolumeClaims("default")
	claim := testcheck.Must(claims.Get(ctx, name, metav1.GetOptions{}))
	edit(claim)
	testcheck.Must(claims.Update(ctx, claim, metav1.UpdateOptions{}))
}

// editVolume updates the current version of a volume.
func (w *world) editVolume(name string, edit volumeOption) {
	volumes := w.User.CoreV1().PersistentVolumes()
	volume := testcheck.Must(volumes.Get(ctx, name, metav1.GetOptions{}))
	edit(volume)
	testcheck.Must(volumes.Update(ctx, volume, metav1.UpdateOptions{}))
}

// deleteClaim deletes a claim, which has no finalizer.
func (w *world) deleteClaim(name string) {
	w.editClaim(name, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	if err := w.User.CoreV1().PersistentVolumeClaims("default").Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

// deleteVolume deletes a volume, which has no finalizer.
func (w *world) deleteVolume(name string) {
	w.editVolume(name, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	if err := w.User.CoreV1().PersistentVolumes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

func (w *world) claimNow(name string) *corev1.PersistentVolumeClaim {
	obj, _ := w.Server.Get("persistentvolumeclaims", "default", name)
	return obj.(*corev1.PersistentVolumeClaim)
}

func naming(volume string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func ofClass(name string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func annotated(name, value string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, value) }
}

func inClass(name string) volumeOption {
	return func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = name }
}

func marked(name, value string) volumeOption {
	return func(v *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, name, value) }
}

func toDelete(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
}

// reservedBy sets a claimRef without a UID, as a user would.
func reservedBy(claim string) volumeOption {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim}
	}
}

// reservedFor sets a claimRef with the claim's UID, as a provisioner would.
func reservedFor(claim *corev1.PersistentVolumeClaim) volumeOption {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
}

// state returns all volumes and claims, a line each.
func (w *world) state() string {
	var lines []string
	for _, obj := range w.Server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		line := fmt.Sprintf("%s %s", v.Name, v.Status.Phase)
		if ref := v.Spec.ClaimRef; ref != nil {
			line += " for " + ref.Name
			if ref.UID == "" {
				line += " by name"
			}
		}
		if metav1.HasAnnotation(v.ObjectMeta, storagehelpers.AnnBoundByController) {
			line += " by-controller"
		}
		lines = append(lines, line)
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		lines = append(lines, stateOfClaim(obj.(*corev1.PersistentVolumeClaim)))
	}
	return strings.Join(lines, "\n")
}

func stateOfClaim(c *corev1.PersistentVolumeClaim) string {
	line := fmt.Sprintf("%s %s", c.Name, c.Status.Phase)
	if c.Spec.VolumeName != "" {
		line += " to " + c.Spec.VolumeName
	}
	if size, ok := c.Status.Capacity[corev1.ResourceStorage]; ok {
		line += " " + size.String()
	}
	if c.Spec.StorageClassName != nil && *c.Spec.StorageClassName != "" {
		line += " of " + *c.Spec.StorageClassName
	}
	for _, a := range []struct{ name, word string }{
		{storagehelpers.AnnBoundByController, "by-controller"}, {storagehelpers.AnnBindCompleted, "completed"},
	} {
		if metav1.HasAnnotation(c.ObjectMeta, a.name) {
			line += " " + a.word
		}
	}
	return line
}

// events returns all events, a line each, sorted.
func (w *world) events() []string {
	var lines []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		lines = append(lines, fmt.Sprintf("%s %s %s: %s", e.InvolvedObject.Name, e.Type, e.Reason, e.Message))
	}
	slices.Sort(lines)
	return lines
}

// requests returns the controller's requests since a record: writes with their changes, no events.
func (w *world) requests(since int) []string {
	var lines []string
	for _, r := range w.Host.Log().Records()[since:] {
		if r.Kind != trace.KindAPI || strings.Contains(r.Object, "events/") || r.Task == "user" {
			continue
		}
		line := r.Verb + " " + r.Object
		if words := trace.Changes(r.Before, r.After); len(words) > 0 {
			line += ": " + strings.Join(words, ", ")
		}
		if r.Err != nil {
			line += ": failed"
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) wantState(lines ...string) {
	w.Helper()
	if diff := cmp.Diff(lines, strings.Split(w.state(), "\n")); diff != "" {
		w.Errorf("state (-want +got):\n%s\n%s", diff, w.Host.Log().Text())
	}
}

func (w *world) wantEvents(lines ...string) {
	w.Helper()
	if diff := cmp.Diff(lines, w.events()); diff != "" {
		w.Errorf("events (-want +got):\n%s", diff)
	}
}

func (w *world) wantRequests(since int, lines ...string) {
	w.Helper()
	if diff := cmp.Diff(lines, w.requests(since)); diff != "" {
		w.Errorf("requests (-want +got):\n%s", diff)
	}
}
