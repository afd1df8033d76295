package plugintest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// backend is everything outside a model's process: descriptions such as "attached v n", and the
// contents of the recycled volume.
type backend struct {
	there    map[string]bool
	contents []string
	gone     bool // the volume that was recycled
}

func (b *backend) left() ([]string, error) { return slices.Sorted(maps.Keys(b.there)), nil }

// model is a plugin with every capability that keeps the contract, except for one rule.
type model struct {
	c      *sim.Process
	b      *backend
	broken string // the violated rule; "": none
	asked  int    // how often Name was called
}

func (m *model) is(broken string) bool { return m.broken == broken }

// effect leaves the process, and adds or removes something. It ignores the context.
func (m *model) effect(verb, what string, there bool) error {
	return m.c.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: what}, func() trace.Outcome {
		if there {
			m.b.there[what] = true
		} else {
			delete(m.b.there, what)
		}
		return trace.Outcome{}
	}).Err
}

// classify wraps an error with its class.
func (m *model) classify(err error) error {
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case m.is("timeouts are final"):
		return err
	case m.is("timeouts are transient"):
		return &plugins.Error{Class: plugins.Transient, Err: err}
	case code == codes.DeadlineExceeded || code == codes.Unavailable:
		return &plugins.Error{Class: plugins.Uncertain, Err: err}
	default:
		return err
	}
}

func (m *model) Name() string {
	m.asked++
	switch {
	case m.is("name is not qualified"):
		return "a/b/c"
	case m.is("name changes"):
		return fmt.Sprintf("example.com/model-%d", m.asked)
	}
	return "example.com/model"
}

func (m *model) CanSupport(spec *plugins.Spec) bool {
	if m.is("supports all") {
		return true
	}
	if m.is("supports none") {
		return false
	}
	if m.is("panics at odd volumes") {
		return spec.PersistentVolume.Spec.CSI != nil
	}
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil
}

func (m *model) VolumeName(spec *plugins.Spec) (string, error) {
	switch {
	case spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil:
		return "", errors.New("not mine")
	case m.is("volume name depends on read-only") && spec.ReadOnly:
		return spec.PersistentVolume.Spec.CSI.VolumeHandle + "-ro", nil
	case m.is("one volume name for all"):
		return "volume", nil
	case m.is("volume name is empty"):
		return "", nil
	case m.is("volume name fails"):
		return "", errors.New("no name")
	case m.is("volume name depends on the process"):
		return fmt.Sprintf("%s-%p", spec.Name(), m), nil
	case m.is("modifies its arguments"):
		spec.PersistentVolume.Labels = map[string]string{"seen": "yes"}
	}
	return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil
}

func (m *model) CanAttach(*plugins.Spec) (bool, error) {
	if m.is("CanAttach fails") {
		return false, errors.New("unknown")
	}
	return true, nil
}

func attachment(volume string, node types.NodeName) string {
	return "attached " + volume + " " + string(node)
}

func (m *model) Attach(_ context.Context, spec *plugins.Spec, node types.NodeName) (string, error) {
	name, err := m.VolumeName(spec)
	if err != nil {
		return "", err
	}
	what := attachment(name, node)
	if m.is("attaches only once") && m.b.there[what] {
		return "", errors.New("attached already")
	}
	if m.is("never attaches") {
		m.c.Wait("something that never happens", 0, func() bool { return false })
	}
	device := "/dev/" + name
	if m.is("device path changes") && m.b.there[what] {
		device += "-again"
	}
	if m.is("two steps, not to be resumed") && m.b.there["half "+what] {
		return "", errors.New("attaching already")
	}
	if m.is("two steps, undone only when they fail") {
		err := m.effect("Begin", "half "+what, true)
		if err == nil {
			err = m.effect("Attach", what, true)
		}
		delete(m.b.there, "half "+what)
		return device, err
	}
	if strings.HasPrefix(m.broken, "two steps") {
		if err := m.effect("Begin", "half "+what, true); err != nil {
			return "", err
		}
		if err := m.effect("Attach", what, true); err != nil {
			return "", err
		}
		return device, m.effect("End", "half "+what, false)
	}
	return device, m.effect("Attach", what, true)
}

func (m *model) Detach(_ context.Context, name string, node types.NodeName) error {
	what := attachment(name, node)
	switch {
	case m.is("cannot detach a detached volume") && !m.b.there[what]:
		return errors.New("not attached")
	case m.is("does not detach"):
		return nil
	case m.is("detaches from all nodes"):
		maps.DeleteFunc(m.b.there, func(what string, _ bool) bool { return strings.HasPrefix(what, "attached "+name) })
	case m.is("detaches everything from the node"):
		maps.DeleteFunc(m.b.there, func(what string, _ bool) bool { return strings.HasSuffix(what, " "+string(node)) })
	case m.is("two steps, one never undone"), m.is("two steps, undone only when they fail"):
		return m.effect("Detach", what, false)
	}
	if strings.HasPrefix(m.broken, "two steps") {
		if err := m.effect("End", "half "+what, false); err != nil {
			return err
		}
	}
	return m.effect("Detach", what, false)
}

func (m *model) Watched() bool { return false }

func (m *model) LastSeen(name string, node types.NodeName) plugins.AttachState {
	if m.is("LastSeen is always detached") || !m.b.there[attachment(name, node)] {
		return plugins.Detached
	}
	return plugins.Attached
}

func (m *model) Verify(_ context.Context, name string, node types.NodeName) (plugins.AttachState, error) {
	if m.is("Verify has side effects") {
		m.b.there["verified"] = true
	}
	if m.is("Verify is always attached") || m.b.there[attachment(name, node)] {
		return plugins.Attached, nil
	}
	return plugins.Detached, nil
}

func (m *model) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

func (m *model) DeviceMountPath(spec *plugins.Spec) (string, error) {
	name, err := m.VolumeName(spec)
	switch {
	case m.is("one device path for all"):
		name = "volume"
	case m.is("relative device path"):
		return "devices/" + name, err
	}
	return "/devices/" + name, err
}

func (m *model) MountDevice(_ context.Context, spec *plugins.Spec, path string, opts plugins.MountOptions) error {
	devicePath := opts.DevicePath
	if devicePath == "" {
		return &plugins.Error{Class: plugins.Transient, Err: errors.New("no device")}
	}
	if err := m.classify(m.effect("MountDevice", "mount "+path, true)); err != nil {
		if m.is("unmounts a reconstructed device") && opts.Reconstructed {
			delete(m.b.there, "mount "+path)
		}
		if m.is("final error leaves the directory") {
			m.b.there["directory "+path] = true
		}
		return err
	}
	return nil
}

func (m *model) UnmountDevice(_ context.Context, path string) error {
	if m.is("unmounts only once") && !m.b.there["mount "+path] {
		return errors.New("not mounted")
	}
	if m.is("leaves the directory") {
		m.b.there["directory "+path] = true
	} else {
		delete(m.b.there, "directory "+path)
	}
	return m.effect("UnmountDevice", "mount "+path, false)
}

func (m *model) MountPath(specName string, pod types.UID) string {
	if m.is("one path for all pods") {
		pod = "pod"
	}
	return "/pods/" + string(pod) + "/" + specName
}

func (m *model) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, opts plugins.MountOptions) error {
	path := m.MountPath(spec.Name(), pod.UID)
	if m.is("leaks resources if the context is canceled") && ctx.Err() != nil {
		m.b.there["waste"] = true
		return ctx.Err()
	}
	if m.is("SetUp panics") {
		panic("scripted panic")
	}
	name, err := m.VolumeName(spec)
	if err != nil {
		return err
	}
	if m.is("remount adds a mount") && opts.Remount {
		m.b.there["mount "+path+" "+name+" again"] = true
	}
	err = m.classify(m.effect("SetUp", "mount "+path+" "+name, true))
	if err != nil && (m.is("a failed remount unmounts") && opts.Remount || m.is("unmounts a reconstructed volume") && opts.Reconstructed) {
		delete(m.b.there, "mount "+path+" "+name)
	}
	return err
}

func (m *model) VolumeStats(context.Context, string, types.UID) (plugins.Usage, error) {
	switch {
	case m.is("stats have side effects"):
		m.b.there["mark"] = true
	case m.is("stats fail"):
		return plugins.Usage{}, errors.New("no stats")
	case m.is("stats are unsupported"):
		return plugins.Usage{}, plugins.ErrUnsupported
	case m.is("stats are invalid"):
		return plugins.Usage{UsedBytes: -2}, nil
	}
	return plugins.Usage{CapacityBytes: 1, Inodes: -1}, nil
}

func (m *model) TearDown(_ context.Context, specName string, pod types.UID) error {
	path := m.MountPath(specName, pod)
	for what := range maps.Clone(m.b.there) {
		if strings.HasPrefix(what, "mount "+path+" ") || m.is("tears down all pods") && strings.HasPrefix(what, "mount /pods/") {
			if err := m.effect("TearDown", what, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *model) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	for what := range m.b.there {
		if name, ok := strings.CutPrefix(what, "mount "+m.MountPath(specName, pod)+" "); ok {
			switch {
			case m.is("reconstructs another volume"):
				name = "other"
			case m.is("reconstructs another name"):
				specName = "other"
			case m.is("reconstructs another kind"):
				return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{Name: specName}}}, nil
			}
			return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: volume(specName, name)}}, nil
		}
	}
	if m.is("reconstructs a volume that does not exist") {
		return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: volume(specName, "v")}}, nil
	}
	return plugins.Reconstructed{}, fs.ErrNotExist
}

func (m *model) SupportsMountOptions() bool { return false }
func (m *model) CanProvision(plugins.ProvisionOptions) error {
	switch {
	case m.is("will not provision"):
		return errors.New("no")
	case m.is("CanProvision provisions"):
		m.b.there["volume already"] = true
	}
	return nil
}

func (m *model) CanDelete(*plugins.Spec) error {
	if m.is("will not delete") {
		return errors.New("no")
	}
	return nil
}

func (m *model) handle(opts plugins.ProvisionOptions) string {
	return "made-for-" + string(opts.Claim.UID)
}
func (m *model) made(handle string) string { return "volume " + handle }
func (m *model) capacity(of *corev1.PersistentVolumeClaim) corev1.ResourceList {
	if m.is("provisions a volume that is too small") {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1")}
	}
	return of.Spec.Resources.Requests
}

func (m *model) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	handle := m.handle(opts)
	switch {
	case m.is("provisions another volume each time"):
		handle = fmt.Sprintf("%s-%d", handle, len(m.b.there))
	case m.is("provisions one volume for all"):
		handle = "the-volume"
	}
	if err := m.classify(m.effect("Provision", m.made(handle), true)); err != nil {
		return nil, err
	}
	pv := volume(opts.Name, handle)
	pv.Spec.Capacity, pv.Spec.AccessModes = m.capacity(opts.Claim), opts.Claim.Spec.AccessModes
	pv.Spec.PersistentVolumeReclaimPolicy = opts.ReclaimPolicy
	switch {
	case m.is("provisions a volume of another name"):
		pv.Name = "mine"
	case m.is("provisions a volume of another kind"):
		pv.Spec.CSI = nil
	case m.is("provisions a volume that cannot be written to"):
		pv.Spec.AccessModes = nil
	case m.is("provisions a volume that stays"):
		pv.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}
	return pv, nil
}

func (m *model) Delete(_ context.Context, spec *plugins.Spec) error {
	if spec.PersistentVolume.Spec.CSI == nil {
		return nil
	}
	what := m.made(spec.PersistentVolume.Spec.CSI.VolumeHandle)
	switch {
	case m.is("cannot delete a volume that does not exist") && !m.b.there[what]:
		return errors.New("no such volume")
	case m.is("deletes all volumes"):
		maps.DeleteFunc(m.b.there, func(what string, _ bool) bool { return strings.HasPrefix(what, "volume ") })
	}
	return m.effect("Delete", what, false)
}

func (m *model) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	if m.is("recycles without Acquire") {
		m.b.contents = nil
		return nil
	}
	if m.is("recycles before Acquire") {
		m.b.contents = nil
	}
	if err := opts.Acquire("model"); err != nil {
		switch {
		case m.is("recycles after a failed Acquire"):
			m.b.contents = nil
		case m.is("ignores a failed Acquire"):
			return nil
		}
		return err
	}
	switch {
	case m.is("recycling fails"):
		return errors.New("no pods")
	case m.is("recycling leaks resources"):
		m.b.there["pod"], m.b.contents = true, nil
	case m.is("recycles nothing"):
	case m.is("recycling deletes the volume"):
		m.b.gone = true
	default:
		m.b.contents = nil
	}
	return nil
}

var size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func volume(name, handle string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "model", VolumeHandle: handle},
			},
		},
	}
}

// world returns a world with a model.
func world(host sim.Host, broken string) *plugintest.World {
	b := &backend{there: map[string]bool{}}
	begin := func() (*sim.Process, plugins.Plugin) {
		c := host.Process("process")
		return c, &model{c: c, b: b, broken: broken}
	}
	w := &plugintest.World{
		Host: host, Resources: b.left, Nodes: []types.NodeName{"node-1", "node-2"},
		Volumes: []*plugins.Spec{{PersistentVolume: volume("pv-1", "v")}, {PersistentVolume: volume("pv-2", "w")}},
		Pods: []*corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "uid-a"}}, {ObjectMeta: metav1.ObjectMeta{Name: "b", UID: "uid-b"}},
		},
		Provision: &plugins.ProvisionOptions{
			Name: "pvc-1", ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			Claim: &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "claim", UID: "1"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: size},
				},
			},
		},
		Recycle: &plugintest.RecyclableVolume{
			Volume: "pv-1", Spec: &plugins.Spec{PersistentVolume: volume("pv-1", "v")},
			Fill: func() error { b.contents = []string{"file"}; return nil },
			Contents: func() ([]string, error) {
				if b.gone {
					return nil, fs.ErrNotExist
				}
				return b.contents, nil
			},
		},
	}
	w.Process, w.Plugin = begin()
	if stepped, ok := host.(*sim.Stepped); ok {
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			stepped.Crash(w.Process)
			c, p := begin()
			return c, p, nil
		}
	}
	return w
}
