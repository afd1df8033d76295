package csi_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const (
	root   = "/var/lib/kubelet"
	node1  = "node-1"
	podUID = types.UID("uid-1")
)

// world is an API server and one process with the plugin, on a stepped host.
type world struct {
	*testworld.World
	process *sim.Process
	plugin  *csi.Plugin
	disk    *nodefs.Memory
	conn    *faulty                             // to the driver that was added
	driver  string                              // its name
	sockets map[string]grpc.ClientConnInterface // where drivers serve that register
}

// newWorld returns a process with everything that a controller and a kubelet configure.
func newWorld(t *testing.T, configure ...func(*csi.Config)) *world {
	t.Helper()
	w := &world{
		World: testworld.New(t, sim.SteppedConfig{}), disk: nodefs.NewMemory(root),
		sockets: map[string]grpc.ClientConnInterface{},
	}
	w.process = w.Host.Process("process")
	storage, core := w.Server.Informers(w.process).Storage().V1(), w.Server.Informers(w.process).Core().V1()
	cfg := csi.Config{
		Process: w.process, Client: w.Server.Client(w.process),
		CSIDrivers: storage.CSIDrivers(), Attachments: storage.VolumeAttachments(),
		PersistentVolumes: core.PersistentVolumes(),
		NodeName:          node1, Root: root, FS: w.disk,
		Dial: func(driver, endpoint string) (grpc.ClientConnInterface, error) {
			conn, there := w.sockets[endpoint]
			if !there {
				return nil, errPipe
			}
			return csi.Suspend(w.process, driver, conn), nil
		},
	}
	for _, f := range configure {
		f(&cfg)
	}
	w.plugin = csi.New(cfg)
	_, err := w.User.CoreV1().Nodes().Create(context.Background(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node1}}, metav1.CreateOptions{})
	w.NoError(err)
	w.Run()
	return w
}

// operation is a call of the plugin in a task of the process.
type operation struct {
	done bool
	err  error
}

// begin calls the plugin in a new task.
func (w *world) begin(call func(ctx context.Context) error) *operation {
	o := &operation{}
	w.process.Spawn("operation", func(ctx context.Context) {
		o.err = call(ctx)
		o.done = true
	})
	return o
}

// do calls the plugin and returns its error once the world is at rest.
func (w *world) do(call func(ctx context.Context) error) error {
	w.Helper()
	o := w.begin(call)
	w.Run()
	if !o.done {
		w.Fatalf("the operation has not ended; waiting: %v\n%s", w.Host.Waiting(), w.Host.Log().Text())
	}
	return o.err
}

// upTo runs the world until the operation is about to make a call that begins with the given words.
func (w *world) upTo(action string) {
	w.Helper()
	w.Until(action, func() bool {
		return slices.ContainsFunc(w.Host.Enabled(),
			func(s string) bool { return strings.HasPrefix(s, "process/operation: "+action) })
	})
}

// class checks the class of an error.
func (w *world) class(what string, err error, want plugins.Class) {
	w.Helper()
	if err == nil || plugins.ClassOf(err) != want {
		w.Errorf("%s: %v, which is %v; want an error that is %v", what, err, plugins.ClassOf(err), want)
	}
}

// calls returns the process's actions of a kind so far: verbs, with ! for failures.
func (w *world) calls(kind trace.Kind) []string {
	var verbs []string
	for _, r := range w.Host.Log().Records() {
		if r.Kind != kind || r.Task == "user" {
			continue
		}
		verb := r.Verb
		if r.Failed() {
			verb += "!"
		}
		verbs = append(verbs, verb)
	}
	return verbs
}

// leaves returns the files, mounts and empty directories of the node's disk, below the root.
func (w *world) leaves() []string {
	w.Helper()
	mounts, devices := map[string]string{}, map[string]bool{}
	all, err := w.disk.Mounts()
	w.NoError(err)
	for _, m := range all {
		mounts[m.Path], devices[m.Path] = " <- "+m.Source, m.FSType == "devtmpfs"
		if m.ReadOnly {
			mounts[m.Path] += " ro"
		}
	}
	var lines []string
	var walk func(dir string)
	walk = func(dir string) {
		names, err := w.disk.ReadDir(dir)
		w.NoError(err)
		shown := strings.TrimPrefix(dir, root+"/")
		if source, mounted := mounts[dir]; mounted || len(names) == 0 && dir != root {
			lines = append(lines, shown+"/"+source)
			return
		}
		for _, name := range names {
			if file := path.Join(dir, name); devices[file] {
				lines = append(lines, shown+"/"+name+mounts[file])
				continue
			}
			if content, err := w.disk.ReadFile(path.Join(dir, name)); err == nil {
				lines = append(lines, shown+"/"+name+" "+string(content))
				continue
			}
			walk(path.Join(dir, name))
		}
	}
	walk(root)
	return lines
}

// add registers a driver with the plugin.
func (w *world) add(name string, register csi.RegisterFunc) {
	w.Helper()
	w.driver = name
	w.conn = &faulty{ClientConnInterface: csi.Direct(register)}
	w.NoError(w.do(func(ctx context.Context) error {
		_, err := w.plugin.AddDriver(ctx, name, csi.Suspend(w.process, name, w.conn))
		return err
	}))
}

// disk is a volume of the array that is attached to the node.
type disk struct {
	*world
	handle string
	sha    string // of the handle
	spec   *plugins.Spec
	pod    *corev1.Pod
	use    plugins.MountOptions
}

// arrayDisk returns a world with the array driver and a volume of it, attached to the node.
func arrayDisk(t *testing.T) *disk {
	t.Helper()
	w := newWorld(t)
	box := array.New(array.Config{})
	w.add(array.DriverName, func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, box.Node(node1, w.disk)) })
	controller := csispec.NewControllerClient(csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, box.Controller())
	}))
	capability := &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	}
	created, err := controller.CreateVolume(t.Context(), &csispec.CreateVolumeRequest{
		Name: "pv", VolumeCapabilities: []*csispec.VolumeCapability{capability},
	})
	w.NoError(err)
	handle := created.GetVolume().GetVolumeId()
	published, err := controller.ControllerPublishVolume(t.Context(), &csispec.ControllerPublishVolumeRequest{
		VolumeId: handle, NodeId: node1, VolumeCapability: capability,
	})
	w.NoError(err)
	w.attachment(handle, func(a *storagev1.VolumeAttachment) {
		a.Status.Attached, a.Status.AttachmentMetadata = true, published.GetPublishContext()
	})
	return w.volume(handle)
}

// volume is a volume of the driver that was added, and a pod with it.
func (w *world) volume(handle string) *disk {
	return &disk{
		world: w, handle: handle, sha: fmt.Sprintf("%x", sha256.Sum256([]byte(handle))),
		spec: &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pv"},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: w.driver, VolumeHandle: handle},
				},
			},
		}},
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: podUID},
			Spec:       corev1.PodSpec{ServiceAccountName: "robot"},
		},
	}
}

// attachmentName returns the VolumeAttachment's name, as upstream computes it.
func (w *world) attachmentName(handle string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+w.driver+node1)))
}

// attachment creates the VolumeAttachment of a volume on the node.
func (w *world) attachment(handle string, change func(*storagev1.VolumeAttachment)) {
	w.Helper()
	pv := "pv"
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: w.attachmentName(handle)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: w.driver, NodeName: node1, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv},
		},
	}
	w.meta(a, change)
	_, err := w.User.StorageV1().VolumeAttachments().Create(context.Background(), a, metav1.CreateOptions{})
	w.NoError(err)
	w.change(handle, change)
}

// meta applies a change to the metadata only.
func (*world) meta(a *storagev1.VolumeAttachment, change func(*storagev1.VolumeAttachment)) {
	c := a.DeepCopy()
	change(c)
	a.Finalizers = c.Finalizers
}

// change writes the status of the VolumeAttachment, as an attacher does.
func (w *world) change(handle string, change func(*storagev1.VolumeAttachment)) {
	w.Helper()
	a := w.stored(handle)
	change(a)
	_, err := w.User.StorageV1().VolumeAttachments().UpdateStatus(context.Background(), a, metav1.UpdateOptions{})
	w.NoError(err)
}

// stored returns a copy of the VolumeAttachment, or nil.
func (w *world) stored(handle string) *storagev1.VolumeAttachment {
	object, ok := w.Server.Get("volumeattachments", "", w.attachmentName(handle))
	if !ok {
		return nil
	}
	return object.(*storagev1.VolumeAttachment).DeepCopy()
}

func (w *world) csiDriver(spec storagev1.CSIDriverSpec) {
	w.Helper()
	_, err := w.User.StorageV1().CSIDrivers().Create(context.Background(),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: w.driver}, Spec: spec}, metav1.CreateOptions{})
	w.NoError(err)
	w.Run()
}

func (d *disk) mountDevice() error {
	d.Helper()
	return d.do(func(ctx context.Context) error {
		path, err := d.plugin.DeviceMountPath(d.spec)
		if err != nil {
			return err
		}
		return d.plugin.MountDevice(ctx, d.spec, path, d.use)
	})
}

func (d *disk) unmountDevice() error {
	d.Helper()
	return d.do(func(ctx context.Context) error { return d.plugin.UnmountDevice(ctx, d.globalMount()) })
}

func (d *disk) setUp() error {
	d.Helper()
	return d.do(func(ctx context.Context) error { return d.plugin.SetUp(ctx, d.spec, d.pod, d.use) })
}

func (d *disk) tearDown() error {
	d.Helper()
	return d.do(func(ctx context.Context) error { return d.plugin.TearDown(ctx, d.spec.Name(), podUID) })
}

// The paths of upstream, and the records next to them.

func (d *disk) globalMount() string {
	return root + "/plugins/kubernetes.io/csi/" + d.driver + "/" + d.sha + "/globalmount"
}

func (d *disk) globalLeaves(source string) []string {
	dir := "plugins/kubernetes.io/csi/" + d.driver + "/" + d.sha
	return []string{
		dir + "/globalmount/" + source,
		fmt.Sprintf(`%s/vol_data.json {"volumeHandle":%q,"driverName":%q}`, dir, d.handle, d.driver),
	}
}

func (d *disk) podData() string {
	return fmt.Sprintf(`pods/uid-1/volumes/kubernetes.io~csi/pv/vol_data.json `+
		`{"specVolID":"pv","volumeHandle":%q,"driverName":%q,"nodeName":"node-1","attachmentID":%q,"volumeLifecycleMode":"Persistent"}`,
		d.handle, d.driver, d.attachmentName(d.handle))
}

func (d *disk) podLeaves(source string) []string {
	return []string{"pods/uid-1/volumes/kubernetes.io~csi/pv/mount/" + source, d.podData()}
}

func (d *disk) emptyDriverDir() string { return "plugins/kubernetes.io/csi/" + d.driver + "/" }

const emptyPodDir = "pods/uid-1/volumes/kubernetes.io~csi/"

// faulty is a connection with faults in the calls of a method.
type faulty struct {
	grpc.ClientConnInterface
	faults []fault
}

// fault injects a fault into one call of a method, before or after its effect.
type fault struct {
	method string
	err    error
	after  bool
}

func (f fault) of(method string) fault {
	f.method = method
	return f
}

func (f *faulty) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	i := slices.IndexFunc(f.faults, func(f fault) bool { return f.method == path.Base(method) })
	if i < 0 {
		return f.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	failing := f.faults[i]
	f.faults = slices.Delete(f.faults, i, i+1)
	if failing.after {
		if err := f.ClientConnInterface.Invoke(ctx, method, args, reply, opts...); err != nil {
			return err
		}
	}
	return failing.err
}

func coded(c codes.Code) error { return status.Error(c, "scripted") }

var errPipe = errors.New("broken pipe")

// mountPath returns where a volume of that name is mounted for the pod.
func (d *disk) mountPath(name string) string {
	return d.plugin.MountPath(&plugins.Spec{Volume: &corev1.Volume{Name: name}}, podUID)
}
