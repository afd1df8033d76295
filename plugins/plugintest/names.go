package plugintest

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/plugins"
)

// checkNames checks the names of the plugin and of its volumes.
func (c *checker) checkNames() {
	c.inWorld(func(w *world) {
		first := w.Plugin.Name()
		w.wantName(first)
		names := w.volumeNames()
		if w.Restart != nil && w.restart() {
			for i, name := range w.volumeNames() {
				if names != nil && name != names[i] {
					w.problem("VolumeName: changes after a restart", "%q, previously %q", name, names[i])
				}
			}
		}
		w.wantName(first)
	})
}

func (w *world) wantName(first string) {
	if again := w.Plugin.Name(); again != first {
		w.problem("Name: changes between calls", "%q, previously %q", again, first)
	}
}

// volumeNames returns the names of the volumes, or nil if one has no name.
func (w *world) volumeNames() []string {
	var names []string
	owner := map[string]string{}
	for _, spec := range w.Volumes {
		name, ok := w.volumeName(spec)
		if !ok {
			return nil
		}
		for _, same := range sameVolumes(spec) {
			if other, ok := w.volumeName(same); ok && other != name {
				w.problem("VolumeName: differs for the same volume", "%q, previously %q", other, name)
			}
		}
		if other, taken := owner[name]; taken {
			w.problem("VolumeName: same for different volumes", "%q is the name of %s and %s", name, other, spec.Name())
		}
		owner[name] = spec.Name()
		names = append(names, name)
	}
	return names
}

func (w *world) volumeName(spec *plugins.Spec) (name string, ok bool) {
	var err error
	ok = w.ask("VolumeName", func() { name, err = w.Plugin.VolumeName(spec) })
	switch {
	case !ok:
	case err != nil && !w.shared(spec):
		ok = false
	case err != nil:
		w.problem("VolumeName: fails for a supported volume", "%s: %v", spec.Name(), err)
		ok = false
	case name == "":
		w.problem("VolumeName: empty", "for %s", spec.Name())
	}
	return name, ok
}

// shared reports whether a volume needs a name. One that is neither attached nor mounted for a node
// does not.
func (w *world) shared(spec *plugins.Spec) bool {
	attached, mounted := false, false
	var attachErr, mountErr error
	w.ask("CanAttach and CanDeviceMount", func() {
		attached, attachErr = w.caps.Attachable(spec)
		mounted, mountErr = w.caps.DeviceMountable(spec)
	})
	return attached || mounted || attachErr != nil || mountErr != nil
}

// sameVolumes returns a volume as it may be seen later, or for another pod.
func sameVolumes(spec *plugins.Spec) []*plugins.Spec {
	again, readOnly, later := copySpec(spec), copySpec(spec), copySpec(spec)
	readOnly.ReadOnly = !spec.ReadOnly
	if pv := later.PersistentVolume; pv != nil {
		pv.ResourceVersion, pv.Status.Phase, pv.Labels = "123", corev1.VolumeFailed, map[string]string{"plugintest": "later"}
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "plugintest", Name: "later", UID: "later"}
	}
	return []*plugins.Spec{&again, &readOnly, &later}
}

// checkSupport checks which volumes are supported: those of the world, and none of another kind.
func (c *checker) checkSupport() {
	c.inWorld(func(w *world) {
		own := map[string]bool{}
		for _, spec := range w.Volumes {
			own[kindOf(spec)] = true
			for range 2 {
				if !w.supports(spec) {
					w.problem("CanSupport: a volume of its kind is not supported", "%s", spec.Name())
				}
			}
		}
		for _, odd := range oddVolumes() {
			if w.supports(odd.spec) && !own[odd.kind] {
				w.problem("CanSupport: a volume of another kind is supported", "%s", odd.name)
			}
		}
	})
}

func (w *world) supports(spec *plugins.Spec) (can bool) {
	w.ask("CanSupport", func() { can = w.Plugin.CanSupport(spec) })
	return can
}

// checkOddVolumes makes every query about incomplete volumes, and about volumes of another kind.
func (c *checker) checkOddVolumes() {
	c.inWorld(func(w *world) {
		specs := []*plugins.Spec{}
		for _, odd := range oddVolumes() {
			specs = append(specs, odd.spec)
		}
		for _, spec := range w.Volumes {
			bare := copySpec(spec)
			if pv := bare.PersistentVolume; pv != nil {
				pv.Spec = corev1.PersistentVolumeSpec{PersistentVolumeSource: pv.Spec.PersistentVolumeSource}
			}
			specs = append(specs, &bare)
		}
		before := w.resources()
		for _, spec := range specs {
			w.askAll(spec)
		}
		w.wantResources("Plugin: a query has side effects", before)
	})
}

// askAll makes every query about a volume; the answers do not matter.
func (w *world) askAll(spec *plugins.Spec) {
	w.ask("VolumeName of an odd volume", func() { _, _ = w.Plugin.VolumeName(spec) })
	if a := w.caps.Attacher; a != nil {
		w.ask("CanAttach of an odd volume", func() { _, _ = a.CanAttach(spec) })
	}
	if m := w.caps.DeviceMounter; m != nil {
		w.ask("CanDeviceMount of an odd volume", func() { _, _ = m.CanDeviceMount(spec) })
		w.ask("DeviceMountPath of an odd volume", func() { _, _ = m.DeviceMountPath(spec) })
	}
	if d := w.caps.Deleter; d != nil {
		w.ask("CanDelete of an odd volume", func() { _ = d.CanDelete(spec) })
	}
	if v := w.caps.Verifier; v != nil {
		for _, name := range []string{"", "^", "/", "plugintest"} {
			w.ask("LastSeen of an odd name", func() { _ = v.LastSeen(name, "plugintest") })
		}
	}
}

// An odd is a volume with nothing but a kind.
type odd struct {
	name, kind string
	spec       *plugins.Spec
}

// oddVolumes returns a volume of each kind that Kubernetes knows, inline and persistent, with
// nothing filled in.
func oddVolumes() []odd {
	all := []odd{
		{"an empty spec", "", &plugins.Spec{}},
		{"an inline volume of no kind", "", &plugins.Spec{Volume: &corev1.Volume{Name: "odd"}}},
		{"a PersistentVolume of no kind", "", &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{}}},
	}
	inline := reflect.TypeFor[corev1.VolumeSource]()
	for i := range inline.NumField() {
		v := &corev1.Volume{Name: "odd"}
		fill(reflect.ValueOf(&v.VolumeSource).Elem().Field(i))
		kind := inline.Field(i).Name
		all = append(all, odd{"inline " + kind, kind, &plugins.Spec{Volume: v}})
	}
	persistent := reflect.TypeFor[corev1.PersistentVolumeSource]()
	for i := range persistent.NumField() {
		v := &corev1.PersistentVolume{}
		fill(reflect.ValueOf(&v.Spec.PersistentVolumeSource).Elem().Field(i))
		kind := persistent.Field(i).Name
		all = append(all, odd{kind, kind, &plugins.Spec{PersistentVolume: v}})
	}
	return all
}

// fill points a pointer to a new zero value.
func fill(pointer reflect.Value) { pointer.Set(reflect.New(pointer.Type().Elem())) }

// kindOf returns the kind of a volume: the name of the field of its source.
func kindOf(spec *plugins.Spec) string {
	var source reflect.Value
	switch {
	case spec.PersistentVolume != nil:
		source = reflect.ValueOf(spec.PersistentVolume.Spec.PersistentVolumeSource)
	case spec.Volume != nil:
		source = reflect.ValueOf(spec.Volume.VolumeSource)
	default:
		return ""
	}
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			return source.Type().Field(i).Name
		}
	}
	return ""
}
