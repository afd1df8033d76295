package volumemanager_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim/trace"
)

const (
	pending         = corev1.PersistentVolumeClaimNodeResizePending
	inProgress      = corev1.PersistentVolumeClaimNodeResizeInProgress
	infeasible      = corev1.PersistentVolumeClaimNodeResizeInfeasible
	controllerGrows = corev1.PersistentVolumeClaimControllerResizeInProgress
)

// claimed is the state of an expanding claim; "" for missing fields.
type claimed struct {
	asked, has, allocated string
	status                corev1.ClaimResourceStatus
}

func sizeList(size string) corev1.ResourceList {
	if size == "" {
		return nil
	}
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

// updateClaim changes the stored claim disk-1, bypassing validation.
func (w *world) updateClaim(edit func(*corev1.PersistentVolumeClaim)) {
	w.Server.UpdateStored("persistentvolumeclaims", "default", "disk-1", func(stored fake.Object) fake.Object {
		claim := stored.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		edit(claim)
		return claim
	})
}

func (c claimed) write(claim *corev1.PersistentVolumeClaim) {
	claim.Spec.Resources.Requests = sizeList(c.asked)
	claim.Status.Capacity, claim.Status.AllocatedResources = sizeList(c.has), sizeList(c.allocated)
	claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = nil, nil
	if c.asked != c.has && c.allocated == "" { // the condition of an old resizer
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
			Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, Message: "wait",
		}}
	}
	if c.status != "" {
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: c.status}
	}
}

func (w *world) storedClaim() *corev1.PersistentVolumeClaim {
	object, _ := w.Server.Get("persistentvolumeclaims", "default", "disk-1")
	return object.(*corev1.PersistentVolumeClaim)
}

// growth returns the expansion state of claim disk-1: capacity, status, conditions.
func (w *world) growth() string {
	claim := w.storedClaim()
	has := claim.Status.Capacity[corev1.ResourceStorage]
	words := []string{has.String()}
	if s := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]; s != "" {
		words = append(words, string(s))
	}
	for _, c := range claim.Status.Conditions {
		words = append(words, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Message))
	}
	return strings.Join(words, " ")
}

// enlarge sets the capacity of PersistentVolume disk-1.
func (w *world) enlarge(size string) {
	w.Server.UpdateStored("persistentvolumes", "", "disk-1", func(stored fake.Object) fake.Object {
		v := stored.DeepCopyObject().(*corev1.PersistentVolume)
		v.Spec.Capacity = sizeList(size)
		return v
	})
}

// expansions returns the expansion calls since the previous call, without their times.
func (w *world) expansions() []string {
	var calls []string
	for _, call := range w.backend.calls {
		if _, what, _ := strings.Cut(call, " "); strings.HasPrefix(what, "NodeExpand") {
			calls = append(calls, what)
		}
	}
	w.backend.calls = nil
	return calls
}

// resizeEvents returns the events about expansion.
func (w *world) resizeEvents() []string {
	return slices.DeleteFunc(w.events(), func(e string) bool { return !strings.Contains(e, "Resize") })
}

// growingWorld has a volume with node expansion, and a claim with capacity 1Gi.
func growingWorld(t *testing.T, modes ...corev1.PersistentVolumeAccessMode) *world {
	t.Helper()
	w := newWorld(t, nil, func(b *backend) { b.expands = true })
	w.disk("disk-1")
	w.updateClaim(func(claim *corev1.PersistentVolumeClaim) {
		claimed{asked: "1Gi", has: "1Gi"}.write(claim)
		if modes != nil {
			claim.Spec.AccessModes = modes
		}
	})
	w.attach("disk-1")
	return w
}

var (
	errInfeasible = fmt.Errorf("never: %w", plugins.ErrExpandInfeasible)
	errInUse      = fmt.Errorf("in use: %w", plugins.ErrExpandInUse)
	errNoExpand   = fmt.Errorf("no: %w", plugins.ErrUnsupported)
)

const grown = `Normal FileSystemResizeSuccessful %s: MountVolume.NodeExpandVolume succeeded for volume "disk-1" node-1`

// TestExpandInUse changes a claim while a pod uses its volume.
func TestExpandInUse(t *testing.T) {
	t.Parallel()
	successful := []string{"x1 " + fmt.Sprintf(grown, "disk-1"), "x1 " + fmt.Sprintf(grown, "pod-a")}
	const call = "NodeExpand disk-1 1Gi to 2Gi a"
	const notRequired = "volume.kubernetes.io/node-expansion-not-required"
	failed := func(err error, n int) string {
		return fmt.Sprintf(`x%d Warning VolumeResizeFailed pod-a: NodeExpandVolume.NodeExpandVolume failed for volume "disk-1" : %v`, n, err)
	}
	tests := []struct {
		name      string
		modes     []corev1.PersistentVolumeAccessMode
		annotated bool
		claim     claimed
		faults    []error
		calls     []string
		claimAt   string
		events    []string
	}{
		{
			"pending", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			nil,
			[]string{call},
			"2Gi", successful,
		},
		{
			"in progress", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", inProgress},
			nil,
			[]string{call},
			"2Gi", successful,
		},
		{
			"failed on a node", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", infeasible},
			nil,
			nil, "1Gi NodeResizeInfeasible", nil,
		},
		{
			"the controller is not ready", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", controllerGrows},
			nil,
			nil, "1Gi ControllerResizeInProgress", nil,
		},
		{
			"an old resizer", nil, false,
			claimed{"2Gi", "1Gi", "", ""},
			nil,
			[]string{call},
			"2Gi", successful,
		},
		{
			"an old resizer, and no expansion on nodes", nil, false,
			claimed{"2Gi", "1Gi", "", ""},
			[]error{errNoExpand},
			[]string{call + ": " + errNoExpand.Error()},
			"1Gi FileSystemResizePending=True: wait", nil,
		},
		{
			"an old resizer, and a driver that expands only unused volumes", nil, false,
			claimed{"2Gi", "1Gi", "", ""},
			[]error{errInUse},
			[]string{call + ": " + errInUse.Error()},
			"1Gi FileSystemResizePending=True: wait", nil,
		},
		{
			"another node has expanded it", nil, false,
			claimed{"2Gi", "2Gi", "2Gi", ""},
			nil,
			nil, "2Gi", nil,
		},
		{
			"another node has expanded it, and all must",
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			false,
			claimed{"2Gi", "2Gi", "2Gi", ""},
			nil,
			[]string{call},
			"2Gi", successful,
		},
		{
			"all must, but the driver requires no node expansion",
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			true,
			claimed{"2Gi", "2Gi", "2Gi", ""},
			nil,
			nil, "2Gi", nil,
		},
		{
			"all must, and no expansion on nodes",
			[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			false,
			claimed{"2Gi", "2Gi", "2Gi", ""},
			[]error{errNoExpand},
			[]string{call + ": " + errNoExpand.Error()},
			"2Gi", nil,
		},
		{
			"infeasible", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			[]error{errInfeasible},
			[]string{call + ": " + errInfeasible.Error()},
			"1Gi NodeResizeInfeasible NodeResizeError=True: failed to expand pvc with " + errInfeasible.Error(),
			[]string{failed(errInfeasible, 1)},
		},
		{
			"a final error, then success", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			[]error{errFinal},
			[]string{call + ": broken", call},
			"2Gi", append(slices.Clone(successful), failed(errFinal, 1)),
		},
		{
			"final errors, and another size is requested", nil, false,
			claimed{"3Gi", "1Gi", "2Gi", pending},
			[]error{errFinal, errFinal},
			[]string{call + ": broken", call + ": broken"},
			"1Gi NodeResizeInfeasible NodeResizeError=True: failed to expand pvc with broken",
			[]string{failed(errFinal, 2)},
		},
		{
			"no answer", nil, false,
			claimed{"3Gi", "1Gi", "2Gi", pending},
			[]error{errUncertain, errTransient, errUncertain},
			[]string{call + ": no answer", call + ": not yet", call + ": no answer", call},
			"2Gi",
			append(slices.Clone(successful), failed(errTransient, 1), failed(errUncertain, 2)),
		},
		{
			"a driver that expands only unused volumes", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			[]error{errInUse},
			[]string{call + ": " + errInUse.Error()},
			"1Gi NodeResizeInProgress NodeResizeError=True: failed to expand pvc with " + errInUse.Error(), nil,
		},
		{
			"no expansion on nodes", nil, false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			[]error{errNoExpand},
			[]string{call + ": " + errNoExpand.Error(), call},
			"2Gi", append(slices.Clone(successful), failed(errNoExpand, 1)),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := growingWorld(t, tt.modes...)
			w.add("a", "disk-1")
			w.Run()
			w.pod("a", true, true)
			testcheck.Equal(w, "before", nil, w.expansions())
			for _, err := range tt.faults {
				w.backend.faults = append(w.backend.faults, fault{call: call, err: err})
			}
			w.enlarge("2Gi")
			w.updateClaim(func(claim *corev1.PersistentVolumeClaim) {
				tt.claim.write(claim)
				if tt.annotated {
					claim.Annotations = map[string]string{notRequired: "true"}
				}
			})
			w.Run()
			testcheck.Equal(w, "calls", tt.calls, w.expansions())
			testcheck.Equal(w, "claim", tt.claimAt, w.growth())
			testcheck.Equal(w, "events", tt.events, w.resizeEvents())
			w.pod("a", true, true)
			w.quiet()
			w.idle()
		})
	}
}

// idle checks that no more API requests are made.
func (w *world) idle() {
	w.Helper()
	before := len(w.Host.Log().Records())
	w.pass(10 * 60 * 1000 * ms)
	for _, r := range w.Host.Log().Records()[before:] {
		if r.Kind == trace.KindAPI {
			w.Errorf("at rest: %s %s %s", r.Task, r.Verb, r.Object)
		}
	}
}

// TestExpandAtMount mounts a volume that must be expanded.
func TestExpandAtMount(t *testing.T) {
	t.Parallel()
	successful := []string{"x1 " + fmt.Sprintf(grown, "disk-1"), "x1 " + fmt.Sprintf(grown, "pod-a")}
	const call = "NodeExpand disk-1 1Gi to 2Gi a"
	const failed = `MountVolume.Setup failed while expanding volume for volume "disk-1" : `
	readOnly := func(of string) string {
		return "x1 Warning FileSystemResizeFailed " + of +
			`: MountVolume.NodeExpandVolume failed for volume "disk-1" requested read-only file system`
	}
	tests := []struct {
		name     string
		readOnly bool
		claim    claimed
		fault    error
		calls    []string
		claimAt  string
		events   []string
		mounting string // message of a failed mount; "" for none
	}{
		{"pending", false, claimed{"2Gi", "1Gi", "2Gi", pending}, nil, []string{call}, "2Gi", successful, ""},
		{"an old resizer", false, claimed{"2Gi", "1Gi", "", ""}, nil, []string{call}, "2Gi", successful, ""},
		{
			"failed on a node", false,
			claimed{"2Gi", "1Gi", "2Gi", infeasible},
			nil, nil,
			"1Gi NodeResizeInfeasible", nil, "",
		},
		{
			"read only", true,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			nil, nil, "1Gi NodeResizePending",
			[]string{readOnly("disk-1"), readOnly("pod-a")},
			"",
		},
		{
			"a driver that fails once", false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			errFinal,
			[]string{call + ": broken", call},
			"2Gi", successful, failed + "broken",
		},
		{
			"infeasible: the pod runs nevertheless", false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			errInfeasible,
			[]string{call + ": " + errInfeasible.Error()},
			"1Gi NodeResizeInfeasible NodeResizeError=True: failed to expand pvc with " +
				errInfeasible.Error(), nil, failed + errInfeasible.Error(),
		},
		{
			"in use: the pod runs immediately", false,
			claimed{"2Gi", "1Gi", "2Gi", pending},
			errInUse,
			[]string{call + ": " + errInUse.Error()},
			"1Gi NodeResizeInProgress NodeResizeError=True: failed to expand pvc with " + errInUse.Error(), nil, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := growingWorld(t)
			w.enlarge("2Gi")
			w.updateClaim(tt.claim.write)
			if tt.fault != nil {
				w.backend.faults = []fault{{call: call, err: tt.fault}}
			}
			pod := newPod("a", "disk-1")
			pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = tt.readOnly
			w.manager.AddPod(pod)
			w.kubelet.Wake()
			if tt.mounting != "" {
				w.Until("the first try to fail",
					func() bool { return len(w.backend.faults) == 0 && len(w.Host.Enabled()) == 0 })
				w.pod("a", false, true)
			}
			w.Run()
			testcheck.Equal(w, "calls", tt.calls, w.expansions())
			testcheck.Equal(w, "claim", tt.claimAt, w.growth())
			testcheck.Equal(w, "events", tt.events, w.resizeEvents())
			mounting := slices.DeleteFunc(w.events(),
				func(e string) bool { return !strings.Contains(e, "FailedMount") })
			if tt.mounting == "" {
				testcheck.Equal(w, "mount", nil, mounting)
			} else {
				testcheck.Equal(w, "mount", []string{"x1 Warning FailedMount pod-a: " + tt.mounting}, mounting)
			}
			w.pod("a", true, true)
			w.quiet()
			w.idle()
		})
	}
}

// TestExpandOnceForTwoPods expands through a pod that may write, in either order.
func TestExpandOnceForTwoPods(t *testing.T) {
	t.Parallel()
	for _, reader := range []string{"a", "b"} {
		t.Run(reader+" only reads", func(t *testing.T) {
			t.Parallel()
			w := growingWorld(t)
			for _, name := range []string{"a", "b"} {
				pod := newPod(types.UID(name), "disk-1")
				pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = name == reader
				w.manager.AddPod(pod)
			}
			w.kubelet.Wake()
			w.Run()
			w.expansions()
			w.enlarge("2Gi")
			w.updateClaim(claimed{"2Gi", "1Gi", "2Gi", pending}.write)
			w.Run()
			writer := map[string]string{"a": "b", "b": "a"}[reader]
			testcheck.Equal(w, "calls", []string{"NodeExpand disk-1 1Gi to 2Gi " + writer}, w.expansions())
			testcheck.Equal(w, "claim", "2Gi", w.growth())
			w.quiet()
			w.idle()
		})
	}
}

// TestExpandTwice expands again at a later request, and at the next mount if the driver reported
// the volume in use.
func TestExpandTwice(t *testing.T) {
	t.Parallel()
	w := growingWorld(t)
	w.add("a", "disk-1")
	w.Run()
	w.expansions()
	for i, size := range []string{"2Gi", "3Gi"} {
		before := fmt.Sprintf("%dGi", i+1)
		w.enlarge(size)
		w.updateClaim(claimed{size, before, size, pending}.write)
		w.Run()
		testcheck.Equal(w, "calls", []string{fmt.Sprintf("NodeExpand disk-1 %s to %s a", before, size)}, w.expansions())
		testcheck.Equal(w, "claim", size, w.growth())
	}
	w.backend.faults = []fault{{call: "NodeExpand disk-1 3Gi to 4Gi a", err: errInUse}}
	w.enlarge("4Gi")
	w.updateClaim(claimed{"4Gi", "3Gi", "4Gi", pending}.write)
	w.Run()
	w.remove("a")
	w.Run()
	w.expansions()
	w.add("b", "disk-1")
	w.Run()
	testcheck.Equal(w, "calls", []string{"NodeExpand disk-1 3Gi to 4Gi b"}, w.expansions())
	testcheck.Equal(w, "claim", "4Gi", w.growth())
	w.quiet()
}
