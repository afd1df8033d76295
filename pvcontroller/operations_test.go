package pvcontroller_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const (
	inTree    = "kubernetes.io/mock"
	saveTries = 5
)

// mock is an in-tree plugin over a set of volumes. Each of its calls leaves the process.
type mock struct {
	caller sim.Caller
	made   map[string]bool // by name
	calls  []string
	fail   map[string][]error // errors of the next calls, by call
	holds  bool               // it reserves the volume before recycling
}

func (m *mock) Name() string                                { return inTree }
func (m *mock) CanSupport(spec *plugins.Spec) bool          { return spec.PersistentVolume.Spec.HostPath != nil }
func (m *mock) VolumeName(s *plugins.Spec) (string, error)  { return s.Name(), nil }
func (m *mock) SupportsMountOptions() bool                  { return false }
func (m *mock) CanProvision(plugins.ProvisionOptions) error { return nil }
func (m *mock) CanDelete(*plugins.Spec) error               { return nil }

func (m *mock) call(verb, name string, effect func()) error {
	return m.caller.Call(trace.Action{
		Kind: trace.KindDriver, Verb: verb,
		Object: inTree + "/" + name,
	}, func() trace.Outcome {
		m.calls = append(m.calls, verb+" "+name)
		if fail := m.fail[verb]; len(fail) > 0 {
			m.fail[verb] = fail[1:]
			if fail[0] != nil {
				return trace.Outcome{Err: fail[0]}
			}
		}
		effect()
		return trace.Outcome{}
	}).Err
}

func (m *mock) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	if err := m.call("Provision", opts.Name, func() { m.made[opts.Name] = true }); err != nil {
		return nil, err
	}
	v := &corev1.PersistentVolume{}
	v.Spec.AccessModes = opts.Claim.Spec.AccessModes
	v.Spec.Capacity = opts.Claim.Spec.Resources.Requests
	v.Spec.PersistentVolumeReclaimPolicy = opts.ReclaimPolicy
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/tmp/" + opts.Name}
	return v, nil
}

func (m *mock) Delete(_ context.Context, spec *plugins.Spec) error {
	return m.call("Delete", spec.Name(), func() { delete(m.made, spec.Name()) })
}

func (m *mock) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	opts.RecordEvent(corev1.EventTypeNormal, "scrubbing")
	if m.holds {
		if err := opts.Acquire("pod"); err != nil {
			return err
		}
	}
	return m.call("Recycle", opts.Volume, func() {})
}

// spoiled makes requests fail.
type spoiled struct {
	sim.Caller
	spoil func(trace.Action) spoil
}

// spoil is the fault of a request.
type spoil int

const (
	well    spoil = iota
	refused       // without effect
	lost          // after effect
)

var errSpoiled = errors.New("spoiled")

func (s spoiled) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return s.Caller.Call(action, func() trace.Outcome {
		how := s.spoil(action)
		if how == refused {
			return trace.Outcome{Err: errSpoiled}
		}
		out := effect()
		if how == lost {
			out.Err, out.Lost = errSpoiled, true
		}
		return out
	})
}

// controlWith adds the controller with the plugin.
func (w *world) controlWith(spoil func(trace.Action) spoil) *mock {
	component := w.Host.Process("pvcontroller")
	client := w.Server.Client(spoiled{component, spoil}).WithoutCopies()
	m := &mock{caller: component, made: map[string]bool{}, fail: map[string][]error{}}
	var manager plugins.Manager
	if err := manager.Register(m); err != nil {
		w.Fatal(err)
	}
	pvcontroller.New(pvcontroller.Config{
		Process: component, Client: client, Informers: w.Server.Informers(component), Plugins: &manager,
		Recorder: events.New(events.Config{Process: component, Client: client, Source: pvcontroller.EventSource}),
	})
	return m
}

func (m *mock) want(t *testing.T, calls ...string) {
	t.Helper()
	if diff := cmp.Diff(calls, m.calls); diff != "" {
		t.Errorf("calls of the plugin (-want +got):\n%s", diff)
	}
}

func nothing(trace.Action) spoil { return well }

func TestVolumeIsProvisionedAndDeletedByItsPlugin(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(nothing)
	w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
	claim := w.claim("c", "1Gi", ofClass("gold"))
	w.Run()
	name := "pvc-" + string(claim.UID)
	w.wantState(name+" Bound for c by-controller", "c Bound to "+name+" 1Gi of gold by-controller completed")
	w.wantEvents("c Normal ProvisioningSucceeded: Successfully provisioned volume " + name + " using " + inTree)
	w.deleteClaim("c")
	w.Run()
	w.wantState(name + " Released for c by-controller") // pv-protection has not removed its finalizer
	w.editVolume(name, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	w.Run()
	w.wantState("")
	m.want(t, "Provision "+name, "Delete "+name)
	if len(m.made) > 0 {
		t.Errorf("remaining: %v", m.made)
	}
}

// creation reports whether a request creates a volume.
func creation(a trace.Action) bool {
	return a.Verb == "create" && strings.HasPrefix(a.Object, "persistentvolumes/")
}

func TestVolumeThatCannotBeSaved(t *testing.T) {
	const (
		failed  = "c Warning ProvisioningFailed: Error creating provisioned PV object for claim default/c: spoiled. Deleting the volume."
		cleanup = "c Warning ProvisioningCleanupFailed: Error cleaning provisioned volume for claim default/c: disk is busy. Please delete manually."
	)
	stuck := slices.Repeat([]error{errors.New("disk is busy")}, saveTries)
	tests := []struct {
		name     string
		creation []spoil // faults of the first requests
		deletion []error
		calls    []string
		events   []string
		took     time.Duration // until the claim is bound, rounded to 5 s
	}{
		{"once", []spoil{refused}, nil, []string{"Provision"}, nil, 10 * time.Second},
		{"answer lost", []spoil{lost}, nil, []string{"Provision"}, nil, 0},
		{"four times", slices.Repeat([]spoil{refused}, 4), nil, []string{"Provision"}, nil, 40 * time.Second},
		{
			"five times: it is deleted, and provisioned again", slices.Repeat([]spoil{refused}, 5), nil,
			[]string{"Provision", "Delete", "Provision"},
			[]string{failed},
			40 * time.Second,
		},
		{
			"five times, and the deletion fails once", slices.Repeat([]spoil{refused}, 5), stuck[:1],
			[]string{"Provision", "Delete", "Delete", "Provision"},
			[]string{failed},
			50 * time.Second,
		},
		{
			"five times, and the deletion fails, too", slices.Repeat([]spoil{refused}, 5), stuck,
			[]string{"Provision", "Delete", "Delete", "Delete", "Delete", "Delete", "Provision"},
			[]string{failed, cleanup},
			80 * time.Second,
		},
		{
			"four times, and the fifth answer is lost: it is not deleted",
			append(slices.Repeat([]spoil{refused}, 4), lost), nil,
			[]string{"Provision"},
			[]string{failed},
			40 * time.Second,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			left := tt.creation
			m := w.controlWith(func(a trace.Action) spoil {
				if !creation(a) || len(left) == 0 {
					return well
				}
				defer func() { left = left[1:] }()
				return left[0]
			})
			m.fail["Delete"] = tt.deletion
			w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
			claim := w.claim("c", "1Gi", ofClass("gold"))
			name := "pvc-" + string(claim.UID)
			bound := name + " Bound for c by-controller\nc Bound to " + name + " 1Gi of gold by-controller completed"
			for w.state() != bound && w.Host.Step() {
			}
			if took := w.Host.Now().Sub(sim.Epoch); took.Truncate(5*time.Second) != tt.took {
				t.Errorf("bound after %v, want %v", took, tt.took)
			}
			w.Run()
			w.wantState(strings.Split(bound, "\n")...)
			succeeded := "c Normal ProvisioningSucceeded: Successfully provisioned volume " + name + " using " + inTree
			w.wantEvents(slices.Sorted(slices.Values(append(tt.events, succeeded)))...)
			for i, call := range tt.calls {
				tt.calls[i] = call + " " + name
			}
			m.want(t, tt.calls...)
			if !m.made[name] {
				t.Error("the volume does not exist")
			}
		})
	}
}

func TestVolumeIsDeletedIfItsClaimIsDeletedBeforeItIsSaved(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(func(a trace.Action) spoil {
		if creation(a) {
			return refused
		}
		return well
	})
	w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
	claim := w.claim("c", "1Gi", ofClass("gold"))
	for len(m.made) == 0 && w.Host.Step() {
	}
	w.deleteClaim("c")
	w.Run()
	m.want(t, "Provision pvc-"+string(claim.UID), "Delete pvc-"+string(claim.UID))
	if took := w.Host.Now().Sub(sim.Epoch); took > pvcontroller.ResyncPeriod {
		t.Errorf("took %v", took)
	}
}

// TestDataIsDeletedOnce makes each write after the deletion of the data fail once.
func TestDataIsDeletedOnce(t *testing.T) {
	for _, verb := range []string{"update", "delete"} {
		for _, how := range []spoil{refused, lost} {
			w := newWorld(t, nil)
			var m *mock
			spoilt := false
			m = w.controlWith(func(a trace.Action) spoil {
				if a.Verb != verb || spoilt || len(m.calls) < 2 || !strings.HasPrefix(a.Object, "persistentvolumes/") {
					return well
				}
				spoilt = true
				return how
			})
			w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
			claim := w.claim("c", "1Gi", ofClass("gold"))
			w.Run()
			w.deleteClaim("c")
			w.Run()
			name := "pvc-" + string(claim.UID)
			w.editVolume(name, func(v *corev1.PersistentVolume) { // as pv-protection does
				if v.DeletionTimestamp == nil || !slices.Equal(v.Finalizers, []string{"kubernetes.io/pv-protection"}) {
					t.Errorf("%s %v: deleted at %v, finalizers %v", verb, how, v.DeletionTimestamp, v.Finalizers)
				}
				v.Finalizers = nil
			})
			w.Run()
			m.want(t, "Provision "+name, "Delete "+name)
			w.wantState("")
			if !spoilt {
				t.Errorf("%s %v: nothing failed", verb, how)
			}
		}
	}
}

// TestVolumeRecreatedIsNotDeleted replaces a Released volume by another one with its name while its
// data is deleted.
func TestVolumeRecreatedIsNotDeleted(t *testing.T) {
	w := newWorld(t, nil)
	var m *mock
	var name string
	replaced := false
	m = w.controlWith(func(a trace.Action) spoil {
		if a.Verb == "delete" && !replaced && strings.HasPrefix(a.Object, "persistentvolumes/") {
			replaced = true
			w.deleteVolume(name)
			w.volume(name, "5Gi")
		}
		return well
	})
	w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
	name = "pvc-" + string(w.claim("c", "1Gi", ofClass("gold")).UID)
	w.Run()
	w.deleteClaim("c")
	w.Run()
	w.wantState(name + " Available")
	m.want(t, "Provision "+name, "Delete "+name)
}

// TestCrashBeforeVolumeIsSaved restarts the controller after it provisioned a volume and before it
// saved it.
func TestCrashBeforeVolumeIsSaved(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(func(a trace.Action) spoil {
		if creation(a) {
			return refused
		}
		return well
	})
	w.class("gold", inTree, storagev1.VolumeBindingImmediate, false)
	name := "pvc-" + string(w.claim("c", "1Gi", ofClass("gold")).UID)
	for len(m.made) == 0 && w.Host.Step() {
	}
	w.Host.Crash(m.caller.(*sim.Process))
	again := w.controlWith(nothing)
	again.made = m.made
	w.Run()
	w.wantState(name+" Bound for c by-controller", "c Bound to "+name+" 1Gi of gold by-controller completed")
	again.want(t, "Provision "+name)
	if len(m.made) != 1 {
		t.Errorf("made: %v", m.made)
	}
}

func TestVolumeIsRecycledByItsPlugin(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(nothing)
	m.fail["Recycle"] = []error{errors.New("disk is busy")}
	w.volume("v", "1Gi", directory("/tmp/v", corev1.PersistentVolumeReclaimRecycle))
	w.claim("c", "1Gi")
	w.Run()
	w.deleteClaim("c")
	w.Run()
	w.wantState("v Available")
	m.want(t, "Recycle v", "Recycle v")
	w.wantEvents(
		"v Normal RecyclerPod: Recycler pod: scrubbing",
		"v Normal VolumeRecycled: Volume recycled",
		"v Warning VolumeFailedRecycle: Recycle failed: disk is busy",
	)
}

func TestRecyclerEventIsRecordedOnceUntilSuccess(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(nothing)
	stuck := errors.New("disk is busy")
	m.fail["Recycle"] = []error{stuck, stuck, stuck}
	w.volume("v", "1Gi", directory("/tmp/v", corev1.PersistentVolumeReclaimRecycle))
	w.claim("c", "1Gi")
	w.Run()
	w.deleteClaim("c")
	w.Run()
	m.want(t, "Recycle v", "Recycle v", "Recycle v", "Recycle v")
	for _, obj := range w.Server.List("events") {
		if e := obj.(*corev1.Event); e.Reason == "RecyclerPod" && e.Count != 1 {
			t.Errorf("%q was recorded %d times; want once", e.Message, e.Count)
		}
	}
}

// TestFailedRecyclingSetsTheMessage reserves a volume for each attempt.
func TestFailedRecyclingSetsTheMessage(t *testing.T) {
	w := newWorld(t, nil)
	m := w.controlWith(nothing)
	m.holds = true
	m.fail["Recycle"] = slices.Repeat([]error{errors.New("disk is busy")}, 3)
	w.volume("v", "1Gi", directory("/tmp/v", corev1.PersistentVolumeReclaimRecycle))
	w.claim("c", "1Gi")
	w.Run()
	w.deleteClaim("c")
	var messages []string
	w.Server.OnCommit(func(c fake.Commit) {
		if v, ok := c.After.(*corev1.PersistentVolume); ok {
			messages = append(messages, string(v.Status.Phase)+" "+v.Status.Message)
		}
	})
	w.Run()
	want := []string{
		"Released ",
		"Released Recycling by pod", "Failed Recycle failed: disk is busy",
		"Failed Recycling by pod", "Failed Recycle failed: disk is busy",
		"Failed Recycling by pod", "Failed Recycle failed: disk is busy",
		"Failed Recycling by pod", "Failed Recycling by pod",
		"Available ", // first without its claimRef, then Available
	}
	if diff := cmp.Diff(want, messages); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
}
