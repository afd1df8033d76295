package plugintest

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/volsim/volsim/plugins"
)

// checkMounts checks where volumes are mounted, and that the mounts of two pods are independent.
func (c *checker) checkMounts() {
	c.inWorld(func(w *world) {
		w.checkDevicePaths()
		w.checkMountPaths()
	})
	c.inWorld(func(w *world) {
		setUp := pairByName("SetUp")
		if _, ok := w.prepared(setUp); !ok || len(w.Pods) < 2 || !w.done(setUp, "") {
			return
		}
		before := w.resources()
		ok, err := w.call("SetUp", func(ctx context.Context) error {
			return w.caps.Mounter.SetUp(ctx, w.Volumes[0], w.Pods[1], w.mountOptions())
		})
		if err != nil || !ok {
			w.problem("SetUp: fails for a second pod on the node", "%v", err)
			return
		}
		_, err = w.call("TearDown", func(ctx context.Context) error {
			return w.caps.Mounter.TearDown(ctx, w.Volumes[0].Name(), w.Pods[1].UID)
		})
		if err != nil {
			w.problem("TearDown: fails for a second pod on the node", "%v", err)
			return
		}
		w.wantResources("TearDown: affects another pod's mount", before)
	})
}

func pairByName(name string) pair {
	for _, p := range pairs {
		if p.do == name {
			return p
		}
	}
	panic("plugintest: no pair " + name)
}

func (w *world) checkDevicePaths() {
	if !pairByName("MountDevice").applies(w) {
		return
	}
	owner := map[string]string{}
	for _, spec := range w.Volumes {
		path, ok := w.deviceMountPath(spec)
		if !ok {
			return
		}
		for _, same := range sameVolumes(spec) {
			if other, ok := w.deviceMountPath(same); ok && other != path {
				w.problem("DeviceMountPath: differs for the same volume", "%q, previously %q", other, path)
			}
		}
		w.wantPath("DeviceMountPath", path, spec.Name(), owner)
	}
}

func (w *world) deviceMountPath(spec *plugins.Spec) (path string, ok bool) {
	var err error
	ok = w.ask("DeviceMountPath", func() { path, err = w.caps.DeviceMounter.DeviceMountPath(spec) })
	if err != nil {
		w.problem("DeviceMountPath: fails for a supported volume", "%s: %v", spec.Name(), err)
	}
	return path, ok && err == nil
}

func (w *world) checkMountPaths() {
	if !pairByName("SetUp").applies(w) {
		return
	}
	owner := map[string]string{}
	for _, spec := range w.Volumes {
		for _, pod := range w.Pods {
			var path, again string
			w.ask("MountPath", func() {
				path, again = w.caps.Mounter.MountPath(spec, pod.UID), w.caps.Mounter.MountPath(spec, pod.UID)
			})
			if again != path {
				w.problem("MountPath: changes between calls", "%q, previously %q", again, path)
			}
			w.wantPath("MountPath", path, spec.Name()+" for "+string(pod.UID), owner)
		}
	}
}

// wantPath checks that a path is absolute and cleaned, and belongs to one mount only.
func (w *world) wantPath(what, path, of string, owner map[string]string) {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path {
		w.problem(what+": not an absolute, cleaned path", "%q", path)
	}
	if other, taken := owner[path]; taken {
		w.problem(what+": same for different mounts", "%q is the path of %s and %s", path, other, of)
	}
	owner[path] = of
}

// checkReconstruction checks that a restarted process can determine from the disk what is mounted.
func (c *checker) checkReconstruction() {
	c.inWorld(func(w *world) {
		if w.caps.Reconstructor == nil {
			return
		}
		setUp := pairByName("SetUp")
		if _, ok := w.prepared(setUp); !ok {
			return
		}
		w.wantNothingReconstructed("before SetUp")
		if !w.done(setUp, "") || w.Restart != nil && !w.restart() {
			return
		}
		before := w.resources()
		w.wantReconstructed()
		w.wantResources("Reconstruct: has side effects", before)
		if w.undone(setUp, "") {
			w.wantNothingReconstructed("after TearDown")
		}
	})
}

func (w *world) reconstruct() (spec *plugins.Spec, err error) {
	w.ask("Reconstruct", func() {
		var reconstructed plugins.Reconstructed
		reconstructed, err = w.caps.Reconstructor.Reconstruct(w.Volumes[0].Name(), w.Pods[0].UID)
		spec = reconstructed.Spec
	})
	return spec, err
}

func (w *world) wantNothingReconstructed(when string) {
	if spec, err := w.reconstruct(); !errors.Is(err, fs.ErrNotExist) {
		w.problem("Reconstruct: does not return fs.ErrNotExist "+when, "%v, %v", spec, err)
	}
}

func (w *world) wantReconstructed() {
	spec, err := w.reconstruct()
	if err != nil || spec == nil {
		w.problem("Reconstruct: fails for a volume that is set up", "%v", err)
		return
	}
	of := w.Volumes[0]
	if spec.Name() != of.Name() {
		w.problem("Reconstruct: wrong name", "%q, want %q", spec.Name(), of.Name())
	}
	if !w.supports(spec) {
		w.problem("Reconstruct: returns an unsupported volume", "")
		return
	}
	want, _ := w.volumeName(of)
	if got, ok := w.volumeName(spec); ok && got != want {
		w.problem("Reconstruct: wrong VolumeName", "%q, want %q", got, want)
	}
	if !w.can("CanDeviceMount", w.caps.DeviceMountable) {
		return
	}
	want, _ = w.deviceMountPath(of)
	if got, ok := w.deviceMountPath(spec); ok && got != want {
		w.problem("Reconstruct: wrong DeviceMountPath", "%q, want %q", got, want)
	}
}
