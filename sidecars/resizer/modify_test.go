package resizer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/resizer"
	"github.com/volsim/volsim/sim"
)

const (
	inProgress = corev1.PersistentVolumeClaimModifyVolumeInProgress
	infeasible = corev1.PersistentVolumeClaimModifyVolumeInfeasible
	isModified = "volume target-vac, claim target-vac"
	isBefore   = "volume test-vac, claim test-vac"
)

// TestModify modifies a volume of class test-vac to target-vac, if not stated otherwise.
func TestModify(t *testing.T) {
	t.Parallel()
	claim := func() *corev1.PersistentVolumeClaim {
		return modified(newClaim("target-vac", "test-vac"), "test-vac", infeasible)
	}
	volume := newVolume("test-vac")
	parameters := map[string]string{"tier": "target-vac"}
	tests := []struct {
		name   string
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		extra  bool
		lacks  bool // the class
		fails  []codes.Code
		calls  []map[string]string
		want   string
	}{
		{name: "nothing to modify", claim: newClaim("test-vac", "test-vac"), volume: volume, want: isBefore},
		{
			name:  "vac does not exist, no modification and set ModifyVolumeStatus to pending",
			claim: modified(newClaim("target-vac", "test-vac"), "whatever", infeasible), volume: volume, lacks: true,
			want: isBefore + "; Pending whatever",
		},
		{
			name: "modify volume success", claim: claim(), volume: volume, calls: []map[string]string{parameters},
			want: isModified,
		},
		{
			name: "modify volume success with extra metadata", claim: claim(), volume: volume, extra: true,
			calls: []map[string]string{{
				"tier": "target-vac", "csi.storage.k8s.io/pvc/name": "data",
				"csi.storage.k8s.io/pvc/namespace": "default", "csi.storage.k8s.io/pv/name": "testPV",
			}},
			want: isModified,
		},
		{
			name: "First time modify", claim: newClaim("target-vac", ""), volume: newVolume(""),
			calls: []map[string]string{parameters}, want: isModified,
		},
		{
			name: "Modify failed", claim: claim(), volume: volume, fails: []codes.Code{codes.Internal},
			calls: []map[string]string{parameters},
			want: isBefore + `; InProgress target-vac; ModifyingVolume Modifying volume to "target-vac" failed. Waiting for retry.` +
				`; ModifyVolumeError Internal scripted`,
		},
		{
			name:  "Should NOT modify when rollback to empty VACName",
			claim: modified(newClaim("", ""), "test-vac", infeasible), volume: newVolume(""),
			want: "volume -, claim -; Infeasible test-vac",
		},
		{
			name: "Should NOT modify if PVC managed by another CSI Driver", claim: newClaim("target-vac", "test-vac"),
			volume: of(volume, func(v *corev1.PersistentVolume) { v.Spec.CSI.Driver = "some-other-driver" }),
			want:   isBefore,
		},
		{
			name:  "Should execute ModifyVolume for InProgress target if PVC has empty Spec.VACName",
			claim: modified(newClaim("", ""), "target-vac", inProgress), volume: newVolume(""),
			calls: []map[string]string{parameters}, want: isModified,
		},
		{
			name: "Should NOT modify if PVC not in bound state", volume: volume, want: isBefore,
			claim: of(newClaim("target-vac", "test-vac"), func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimPending }),
		},
		{
			name: "Should NOT modify if PVC's PV not created yet", volume: volume, want: isBefore,
			claim: of(newClaim("target-vac", "test-vac"), func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "" }),
		},
		{
			name: "Should NOT modify if PV wasn't provisioned by CSI driver", claim: newClaim("target-vac", "test-vac"),
			volume: of(volume, func(v *corev1.PersistentVolume) {
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
			}),
			want: isBefore,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newModifyWorld(t, resizer.Config{ExtraModifyMetadata: test.extra}, nil)
			w.NoError(w.Server.Add(test.claim, test.volume, newAttributes("test-vac")))
			if !test.lacks {
				w.NoError(w.Server.Add(newAttributes("target-vac")))
			}
			w.fails(test.fails...)
			w.until(500*time.Millisecond, never)
			var calls []map[string]string
			for _, call := range w.conn.Calls {
				if r, ok := call.Request.(*csispec.ControllerModifyVolumeRequest); ok && r.GetVolumeId() == "foo" {
					calls = append(calls, r.GetMutableParameters())
				}
			}
			if diff := cmp.Diff(test.calls, calls); diff != "" {
				t.Errorf("parameters of the calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.want, w.state()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

// of returns a changed copy of an object.
func of[T interface{ DeepCopy() T }](object T, change func(T)) T {
	object = object.DeepCopy()
	change(object)
	return object
}

// TestModifyErrors: what is reported of each error of the driver, and when it is tried again.
func TestModifyErrors(t *testing.T) {
	t.Parallel()
	const (
		failed    = `; InProgress target-vac; ModifyingVolume Modifying volume to "target-vac" failed. Waiting for retry.`
		goesOn    = `; InProgress target-vac; ModifyingVolume Modifying volume to "target-vac" is still in progress.`
		refused   = `; Infeasible target-vac; ModifyingVolume Modifying volume to "target-vac" failed. Waiting for retry.`
		unreached = `; InProgress target-vac; ModifyingVolume Modifying volume to "target-vac" is in progress.`
	)
	want := map[codes.Code]string{
		codes.OK:       unreached, // the connection is lost
		codes.Canceled: goesOn, codes.DeadlineExceeded: goesOn, codes.Unavailable: goesOn, codes.ResourceExhausted: goesOn,
		codes.Aborted:         goesOn,
		codes.InvalidArgument: refused,
		codes.OutOfRange:      failed, codes.NotFound: failed, codes.Unknown: failed, codes.AlreadyExists: failed,
		codes.PermissionDenied: failed, codes.FailedPrecondition: failed, codes.Unimplemented: failed, codes.Internal: failed,
		codes.DataLoss: failed, codes.Unauthenticated: failed,
	}
	for code, state := range want {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			w := newModifyWorld(t, resizer.Config{}, nil)
			w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac")))
			w.fails(code)
			w.until(500*time.Millisecond, never)
			told := []string{"Normal VolumeModify: external resizer is modifying volume data with vac target-vac"}
			if code != codes.OK {
				state += "; ModifyVolumeError " + code.String() + " scripted"
				text := "rpc error: code = " + code.String() + " desc = scripted"
				if strings.HasPrefix(state, goesOn) {
					text += ". Still modifying to VAC target-vac"
				}
				told = append(told, "Warning VolumeModifyFailed: "+text)
			}
			if diff := cmp.Diff(isBefore+state, w.state()); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(told, w.told()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			early, late := 2, 2
			if code == codes.InvalidArgument {
				early = 1
			}
			w.until(2*time.Minute, never)
			if n := len(w.tiers()); n != early {
				t.Errorf("%d calls in 2 minutes, want %d", n, early)
			}
			w.until(4*time.Minute, never)
			if n := len(w.tiers()); n != late || w.state() != isModified {
				t.Errorf("%d calls in 6 minutes, want %d; %s", n, late, w.state())
			}
			const succeeded = "Normal VolumeModifySuccessful: external resizer modified volume data with vac target-vac successfully"
			if told := w.told(); !slices.Contains(told, succeeded) {
				t.Errorf("events %q, want %q", told, succeeded)
			}
		})
	}
}

// TestInfeasible refuses a class several times. A world in which it is refused comes to rest.
func TestInfeasible(t *testing.T) {
	t.Parallel()
	w := newModifyWorld(t, resizer.Config{}, nil)
	w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac"),
		newAttributes("test-vac")))
	w.fails(codes.InvalidArgument, codes.InvalidArgument, codes.InvalidArgument, codes.Unavailable)
	w.Run() // ends
	refused := w.state()
	w.until(11*time.Minute, never)
	if got := w.tiers(); len(got) != 3 || w.state() != refused {
		t.Errorf("calls %q, %s; want 3 in 11 minutes and %s", got, w.state(), refused)
	}
	var counts []int32
	for _, object := range w.Server.List("events") {
		counts = append(counts, object.(*corev1.Event).Count)
	}
	if !slices.Equal(counts, []int32{1, 1}) {
		t.Errorf("events are counted %v times: %q", counts, w.told())
	}
	w.until(5*time.Minute, never) // the driver is unavailable, and the other queue continues
	w.Run()
	if got := w.tiers(); len(got) != 5 || w.state() != isModified {
		t.Errorf("calls %q, %s", got, w.state())
	}
}

// TestInfeasibleIsTriedAgainWithAnotherClass requests another class, the previous one, or none.
func TestInfeasibleIsTriedAgainWithAnotherClass(t *testing.T) {
	t.Parallel()
	for next, want := range map[string]string{"yet-another-vac": "volume yet-another-vac, claim yet-another-vac", "test-vac": isBefore} {
		t.Run(next, func(t *testing.T) {
			t.Parallel()
			w := newModifyWorld(t, resizer.Config{}, nil)
			w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac"),
				newAttributes(next)))
			w.fails(codes.InvalidArgument)
			w.Run()
			w.request(next)
			w.Run()
			if got := w.tiers(); !slices.Equal(got, []string{"target-vac", next}) || w.state() != want {
				t.Errorf("calls %q, %s; want %s", got, w.state(), want)
			}
		})
	}
}

// TestCancel removes the class from the claim.
func TestCancel(t *testing.T) {
	t.Parallel()
	const cancelled = "Normal VolumeModifyCanceled: Cancelled modify."
	w := newModifyWorld(t, resizer.Config{}, nil)
	w.NoError(w.Server.Add(newClaim("target-vac", ""), newVolume(""), newAttributes("target-vac")))
	w.fails(codes.Internal, codes.InvalidArgument)
	w.until(500*time.Millisecond, never)
	w.request("")
	w.Run() // in progress, so it is tried again
	if got := w.tiers(); !slices.Equal(got, []string{"target-vac", "target-vac"}) {
		t.Errorf("calls %q", got)
	}
	const want = "volume -, claim -; Infeasible target-vac; ModifyVolumeError InvalidArgument scripted"
	w.until(20*time.Minute, func() bool { return w.state() == want })
	if told := w.told(); !slices.Contains(told, cancelled) || w.state() != want {
		t.Errorf("events %q, %s; want %q, %s", told, w.state(), cancelled, want)
	}
	w.request("target-vac")
	w.Run()
	if w.state() != isModified {
		t.Errorf("requested again: %s", w.state())
	}
}

// TestUncertainTarget requests other classes while the driver may be at work on one.
func TestUncertainTarget(t *testing.T) {
	t.Parallel()
	w := newModifyWorld(t, resizer.Config{}, nil)
	w.NoError(w.Server.Add(modified(newClaim("yet-another-vac", "test-vac"), "target-vac", inProgress), newVolume("test-vac"),
		newAttributes("target-vac"), newAttributes("yet-another-vac")))
	w.fails(codes.Aborted, codes.Internal, codes.Aborted)
	w.until(500*time.Millisecond, never) // in progress when the resizer starts: uncertain
	w.until(time.Second, func() bool { return len(w.tiers()) == 2 })
	w.until(3*time.Second, func() bool { return len(w.tiers()) == 3 }) // settled: the other class
	w.request("target-vac")
	w.Run()
	want := []string{"target-vac", "target-vac", "yet-another-vac", "yet-another-vac", "target-vac"}
	if diff := cmp.Diff(want, w.tiers()); diff != "" || w.state() != isModified {
		t.Errorf("calls (-want +got):\n%s%s", diff, w.state())
	}
}

// TestMissingClassIsAwaited creates the class after the claim requests it, and another one before.
func TestMissingClassIsAwaited(t *testing.T) {
	t.Parallel()
	w := newModifyWorld(t, resizer.Config{}, nil)
	w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac")))
	w.Run()
	if got := w.state(); got != isBefore+"; Pending " {
		t.Errorf("without the class: %s", got)
	}
	if told := w.told(); !slices.Equal(told, []string{`Warning VolumeModifyFailed: VAC "target-vac" does not exist.`}) {
		t.Errorf("events %q", told)
	}
	for _, name := range []string{"yet-another-vac", "target-vac"} {
		testcheck.Must(w.User.StorageV1().VolumeAttributesClasses().Create(context.Background(), newAttributes(name), metav1.CreateOptions{}))
		w.Run()
	}
	if got := w.state(); got != isModified {
		t.Errorf("with the class: %s", got)
	}
}

// TestSecretsForModifying: the secret for modifying, or that for expanding, must exist.
func TestSecretsForModifying(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		own, both bool
		want      string
	}{
		{"of its own", true, true, "modify"},
		{"without a namespace", true, false, "expand"},
		{"for expanding", false, false, "expand"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newModifyWorld(t, resizer.Config{}, nil)
			volume := newVolume("test-vac")
			volume.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Namespace: "vault", Name: "expand"}
			if test.own {
				volume.Annotations = map[string]string{"volume.kubernetes.io/controller-modify-secret-name": "modify"}
			}
			if test.both {
				volume.Annotations["volume.kubernetes.io/controller-modify-secret-namespace"] = "vault"
			}
			w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), volume, newAttributes("target-vac")))
			w.until(10*time.Second, never)
			if n := len(w.tiers()); n != 0 {
				t.Errorf("%d calls without the secret", n)
			}
			w.NoError(w.Server.Add(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: test.want}, Data: map[string][]byte{"user": []byte("alice")},
			}))
			w.Run()
			last := w.conn.Calls[len(w.conn.Calls)-1].Request.(*csispec.ControllerModifyVolumeRequest)
			if diff := cmp.Diff(map[string]string{"user": "alice"}, last.GetSecrets()); diff != "" || w.state() != isModified {
				t.Errorf("secrets (-want +got):\n%s%s", diff, w.state())
			}
		})
	}
}

// TestModifyNeedsTheCapability uses a driver that only expands volumes.
func TestModifyNeedsTheCapability(t *testing.T) {
	t.Parallel()
	w := newModifyWorldOf(t, resizer.Config{}, nil, csispec.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac")))
	w.Run()
	if n := len(w.tiers()); n != 0 || w.state() != isBefore {
		t.Errorf("%d calls, %s", n, w.state())
	}
}

// TestModifyGoneClaim deletes a claim while its modification waits for the next attempt.
func TestModifyGoneClaim(t *testing.T) {
	t.Parallel()
	w := newModifyWorld(t, resizer.Config{}, nil)
	w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac")))
	w.fails(codes.Unavailable)
	w.until(500*time.Millisecond, never)
	w.NoError(w.User.CoreV1().PersistentVolumeClaims("default").Delete(context.Background(), "data", metav1.DeleteOptions{}))
	w.Run()
	if got := w.tiers(); len(got) != 1 {
		t.Errorf("calls %q", got)
	}
}

// TestModifyUnderSchedules modifies a volume twice under schedules, while the driver fails and the
// resizer crashes after one of its steps. The driver must not be given a class while it may be at work
// on another one.
func TestModifyUnderSchedules(t *testing.T) {
	t.Parallel()
	for crash := range 24 {
		w := newModifyWorld(t, resizer.Config{}, sim.NewSeeded(uint64(crash)))
		w.NoError(w.Server.Add(newClaim("target-vac", "test-vac"), newVolume("test-vac"), newAttributes("target-vac"),
			newAttributes("yet-another-vac")))
		w.conn.Faults = []scripted.Fault{
			{Method: "ControllerModifyVolume", Code: codes.DeadlineExceeded, After: true},
			{Method: "ControllerModifyVolume", Code: codes.Internal},
		}
		for range crash {
			w.Host.Step()
		}
		w.request("yet-another-vac")
		w.Host.Crash(w.process)
		w.start()
		w.Run()
		if got := w.state(); got != "volume yet-another-vac, claim yet-another-vac" {
			t.Errorf("crash after %d steps: %s", crash, got)
		}
		if tiers := w.tiers(); tiers[0] != tiers[1] {
			t.Errorf("crash after %d steps: calls %q, and the first was uncertain", crash, tiers)
		}
	}
}
