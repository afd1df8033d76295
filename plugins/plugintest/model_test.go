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
	exists   map[string]bool
	contents []string
	gone     bool // the volume that was recycled
}

func (b *backend) left() ([]string, error) { return slices.Sorted(maps.Keys(b.exists)), nil }

// model is a plugin with every capability that keeps the contract, except for one rule.
type model struct {
	c      *sim.Process
	b      *backend
	broken string // the violated rule; "": none
	asked  int    // how often Name was called
}

func (m *model) breaks(rule string) bool { return m.broken == rule }

// effect leaves the process, and adds or removes something. It ignores the context.
func (m *model) effect(verb, what string, exists bool) error {
	return m.c.Call(trace.Action{Kind: trace.KindDriver, Verb: verb, Object: what}, func() trace.Outcome {
		if exists {
			m.b.exists[what] = true
		} else {
			delete(m.b.exists, what)
		}
		return trace.Outcome{}
	}).Err
}

// classify wraps an error with its class.
func (m *model) classify(err error) error {
	switch code := status.Code(err); {
	case err == nil:
		return nil
	case m.breaks("timeouts are final"):
		return err
	case m.breaks("timeouts are transient"):
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
	case m.breaks("name is not qualified"):
		return "a/b/c"
	case m.breaks("name changes"):
		return fmt.Sprintf("example.com/model-%d", m.asked)
	}
	return "example.com/model"
}

func (m *model) CanSupport(spec *plugins.Spec) bool {
	if m.breaks("supports all") {
		return true
	}
	if m.breaks("supports none") {
		return false
	}
	if m.breaks("panics at odd volumes") {
		return spec.PersistentVolume.Spec.CSI != nil
	}
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.CSI != nil
}

func (m *model) VolumeName(spec *plugins.Spec) (string, error) {
	switch {
	case spec.PersistentVolume == nil || spec.PersistentVolume.Spec.CSI == nil:
		return "", errors.New("not mine")
	case m.breaks("volume name depends on read-only") && spec.ReadOnly:
		return spec.PersistentVolume.Spec.CSI.VolumeHandle + "-ro", nil
	case m.breaks("one volume name for all"):
		return "volume", nil
	case m.breaks("volume name is empty"):
		return "", nil
	case m.breaks("volume name fails"):
		return "", errors.New("no name")
	case m.breaks("volume name depends on the process"):
		return fmt.Sprintf("%s-%p", spec.Name(), m), nil
	case m.breaks("modifies its arguments"):
		spec.PersistentVolume.Labels = map[string]string{"seen": "yes"}
	}
	return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil
}

func (m *model) CanAttach(*plugins.Spec) (bool, error) {
	if m.breaks("CanAttach fails") {
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
	if m.breaks("attaches only once") && m.b.exists[what] {
		return "", errors.New("attached already")
	}
	if m.breaks("never attaches") {
		m.c.Wait("something that never happens", 0, func() bool { return false })
	}
	device := "/dev/" + name
	if m.breaks("device path changes") && m.b.exists[what] {
		device += "-again"
	}
	if m.breaks("two steps, not to be resumed") && m.b.exists["half "+what] {
		return "", errors.New("attaching already")
	}
	if m.breaks("two steps, undone only when they fail") {
		err := m.effect("Begin", "half "+what, true)
		if err == nil {
			err = m.effect("Attach", what, true)
		}
		delete(m.b.exists, "half "+what)
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
	case m.breaks("cannot detach a detached volume") && !m.b.exists[what]:
		return errors.New("not attached")
	case m.breaks("does not detach"):
		return nil
	case m.breaks("detaches from all nodes"):
		maps.DeleteFunc(m.b.exists, func(what string, _ bool) bool { return strings.HasPrefix(what, "attached "+name) })
	case m.breaks("detaches everything from the node"):
		maps.DeleteFunc(m.b.exists, func(what string, _ bool) bool { return strings.HasSuffix(what, " "+string(node)) })
	case m.breaks("two steps, one never undone"), m.breaks("two steps, undone only when they fail"):
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
	if m.breaks("LastSeen is always detached") || !m.b.exists[attachment(name, node)] {
		return plugins.Detached
	}
	return plugins.Attached
}

func (m *model) Verify(
	_ context.Context, _ *plugins.Spec, name string, node types.NodeName,
) (plugins.AttachState, error) {
	if m.breaks("Verify has side effects") {
		m.b.exists["verified"] = true
	}
	if m.breaks("Verify is always attached") || m.b.exists[attachment(name, node)] {
		return plugins.Attached, nil
	}
	return plugins.Detached, nil
}

func (m *model) CanDeviceMount(*plugins.Spec) (bool, error) { return true, nil }

func (m *model) DeviceMountPath(spec *plugins.Spec) (string, error) {
	name, err := m.VolumeName(spec)
	switch {
	case m.breaks("one device path for all"):
		name = "volume"
	case m.breaks("relative device path"):
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
		if m.breaks("unmounts a reconstructed device") && opts.Reconstructed {
			delete(m.b.exists, "mount "+path)
		}
		if m.breaks("final error leaves the directory") {
			m.b.exists["directory "+path] = true
		}
		return err
	}
	return nil
}

func (m *model) UnmountDevice(_ context.Context, path string) error {
	if m.breaks("unmounts only once") && !m.b.exists["mount "+path] {
		return errors.New("not mounted")
	}
	if m.breaks("leaves the directory") {
		m.b.exists["directory "+path] = true
	} else {
		delete(m.b.exists, "directory "+path)
	}
	return m.effect("UnmountDevice", "mount "+path, false)
}

func (m *model) MountPath(spec *plugins.Spec, pod types.UID) string {
	return m.mountPath(spec.Name(), pod)
}

func (m *model) mountPath(specName string, pod types.UID) string {
	if m.breaks("one path for all pods") {
		pod = "pod"
	}
	return "/pods/" + string(pod) + "/" + specName
}

func (m *model) SetUp(ctx context.Context, spec *plugins.Spec, pod *corev1.Pod, opts plugins.MountOptions) error {
	path := m.MountPath(spec, pod.UID)
	if m.breaks("leaks resources if the context is canceled") && ctx.Err() != nil {
		m.b.exists["waste"] = true
		return ctx.Err()
	}
	if m.breaks("SetUp panics") {
		panic("scripted panic")
	}
	name, err := m.VolumeName(spec)
	if err != nil {
		return err
	}
	if m.breaks("remount adds a mount") && opts.Remount {
		m.b.exists["mount "+path+" "+name+" again"] = true
	}
	err = m.classify(m.effect("SetUp", "mount "+path+" "+name, true))
	if err != nil && (m.breaks("a failed remount unmounts") && opts.Remount || m.breaks("unmounts a reconstructed volume") && opts.Reconstructed) {
		delete(m.b.exists, "mount "+path+" "+name)
	}
	return err
}

func (m *model) VolumeStats(context.Context, string, types.UID) (plugins.Usage, error) {
	switch {
	case m.breaks("stats have side effects"):
		m.b.exists["mark"] = true
	case m.breaks("stats fail"):
		return plugins.Usage{}, errors.New("no stats")
	case m.breaks("stats are unsupported"):
		return plugins.Usage{}, plugins.ErrUnsupported
	case m.breaks("stats are invalid"):
		return plugins.Usage{UsedBytes: -2}, nil
	}
	return plugins.Usage{CapacityBytes: 1, Inodes: -1}, nil
}

func (m *model) TearDown(_ context.Context, specName string, pod types.UID) error {
	path := m.mountPath(specName, pod)
	for what := range maps.Clone(m.b.exists) {
		if strings.HasPrefix(what, "mount "+path+" ") || m.breaks("tears down all pods") && strings.HasPrefix(what,
			"mount /pods/") {
			if err := m.effect("TearDown", what, false); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *model) Reconstruct(specName string, pod types.UID) (plugins.Reconstructed, error) {
	for what := range m.b.exists {
		if name, ok := strings.CutPrefix(what, "mount "+m.mountPath(specName, pod)+" "); ok {
			switch {
			case m.breaks("reconstructs another volume"):
				name = "other"
			case m.breaks("reconstructs another name"):
				specName = "other"
			case m.breaks("reconstructs another kind"):
				return plugins.Reconstructed{Spec: &plugins.Spec{Volume: &corev1.Volume{Name: specName}}}, nil
			}
			return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: volume(specName, name)}}, nil
		}
	}
	if m.breaks("reconstructs a volume that does not exist") {
		return plugins.Reconstructed{Spec: &plugins.Spec{PersistentVolume: volume(specName, "v")}}, nil
	}
	return plugins.Reconstructed{}, fs.ErrNotExist
}

func (m *model) SupportsMountOptions() bool { return false }
func (m *model) CanProvision(plugins.ProvisionOptions) error {
	switch {
	case m.breaks("will not provision"):
		return errors.New("no")
	case m.breaks("CanProvision provisions"):
		m.b.exists["volume already"] = true
	}
	return nil
}

func (m *model) CanDelete(*plugins.Spec) error {
	if m.breaks("will not delete") {
		return errors.New("no")
	}
	return nil
}

func (m *model) handle(opts plugins.ProvisionOptions) string {
	return "made-for-" + string(opts.Claim.UID)
}
func (m *model) made(handle string) string { return "volume " + handle }
func (m *model) capacity(of *corev1.PersistentVolumeClaim) corev1.ResourceList {
	if m.breaks("provisions a volume that is too small") {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1")}
	}
	return of.Spec.Resources.Requests
}

func (m *model) Provision(_ context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	handle := m.handle(opts)
	switch {
	case m.breaks("provisions another volume each time"):
		handle = fmt.Sprintf("%s-%d", handle, len(m.b.exists))
	case m.breaks("provisions one volume for all"):
		handle = "the-volume"
	}
	if err := m.classify(m.effect("Provision", m.made(handle), true)); err != nil {
		return nil, err
	}
	pv := volume(opts.Name, handle)
	pv.Spec.Capacity, pv.Spec.AccessModes = m.capacity(opts.Claim), opts.Claim.Spec.AccessModes
	pv.Spec.PersistentVolumeReclaimPolicy = opts.ReclaimPolicy
	switch {
	case m.breaks("provisions a volume of another name"):
		pv.Name = "mine"
	case m.breaks("provisions a volume of another kind"):
		pv.Spec.CSI = nil
	case m.breaks("provisions a volume that cannot be written to"):
		pv.Spec.AccessModes = nil
	case m.breaks("provisions a volume that stays"):
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
	case m.breaks("cannot delete a volume that does not exist") && !m.b.exists[what]:
		return errors.New("no such volume")
	case m.breaks("deletes all volumes"):
		maps.DeleteFunc(m.b.exists, func(what string, _ bool) bool { return strings.HasPrefix(what, "volume ") })
	}
	return m.effect("Delete", what, false)
}

func (m *model) Recycle(_ context.Context, opts plugins.RecycleOptions) error {
	if m.breaks("recycles without Acquire") {
		m.b.contents = nil
		return nil
	}
	if m.breaks("recycles before Acquire") {
		m.b.contents = nil
	}
	if err := opts.Acquire("model"); err != nil {
		switch {
		case m.breaks("recycles after a failed Acquire"):
			m.b.contents = nil
		case m.breaks("ignores a failed Acquire"):
			return nil
		}
		return err
	}
	switch {
	case m.breaks("recycling fails"):
		return errors.New("no pods")
	case m.breaks("recycling leaks resources"):
		m.b.exists["pod"], m.b.contents = true, nil
	case m.breaks("recycles nothing"):
	case m.breaks("recycling deletes the volume"):
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
	b := &backend{exists: map[string]bool{}}
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
