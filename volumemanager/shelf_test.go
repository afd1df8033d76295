package volumemanager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// shelfName is the name of the plugin of these tests.
const shelfName = "example.com/shelf"

// shelf is a plugin. Each of its calls leaves the process twice: before its effect and after it.
type shelf struct {
	c *sim.Process
	b *backend
}

var (
	_ plugins.Plugin        = shelf{}
	_ plugins.Attacher      = shelf{}
	_ plugins.DeviceMounter = shelf{}
	_ plugins.Mounter       = shelf{}

	_ plugins.SELinuxMounter = shelf{}
	_ plugins.NodeExpander   = shelf{}
	_ plugins.Reconstructor  = shelf{}

	_ plugins.DeviceReconstructor = shelf{}
)

// backend has the actual attachments and mounts of the node, and checks each call.
type backend struct {
	attachable, stages bool
	expands            bool // with node expansion
	mountOptions       bool // with mount options

	attached map[string]bool               // volumes
	devices  map[string]bool               // mounted devices
	pods     map[string]map[types.UID]bool // mounted for pods

	disk       *nodefs.Memory  // of the node
	unreadable map[string]bool // volumes that cannot be reconstructed

	faults []fault
	begun  int      // number of started calls
	calls  []string // with their times
	wrong  []string // violations
	labels []string // labels of MountDevice
	staged string   // the label recorded next to the device mount
	given  string   // the label recorded next to a pod's mount

	selinuxMount bool // volumes of all access modes are mounted with labels

	now      func() string
	reported func() []corev1.UniqueVolumeName // node.status.volumesInUse, as the API server has it
	owns     func(types.UID) bool             // whether the manager knows of a mount of a pod
	inspect  func()                           // checks further conditions at each step; may be nil
}

// fault makes the next matching call fail.
type fault struct {
	call  string // such as "SetUp disk-1 a"
	err   error
	after bool // the call takes effect
}

func (shelf) Name() string { return shelfName }

func (shelf) CanSupport(spec *plugins.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil
}

func (shelf) VolumeName(spec *plugins.Spec) (string, error) {
	return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil
}

func (s shelf) CanAttach(*plugins.Spec) (bool, error)      { return s.b.attachable, nil }
func (s shelf) CanDeviceMount(*plugins.Spec) (bool, error) { return s.b.stages, nil }

func (shelf) Attach(context.Context, *plugins.Spec, types.NodeName) (string, error) {
	panic("a kubelet does not attach")
}

func (shelf) Detach(context.Context, string, types.NodeName) error {
	panic("a kubelet does not detach")
}

func (shelf) DeviceMountPath(spec *plugins.Spec) (string, error) {
	return "/devices/" + spec.Name(), nil
}

func (s shelf) MountDevice(_ context.Context, spec *plugins.Spec, path string, use plugins.MountOptions) error {
	devicePath := use.DevicePath
	s.b.labels = append(s.b.labels, use.SELinuxLabel)
	s.b.staged = use.SELinuxLabel
	return s.call("MountDevice", spec.Name(), "",
		func() { s.b.mountDevice(spec.Name(), devicePath, path) }, func() { delete(s.b.devices, spec.Name()) })
}

func (s shelf) UnmountDevice(_ context.Context, path string) error {
	name := path[len("/devices/"):]
	return s.call("UnmountDevice", name, "", func() { s.b.unmountDevice(name) }, func() {})
}

func (shelf) SupportsSELinuxContextMount(*plugins.Spec) (bool, error) { return true, nil }

func (shelf) MountPath(spec *plugins.Spec, pod types.UID) string {
	return "/pods/" + string(pod) + "/" + spec.Name()
}

func (s shelf) SetUp(_ context.Context, spec *plugins.Spec, pod *corev1.Pod, use plugins.MountOptions) error {
	devicePath := use.DevicePath
	s.b.given = use.SELinuxLabel
	dir := podVolumeDir(pod.UID, spec.Name())
	if err := s.b.disk.MkdirAll(dir); err != nil {
		return err
	}
	undo := func() {
		delete(s.b.pods[spec.Name()], pod.UID)
		s.b.removeDir(dir)
	}
	if use.Remount || use.Reconstructed {
		undo = func() {}
	}
	return s.call("SetUp", spec.Name(), pod.UID, func() { s.b.setUp(spec.Name(), pod.UID, devicePath) }, undo)
}

func (s shelf) TearDown(_ context.Context, specName string, pod types.UID) error {
	return s.call("TearDown", specName, pod, func() {
		delete(s.b.pods[specName], pod)
		s.b.removeDir(podVolumeDir(pod, specName))
	}, func() {})
}

// podVolumeDir returns the directory of a pod's volume.
func podVolumeDir(pod types.UID, specName string) string {
	return filepath.Join(diskRoot, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(shelfName), specName)
}

func (s shelf) Reconstruct(specName string, _ types.UID) (plugins.Reconstructed, error) {
	if s.b.unreadable[specName] {
		return plugins.Reconstructed{}, errors.New("cannot be reconstructed")
	}
	return plugins.Reconstructed{Spec: foundSpec(specName), SELinuxLabel: s.b.given}, nil
}

func (s shelf) ReconstructDevices() ([]plugins.ReconstructedDevice, error) {
	var found []plugins.ReconstructedDevice
	for _, name := range slices.Sorted(maps.Keys(s.b.devices)) {
		device := plugins.ReconstructedDevice{Path: "/devices/" + name, SELinuxLabel: s.b.staged}
		if !s.b.unreadable[name] {
			device.Spec = foundSpec(name)
		}
		found = append(found, device)
	}
	return found, nil
}

// foundSpec returns the reconstructed spec of a volume.
func foundSpec(name string) *plugins.Spec {
	return &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{
			CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com", VolumeHandle: name},
		}},
	}}
}

func (b *backend) removeDir(dir string) {
	if err := b.disk.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.blame("%v", err)
	}
}

func (s shelf) RequiresFSResize() bool { return s.b.expands }

func (s shelf) SupportsMountOption() bool { return s.b.mountOptions }

func (s shelf) NodeExpand(_ context.Context, growth plugins.ExpandOptions) error {
	return s.call("NodeExpand", growth.Spec.Name()+" "+growth.OldSize.String()+" to "+growth.NewSize.String(),
		growth.Pod, func() {}, func() {})
}

// call applies an effect, or none; a final error undoes it.
func (s shelf) call(verb, volume string, pod types.UID, effect, undo func()) error {
	what := verb + " " + volume
	if pod != "" {
		what += " " + string(pod)
	}
	s.b.begun++
	var err error
	s.c.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: what}, func() trace.Outcome {
		err = s.b.perform(what, effect, undo)
		return trace.Outcome{Err: err}
	})
	s.c.Call(trace.Action{Kind: trace.KindDriver, Verb: "return", Object: what},
		func() trace.Outcome { return trace.Outcome{} })
	return err
}

func (b *backend) perform(what string, effect, undo func()) error {
	defer b.judge()
	i := slices.IndexFunc(b.faults, func(f fault) bool { return f.call == what })
	if i < 0 {
		b.calls = append(b.calls, b.now()+" "+what)
		effect()
		return nil
	}
	f := b.faults[i]
	b.faults = slices.Delete(b.faults, i, i+1)
	b.calls = append(b.calls, fmt.Sprintf("%s %s: %v", b.now(), what, f.err))
	switch {
	case f.after:
		effect()
	case plugins.ClassOf(f.err) == plugins.Final:
		undo()
	}
	return f.err
}

func (b *backend) mountDevice(volume, devicePath, path string) {
	b.expectDevicePath(volume, devicePath)
	if path != "/devices/"+volume {
		b.blame("device of %s is mounted at %s", volume, path)
	}
	if b.attachable && !b.attached[volume] {
		b.blame("I17: device of %s is mounted, and it is not attached", volume)
	}
	b.devices[volume] = true
}

func (b *backend) unmountDevice(volume string) {
	if len(b.pods[volume]) > 0 {
		b.blame("I17: device of %s is unmounted, which pods have mounted: %v", volume, b.podsOf(volume))
	}
	delete(b.devices, volume)
}

func (b *backend) setUp(volume string, pod types.UID, devicePath string) {
	b.expectDevicePath(volume, devicePath)
	switch {
	case b.stages && !b.devices[volume]:
		b.blame("I17: %s is mounted for %s before its device", volume, pod)
	case b.attachable && !b.attached[volume]:
		b.blame("I17: %s is mounted for %s, and it is not attached", volume, pod)
	}
	if b.pods[volume] == nil {
		b.pods[volume] = map[types.UID]bool{}
	}
	b.pods[volume][pod] = true
}

func (b *backend) expectDevicePath(volume, got string) {
	if b.attachable && got != "/dev/"+volume {
		b.blame("device path of %s is %q", volume, got)
	}
}

// detach detaches a volume from the node.
func (b *backend) detach(volume string) {
	if b.uses(volume) {
		b.blame("I16: %s is detached, and it is mounted", volume)
	}
	delete(b.attached, volume)
}

func (b *backend) uses(volume string) bool { return b.devices[volume] || len(b.pods[volume]) > 0 }

// judge checks each step: volumesInUse lists each mounted volume (I36), and the manager knows of
// every mount of a pod.
func (b *backend) judge() {
	for _, volume := range slices.Sorted(maps.Keys(b.attached)) {
		if b.attachable && b.uses(volume) && !slices.Contains(b.reported(), unique(volume)) {
			b.blame("I36: %s is mounted and not in volumesInUse", volume)
		}
	}
	for _, volume := range slices.Sorted(maps.Keys(b.pods)) {
		for _, pod := range b.podsOf(volume) {
			if !b.owns(pod) {
				b.blame("%s is mounted for %s, and the manager says that the pod has no volumes", volume, pod)
			}
		}
	}
	if b.inspect != nil {
		b.inspect()
	}
}

func (b *backend) blame(format string, args ...any) {
	b.wrong = append(b.wrong, b.now()+" "+fmt.Sprintf(format, args...))
}

func (b *backend) podsOf(volume string) []types.UID { return slices.Sorted(maps.Keys(b.pods[volume])) }

// mounts returns all mounts.
func (b *backend) mounts() []string {
	all := slices.Sorted(maps.Keys(b.devices))
	for _, volume := range slices.Sorted(maps.Keys(b.pods)) {
		for _, pod := range b.podsOf(volume) {
			all = append(all, volume+" "+string(pod))
		}
	}
	return all
}

func unique(volume string) corev1.UniqueVolumeName {
	return plugins.UniqueVolumeName(shelfName, volume)
}

var (
	errFinal     = errors.New("broken")
	errTransient = &plugins.Error{Class: plugins.Transient, Err: errors.New("not yet")}
	errUncertain = &plugins.Error{Class: plugins.Uncertain, Err: errors.New("no answer")}
)
