package invariant

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about VolumeAttributesClasses. They begin with the first class.
var attributesRules = []builtIn{
	{"I63", "a volume without the attributes that its claim's status says", attributesRule(beginAttributes)},
	{"L18", "a modification that does not end", attributesRule(beginModified)},
}

// aboutAttributes is the subject of these rules.
var aboutAttributes = subject{"volumeattributesclasses"}

// attributesRule defers the begin of a rule until the world has a VolumeAttributesClass.
func attributesRule(begin func(c *Checker) watcher) func(c *Checker) watcher {
	return func(*Checker) watcher { return watcher{later: later{&aboutAttributes, begin}} }
}

// attributes is I63. It has no state.
type attributes struct{ c *Checker }

// beginAttributes checks that a volume at the driver has the parameters of a class when its claim or
// its PersistentVolume says so, and that the PersistentVolume says so before the claim does. The
// driver must not modify a volume unless the claim's status names the class as the target of a
// modification in progress: after a crash nothing else tells which class the volume may have.
func beginAttributes(c *Checker) watcher {
	a := attributes{c}
	return watcher{
		call:    a.call,
		commits: claimsAndVolumes,
		commit: func(e fake.Commit) {
			switch after := e.After.(type) {
			case *corev1.PersistentVolumeClaim:
				if before, ok := e.Before.(*corev1.PersistentVolumeClaim); ok && e.Type == "MODIFIED" {
					a.claim(before, after)
				}
			case *corev1.PersistentVolume:
				before, _ := e.Before.(*corev1.PersistentVolume)
				if e.Type != "DELETED" {
					a.volume(before, after)
				}
			}
		},
	}
}

// claim checks a claim whose modification has ended.
func (a attributes) claim(was, is *corev1.PersistentVolumeClaim) {
	class := ptr.Deref(is.Status.CurrentVolumeAttributesClassName, "")
	if was.Status.ModifyVolumeStatus == nil || is.Status.ModifyVolumeStatus != nil || class == "" {
		return
	}
	v := csiVolumeNamed(a.c.API, is.Spec.VolumeName)
	if v == nil {
		return
	}
	if has := ptr.Deref(v.Spec.VolumeAttributesClassName, ""); has != class {
		a.c.report("I63", "claim %s/%s says that its volume has the attributes of class %s, and volume %s says %q",
			is.Namespace, is.Name, class, v.Name, has)
	}
	if why := a.lacks(v, class); why != "" {
		a.c.report("I63", "claim %s/%s says that its volume has the attributes of class %s, but %s", is.Namespace, is.Name, class, why)
	}
}

// volume checks a volume that gets a class. A user may create one with any.
func (a attributes) volume(was, is *corev1.PersistentVolume) {
	class := ptr.Deref(is.Spec.VolumeAttributesClassName, "")
	made := is.Annotations[provisionedBy] != "" && is.Spec.CSI != nil
	if !made || class == "" || was != nil && ptr.Deref(was.Spec.VolumeAttributesClassName, "") == class {
		return
	}
	if why := a.lacks(is, class); why != "" {
		a.c.report("I63", "volume %s says that it has the attributes of class %s, but %s", is.Name, class, why)
	}
}

// lacks returns in words which parameter of a class a volume lacks at the driver; "" if none, or if
// that is not known.
func (a attributes) lacks(v *corev1.PersistentVolume, class string) string {
	made, known := a.c.held(v)
	obj, exists := a.c.API.Get("volumeattributesclasses", "", class)
	if !known || !exists || made.Attributes == nil {
		return ""
	}
	parameters := obj.(*storagev1.VolumeAttributesClass).Parameters
	for _, key := range slices.Sorted(maps.Keys(parameters)) {
		if has := made.Attributes[key]; has != parameters[key] {
			return fmt.Sprintf("%s of %s is %q at the driver, not %q", key, made.Handle, has, parameters[key])
		}
	}
	return ""
}

// call checks a call that has modified a volume.
func (a attributes) call(r trace.Record) {
	if r.Verb != "ControllerModifyVolume" || !tookEffect(r) {
		return
	}
	claim, v := a.claimOfHandle(r.Object)
	if claim == nil {
		return
	}
	status := claim.Status.ModifyVolumeStatus
	if status == nil || status.Status != corev1.PersistentVolumeClaimModifyVolumeInProgress {
		a.c.report("I63", "volume %s is modified, and claim %s/%s does not say so", v.Name, claim.Namespace, claim.Name)
		return
	}
	if why := a.lacks(v, status.TargetVolumeAttributesClassName); why != "" {
		a.c.report("I63", "volume %s is modified, and not to class %s as claim %s/%s says: %s", v.Name,
			status.TargetVolumeAttributesClassName, claim.Namespace, claim.Name, why)
	}
}

// claimOfHandle returns the claim that is bound to the volume of a handleKey, and that volume; nil if
// there is none.
func (a attributes) claimOfHandle(key string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	for _, obj := range a.c.API.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		if handleKey(v) == key && v.Spec.ClaimRef != nil {
			return a.c.claimOfRef(v.Spec.ClaimRef), v
		}
	}
	return nil, nil
}

// beginModified checks that, at rest, the volume of each bound claim has the requested class, that
// the driver has refused that class, or that the class does not exist. A modification that is in
// progress must end even if its class is not requested any longer.
func beginModified(c *Checker) watcher {
	return watcher{rest: func(report func(object, why string)) {
		for _, obj := range c.API.List("persistentvolumeclaims") {
			claim := obj.(*corev1.PersistentVolumeClaim)
			v := csiVolumeNamed(c.API, claim.Spec.VolumeName)
			if claim.Status.Phase != corev1.ClaimBound || v == nil || c.backend(v.Spec.CSI.Driver) == nil {
				continue
			}
			if why := c.pendingModification(claim); why != "" {
				report("persistentvolumeclaims/"+claim.Namespace+"/"+claim.Name, why)
			}
		}
	}}
}

// pendingModification returns what must become of a bound claim's class; "" if nothing.
func (c *Checker) pendingModification(claim *corev1.PersistentVolumeClaim) string {
	wanted, current := ptr.Deref(claim.Spec.VolumeAttributesClassName, ""), ptr.Deref(claim.Status.CurrentVolumeAttributesClassName, "")
	status := ptr.Deref(claim.Status.ModifyVolumeStatus, corev1.ModifyVolumeStatus{})
	target := status.TargetVolumeAttributesClassName
	switch {
	case status.Status == corev1.PersistentVolumeClaimModifyVolumeInProgress:
		if c.hasAttributesClass(target) {
			return fmt.Sprintf("is being modified to class %s, and that must end", target)
		}
	case wanted == "", wanted == current && status.Status == "":
	case !c.hasAttributesClass(wanted):
		if status.Status != corev1.PersistentVolumeClaimModifyVolumePending {
			return fmt.Sprintf("must be Pending: class %s does not exist", wanted)
		}
	case status.Status != corev1.PersistentVolumeClaimModifyVolumeInfeasible || target != wanted:
		return "must be modified to class " + wanted
	}
	return ""
}

func (c *Checker) hasAttributesClass(name string) bool {
	_, exists := c.API.Get("volumeattributesclasses", "", name)
	return exists
}
