package expand_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/controllers/expand"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// disks is a plugin of nfs volumes, which it expands.
type disks struct {
	process *sim.Process
	onNode  bool
	fails   int // so many expansions fail
	calls   []string
}

func (*disks) Name() string                               { return "example.com/disks" }
func (*disks) VolumeName(s *plugins.Spec) (string, error) { return s.Name(), nil }
func (*disks) CanSupport(s *plugins.Spec) bool {
	return s.PersistentVolume != nil && s.PersistentVolume.Spec.NFS != nil
}

func (d *disks) RequiresFSResize() bool                                { return d.onNode }
func (*disks) NodeExpand(context.Context, plugins.ExpandOptions) error { return nil }
func (d *disks) ExpandVolume(_ context.Context, spec *plugins.Spec, newSize, oldSize resource.Quantity) (
	resource.Quantity, error,
) {
	action := trace.Action{Kind: trace.KindDriver, Verb: "ExpandVolume", Object: spec.Name()}
	return newSize, d.process.Call(action, func() trace.Outcome {
		d.calls = append(d.calls, oldSize.String()+" to "+newSize.String())
		if d.fails > 0 {
			d.fails--
			return trace.Outcome{Err: errors.New("no space")}
		}
		return trace.Outcome{}
	}).Err
}

// world is a bound claim of 1Gi that requests 2Gi, and the controller.
type world struct {
	*testworld.World
	disks *disks
}

func newWorld(t *testing.T, source corev1.PersistentVolumeSource, change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)) *world {
	t.Helper()
	w := &world{World: testworld.New(t, sim.SteppedConfig{StepsMax: 10_000})}
	one, modes := sizes("1Gi"), []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: one, AccessModes: modes, PersistentVolumeSource: source,
		ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "u"},
	}}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, VolumeName: "v", Resources: corev1.VolumeResourceRequirements{Requests: sizes("2Gi")},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: one, AccessModes: modes},
	}
	if change != nil {
		change(claim, volume)
	}
	w.NoError(w.Server.Add(volume, claim))
	process := w.Host.Process("expand")
	w.disks = &disks{process: process}
	var manager plugins.Manager
	w.NoError(manager.Register(w.disks))
	expand.New(expand.Config{
		Process: process, Client: w.Server.Client(process), Informers: w.Server.Informers(process), Plugins: &manager,
		Recorder: events.New(events.Config{Process: process, Client: w.Server.Client(process), Source: expand.EventSource}),
	})
	return w
}

func sizes(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func (w *world) claim() *corev1.PersistentVolumeClaim {
	obj, _ := w.Server.Get("persistentvolumeclaims", "default", "data")
	return obj.(*corev1.PersistentVolumeClaim)
}

// state returns what an expansion has written into the claim and its volume.
func (w *world) state() string {
	claim := w.claim()
	obj, _ := w.Server.Get("persistentvolumes", "", "v")
	volume := obj.(*corev1.PersistentVolume)
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	words := []string{
		"claim " + capacity.String(), "volume " + ptr.To(volume.Spec.Capacity[corev1.ResourceStorage]).String(),
	}
	if status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; status != "" {
		words = append(words, string(status)+" to "+ptr.To(claim.Status.AllocatedResources[corev1.ResourceStorage]).String())
	}
	for _, condition := range claim.Status.Conditions {
		words = append(words, string(condition.Type))
	}
	if name := claim.Annotations["volume.kubernetes.io/storage-resizer"]; name != "" {
		words = append(words, "by "+name)
	}
	if before := volume.Annotations["volume.alpha.kubernetes.io/pre-resize-capacity"]; before != "" {
		words = append(words, "before "+before)
	}
	return strings.Join(words, ", ")
}

func (w *world) events() []string {
	var lines []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		lines = append(lines, e.Type+" "+e.Reason+": "+e.Message)
	}
	slices.Sort(lines)
	return lines
}

var (
	nfs  = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/a"}}
	flex = corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "example.com/flex"}}
	ebs  = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
	path = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}
)

// allocate makes the claim say how far an earlier expansion came.
func allocate(claim *corev1.PersistentVolumeClaim, size string, status corev1.ClaimResourceStatus) {
	claim.Status.AllocatedResources = sizes(size)
	claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
}

// TestExpansion has the cases of upstream's TestSyncHandler, and those of its expandAndRecoverFunction.
func TestExpansion(t *testing.T) {
	t.Parallel()
	const (
		succeeded = "Normal VolumeResizeSuccessful: ExpandVolume succeeded for volume default/data"
		external  = "Normal ExternalExpanding: waiting for an external controller to expand this PVC"
		pending   = "NodeResizePending to 2Gi, Resizing, FileSystemResizePending, by "
	)
	tests := []struct {
		name   string
		source corev1.PersistentVolumeSource
		onNode bool
		fails  int
		change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)
		calls  []string
		want   string
		events []string
	}{
		{
			name: "plugin", source: nfs, calls: []string{"1Gi to 2Gi"},
			want: "claim 2Gi, volume 2Gi, by example.com/disks", events: []string{succeeded},
		},
		{
			name: "plugin and kubelet", source: nfs, onNode: true, calls: []string{"1Gi to 2Gi"},
			want: "claim 1Gi, volume 2Gi, " + pending + "example.com/disks, before 1Gi",
		},
		{
			name: "block device", source: nfs, onNode: true,
			change: func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
			},
			calls: []string{"1Gi to 2Gi"}, want: "claim 2Gi, volume 2Gi, by example.com/disks", events: []string{succeeded},
		},
		{
			name: "plugin fails twice", source: nfs, fails: 2, calls: []string{"1Gi to 2Gi", "1Gi to 2Gi", "1Gi to 2Gi"},
			want:   "claim 2Gi, volume 2Gi, by example.com/disks",
			events: []string{succeeded, "Warning VolumeResizeFailed: error expanding pvc default/data: no space"},
		},
		{name: "FlexVolume", source: flex, want: "claim 1Gi, volume 2Gi, " + pending + "example.com/flex, before 1Gi"},
		{
			name: "migrated plugin", source: ebs, want: "claim 1Gi, volume 1Gi, by ebs.csi.aws.com",
			events: []string{"Normal ExternalExpanding: CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc"},
		},
		{name: "no plugin", source: path, want: "claim 1Gi, volume 1Gi", events: []string{external}},
		{
			name: "nothing to do", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
				c.Spec.Resources.Requests = sizes("1Gi")
			},
			want: "claim 1Gi, volume 1Gi",
		},
		{
			name: "claim is not bound", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
				c.Status.Phase = corev1.ClaimPending
			},
			want: "claim 1Gi, volume 1Gi",
		},
		{
			name: "an expansion ended, its annotation is left", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				c.Status.Capacity, v.Spec.Capacity = sizes("2Gi"), sizes("2Gi")
				v.Annotations = map[string]string{"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"}
			},
			want: "claim 2Gi, volume 2Gi",
		},
		{
			name: "the kubelet is expanding", source: nfs, onNode: true,
			change: func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				v.Spec.Capacity = sizes("2Gi")
				allocate(c, "2Gi", corev1.PersistentVolumeClaimNodeResizeInProgress)
			},
			want: "claim 1Gi, volume 2Gi, NodeResizeInProgress to 2Gi",
		},
		{
			name: "the kubelet failed", source: nfs, onNode: true,
			change: func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				v.Spec.Capacity = sizes("2Gi")
				allocate(c, "2Gi", corev1.PersistentVolumeClaimNodeResizeInfeasible)
			},
			want: "claim 1Gi, volume 2Gi, NodeResizePending to 2Gi, FileSystemResizePending, before 1Gi",
		},
		{
			name: "a larger expansion was begun and is completed first", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
				allocate(c, "5Gi", corev1.PersistentVolumeClaimControllerResizeInProgress)
			},
			calls: []string{"1Gi to 5Gi"}, want: "claim 5Gi, volume 5Gi, by example.com/disks", events: []string{succeeded},
		},
		{
			name: "an infeasible size was replaced", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
				allocate(c, "5Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible)
			},
			calls: []string{"1Gi to 2Gi"}, want: "claim 2Gi, volume 2Gi, by example.com/disks", events: []string{succeeded},
		},
		{
			name: "the volume grew, the claim was not written", source: nfs,
			change: func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				v.Spec.Capacity = sizes("2Gi")
				allocate(c, "2Gi", corev1.PersistentVolumeClaimControllerResizeInProgress)
			},
			calls: []string{"1Gi to 2Gi"}, want: "claim 2Gi, volume 2Gi, by example.com/disks", events: []string{succeeded},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, test.source, test.change)
			w.disks.onNode, w.disks.fails = test.onNode, test.fails
			w.Run()
			if diff := cmp.Diff(test.calls, w.disks.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := w.state(); got != test.want {
				t.Errorf("got %s, want %s\n%s", got, test.want, w.Host.Log().Text())
			}
			if diff := cmp.Diff(test.events, w.events()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnnotationIsRemoved checks that the kubelet's report of the new capacity ends an expansion.
func TestAnnotationIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, flex, nil)
	w.Run()
	w.Server.UpdateStored("persistentvolumeclaims", "default", "data", func(stored fake.Object) fake.Object {
		claim := stored.(*corev1.PersistentVolumeClaim).DeepCopy()
		claim.Status.Capacity, claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = sizes("2Gi"), nil, nil
		return claim
	})
	w.Run()
	if got, want := w.state(), "claim 2Gi, volume 2Gi, by example.com/flex"; got != want {
		t.Errorf("got %s, want %s\n%s", got, want, w.Host.Log().Text())
	}
}

// TestClaimOfAnotherVolume checks that a volume that is not bound to the claim is left alone. The
// controller tries again and again, as upstream.
func TestClaimOfAnotherVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nfs, func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "other" })
	for range 20 {
		w.Host.Step()
	}
	if got, want := w.state(), "claim 1Gi, volume 1Gi"; got != want || len(w.disks.calls) > 0 {
		t.Errorf("got %s and calls %q, want %s", got, w.disks.calls, want)
	}
}

// TestCrashes has the controller crash before and after each of its requests. A new one completes the
// expansion.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for at := 1; ; at++ {
		w := newWorld(t, nfs, nil)
		first := w.disks.process
		steps := 0
		for w.Host.Busy() && steps < at {
			w.Host.Step()
			steps++
		}
		ended := !w.Host.Busy()
		w.Host.Crash(first)
		next := w.Host.Process("expand")
		w.disks.process = next
		var manager plugins.Manager
		w.NoError(manager.Register(w.disks))
		expand.New(expand.Config{
			Process: next, Client: w.Server.Client(next), Informers: w.Server.Informers(next), Plugins: &manager,
			Recorder: events.New(events.Config{Process: next, Client: w.Server.Client(next), Source: expand.EventSource}),
		})
		w.Run()
		if got, want := w.state(), "claim 2Gi, volume 2Gi, by example.com/disks"; got != want {
			t.Fatalf("after a crash at step %d: got %s, want %s\n%s", at, got, want, w.Host.Log().Text())
		}
		if ended {
			if at < 10 {
				t.Errorf("the expansion took %d steps only", at)
			}
			return
		}
	}
}
