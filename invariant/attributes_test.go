package invariant

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim/trace"
)

// modifyWorld is a claim with volume vol-1 of the driver, and a class.
type modifyWorld struct {
	*opsWorld
	volume *corev1.PersistentVolume
	claim  *corev1.PersistentVolumeClaim
}

func newModifyWorld(t *testing.T, rule string) *modifyWorld {
	t.Helper()
	w := &modifyWorld{opsWorld: newOpsWorld(t, rule)}
	w.devices.volumes = []Volume{{Handle: "vol-1", Attributes: map[string]string{"iops": "100", "tier": "b"}}}
	w.class("gold", "3000")
	w.claim = w.addClaim("data", func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = "pv" })
	w.volume = w.addVolume("pv", "vol-1", w.claim, func(v *corev1.PersistentVolume) {
		v.Annotations, v.Spec.StorageClassName = map[string]string{provisionedBy: "disk"}, "fast"
	})
	w.claim = w.setClaimStatus(w.claim, corev1.ClaimBound, "1Gi")
	return w
}

func (w *modifyWorld) class(name, iops string) {
	w.Helper()
	w.NoError(w.Server.Add(&storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "disk", Parameters: map[string]string{"iops": iops},
	}))
}

// status writes the claim's status; target "" is no modification.
func (w *modifyWorld) status(current, target string, state corev1.PersistentVolumeClaimModifyVolumeStatus) {
	w.Helper()
	claim := w.claim.DeepCopy()
	claim.Status.CurrentVolumeAttributesClassName, claim.Status.ModifyVolumeStatus = named(current), nil
	if state != "" {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: target, Status: state}
	}
	claim, err := w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(w.Context(), claim, updateOptions)
	w.NoError(err)
	w.claim = claim
}

func (w *modifyWorld) request(class string) {
	w.Helper()
	claim := w.claim.DeepCopy()
	claim.Spec.VolumeAttributesClassName = named(class)
	claim, err := w.User.CoreV1().PersistentVolumeClaims("default").Update(w.Context(), claim, updateOptions)
	w.NoError(err)
	w.claim = claim
}

func (w *modifyWorld) setVolume(class string) {
	w.Helper()
	v := w.volume.DeepCopy()
	v.Spec.VolumeAttributesClassName = &class
	v, err := w.User.CoreV1().PersistentVolumes().Update(w.Context(), v, updateOptions)
	w.NoError(err)
	w.volume = v
}

// modify is a call of the driver that sets iops.
func (w *modifyWorld) modify(iops string, err error) {
	if err == nil {
		w.devices.volumes[0].Attributes = map[string]string{"iops": iops}
	}
	w.note("resizer/modifications", trace.KindDriver, "ControllerModifyVolume", "disk/vol-1", "", err)
}

func named(class string) *string {
	if class == "" {
		return nil
	}
	return ptr.To(class)
}

const running = corev1.PersistentVolumeClaimModifyVolumeInProgress

func TestAttributes(t *testing.T) {
	tests := []struct {
		name string
		play func(w *modifyWorld)
		want []string
	}{
		{"modified", func(w *modifyWorld) {
			w.status("", "gold", running)
			w.modify("3000", nil)
			w.setVolume("gold")
			w.status("gold", "", "")
		}, nil},
		{"refused", func(w *modifyWorld) { w.modify("3000", errDriver) }, nil},
		{"the claim does not say so", func(w *modifyWorld) {
			w.status("", "gold", corev1.PersistentVolumeClaimModifyVolumePending)
			w.modify("3000", nil)
		}, []string{"I63: a volume without the attributes that its claim's status says: volume pv is modified, and claim default/data does not say so"}},
		{"another class", func(w *modifyWorld) {
			w.status("", "gold", running)
			w.modify("1", nil)
		}, []string{`volume pv is modified, and not to class gold as claim default/data says: iops of vol-1 is "1" at the driver, not "3000"`}},
		{"the volume says it before the driver", func(w *modifyWorld) {
			w.status("", "gold", running)
			w.setVolume("gold")
		}, []string{`volume pv says that it has the attributes of class gold, but iops of vol-1 is "100" at the driver, not "3000"`}},
		{"the claim says it before the volume", func(w *modifyWorld) {
			w.status("", "gold", running)
			w.modify("3000", nil)
			w.status("gold", "", "")
		}, []string{`claim default/data says that its volume has the attributes of class gold, and volume pv says ""`}},
		{"a class that does not exist", func(w *modifyWorld) { w.setVolume("bronze") }, nil},
		{"attributes that are not known", func(w *modifyWorld) {
			w.devices.volumes[0].Attributes = nil
			w.setVolume("gold")
		}, nil},
		{"a volume without claim", func(w *modifyWorld) {
			w.devices.volumes = append(w.devices.volumes, Volume{Handle: "vol-2"})
			w.note("user", trace.KindDriver, "ControllerModifyVolume", "disk/vol-2", "", nil)
		}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newModifyWorld(t, "I63")
			test.play(w)
			w.broken(test.want...)
		})
	}
}

func TestModificationEnds(t *testing.T) {
	const infeasible, pending = corev1.PersistentVolumeClaimModifyVolumeInfeasible, corev1.PersistentVolumeClaimModifyVolumePending
	tests := []struct {
		name    string
		wanted  string
		current string
		target  string
		state   corev1.PersistentVolumeClaimModifyVolumeStatus
		want    string // "": nothing is pending
	}{
		{name: "no class"},
		{name: "modified", wanted: "gold", current: "gold"},
		{name: "requested", wanted: "gold", want: "must be modified to class gold"},
		{name: "in progress", wanted: "gold", target: "gold", state: running, want: "is being modified to class gold, and that must end"},
		{name: "cancelled in progress", target: "gold", state: running, want: "is being modified to class gold, and that must end"},
		{name: "in progress to a class that does not exist", wanted: "gold", target: "none", state: running},
		{name: "infeasible", wanted: "gold", target: "gold", state: infeasible},
		{name: "cancelled", target: "gold", state: infeasible},
		{name: "another class after an infeasible one", wanted: "gold", target: "bronze", state: infeasible, want: "must be modified to class gold"},
		{name: "class missing", wanted: "none", want: "must be Pending: class none does not exist"},
		{name: "pending", wanted: "none", state: pending},
		{name: "pending, and the class exists", wanted: "gold", state: pending, want: "must be modified to class gold"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newModifyWorld(t, "L18")
			w.request(test.wanted)
			w.status(test.current, test.target, test.state)
			if test.want == "" {
				w.pending()
				return
			}
			w.pending("persistentvolumeclaims/default/data " + test.want + " (L18)")
		})
	}
}
