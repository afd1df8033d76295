package csi_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sim"
)

const node2 = "node-2"

// storage is a driver with its backing store, and the disk of node-1.
type storage struct {
	driver     string
	controller csispec.ControllerServer
	node       func() csispec.NodeServer // on node-1
	disk       nodefs.FS
	root       string          // of the kubelet, on the disk
	attached   func() []string // what is attached where; nil: nothing can tell
}

// inMemory is the array.
func inMemory() storage {
	box, disk := array.New(array.Config{}), nodefs.NewMemory(root)
	box.Node(node2, nodefs.NewMemory(root))
	return storage{
		driver: array.DriverName, controller: box.Controller(), disk: disk, root: root,
		node: func() csispec.NodeServer { return box.Node(node1, disk) },
		attached: func() []string {
			var lines []string
			for _, v := range box.Volumes() {
				lines = append(lines, fmt.Sprintf("%s attached to %v", v.Name, v.AttachedTo))
			}
			return lines
		},
	}
}

// onDevices is the driver on loop devices, in a directory of this machine. close removes it.
func onDevices(dir string) (s storage, closeIt func() error, err error) {
	driver, err := loop.New(loop.Config{Dir: path.Join(dir, "images")})
	if err != nil {
		return s, nil, err
	}
	disk, err := nodefs.NewReal(path.Join(dir, "node-1"))
	if err != nil {
		return s, nil, err
	}
	s = storage{
		driver: loop.DriverName, controller: driver.Controller(), disk: disk, root: path.Join(dir, "node-1"),
		node: func() csispec.NodeServer { return driver.Node(node1, disk) },
	}
	return s, func() error { return errors.Join(disk.UnmountAll(), driver.Close()) }, nil
}

// scene is an API server, a driver with its attacher, and a process that is both a controller and
// the kubelet of node-1.
type scene struct {
	storage
	host   sim.Host
	server *fake.Server
}

// newScene returns a scene with two volumes.
func newScene(host sim.Host, driver storage, modes ...corev1.PersistentVolumeAccessMode) (*plugintest.World, error) {
	s := &scene{storage: driver, host: host, server: fake.NewServer(fake.Config{Now: host.Now})}
	s.attacher()
	w := &plugintest.World{
		Host: host, Resources: s.left, Nodes: []types.NodeName{node1, node2},
		Pods: []*corev1.Pod{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", UID: "uid-a"}},
			{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b", UID: "uid-b"}},
		},
	}
	if err := s.furnish(w, modes); err != nil {
		return nil, err
	}
	var err error
	if w.Process, w.Plugin, err = s.process(); err != nil {
		return nil, err
	}
	if stepped, ok := host.(*sim.Stepped); ok {
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			stepped.Crash(w.Process)
			s.server.RemoveComponent(w.Process)
			return s.process()
		}
	}
	return w, nil
}

func (s *scene) attacher() {
	c := s.host.Process("attacher")
	conn := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterControllerServer(r, s.controller) })
	attacher.New(attacher.Config{
		Process: c, Client: s.server.Client(c), Informers: s.server.Informers(c),
		DriverName: s.driver, Conn: csi.Suspend(c, s.driver, conn),
	})
}

// furnish creates nodes and volumes.
func (s *scene) furnish(w *plugintest.World, modes []corev1.PersistentVolumeAccessMode) error {
	errs := []error{s.server.Add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: s.driver}})}
	for _, node := range []string{node1, node2} {
		drivers := []storagev1.CSINodeDriver{{Name: s.driver, NodeID: node}}
		errs = append(errs, s.server.Add(
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: storagev1.CSINodeSpec{Drivers: drivers}},
		))
	}
	for _, name := range []string{"pv-1", "pv-2"} {
		made, err := s.controller.CreateVolume(context.Background(), &csispec.CreateVolumeRequest{
			Name: name, VolumeCapabilities: []*csispec.VolumeCapability{mountable},
		})
		if err != nil {
			return err
		}
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: modes, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: s.driver, VolumeHandle: made.GetVolume().GetVolumeId()},
				},
			},
		}
		errs = append(errs, s.server.Add(pv))
		w.Volumes = append(w.Volumes, &plugins.Spec{PersistentVolume: pv})
	}
	return errors.Join(errs...)
}

// process starts the process; its driver registers.
func (s *scene) process() (*sim.Process, plugins.Plugin, error) {
	c := s.host.Process("process")
	storage := s.server.Informers(c).Storage().V1()
	p := csi.New(csi.Config{
		Process: c, Client: s.server.Client(c),
		CSIDrivers: storage.CSIDrivers(), Attachments: storage.VolumeAttachments(),
		NodeName: node1, Root: s.root, FS: s.disk,
	})
	s.host.Start() // the first process is the last thing to be assembled
	registered, err := make(chan error, 1), error(nil)
	node := csi.Direct(func(r grpc.ServiceRegistrar) { csispec.RegisterNodeServer(r, s.node()) })
	c.Spawn("register", func(ctx context.Context) {
		_, err := p.AddDriver(ctx, s.driver, csi.Suspend(c, s.driver, node))
		registered <- err
	})
	if err := s.host.Wait(context.Background(), "the driver", func() bool { return len(registered) == 1 }); err != nil {
		return nil, nil, err
	}
	err = <-registered
	synced := func() bool {
		return storage.CSIDrivers().Informer().HasSynced() && storage.VolumeAttachments().Informer().HasSynced()
	}
	return c, p, errors.Join(err, s.host.Wait(context.Background(), "the caches", synced))
}

// left returns the attachments, and the files of the node's disk.
func (s *scene) left() ([]string, error) {
	var lines []string
	for _, object := range s.server.List("volumeattachments") {
		a := object.(*storagev1.VolumeAttachment)
		lines = append(lines, fmt.Sprintf("attachment of %s to %s: %v", *a.Spec.Source.PersistentVolumeName,
			a.Spec.NodeName, a.Status.Attached))
	}
	if s.attached != nil {
		lines = append(lines, s.attached()...)
	}
	mounts, err := s.disk.Mounts()
	for _, m := range mounts {
		lines = append(lines, "mount of "+m.Source+" at "+m.Path)
	}
	files, walkErr := s.files(s.root)
	return append(lines, files...), errors.Join(err, walkErr)
}

// files are the files and the mount points below a directory; other directories do not count.
func (s *scene) files(dir string) ([]string, error) {
	names, err := s.disk.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, name := range names {
		at := path.Join(dir, name)
		if content, err := s.disk.ReadFile(at); err == nil {
			lines = append(lines, at+" "+string(content))
			continue
		}
		if slices.Contains([]string{"mount", "globalmount"}, name) {
			lines = append(lines, at)
			continue
		}
		below, err := s.files(at)
		if err != nil {
			return nil, err
		}
		lines = append(lines, below...)
	}
	return lines, nil
}

var (
	mountable = &csispec.VolumeCapability{
		AccessMode: &csispec.VolumeCapability_AccessMode{Mode: csispec.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		AccessType: &csispec.VolumeCapability_Mount{Mount: &csispec.VolumeCapability_MountVolume{}},
	}
	size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
)

func TestPluginContract(t *testing.T) {
	t.Parallel()
	for _, mode := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteMany} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
				return newScene(sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000}), inMemory(), mode)
			})
			if err != nil {
				t.Error(strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
			}
		})
	}
}

func TestPluginContractLive(t *testing.T) {
	t.Parallel()
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		return newScene(sim.NewLive(sim.LiveConfig{}), inMemory(), corev1.ReadWriteMany)
	})
	if err != nil {
		t.Error(strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
	}
}

func TestPluginContractOnDevices(t *testing.T) {
	t.Parallel()
	if err := loop.Probe(); err != nil {
		t.Skip(err)
	}
	err := plugintest.Check(t.Context(), func() (*plugintest.World, error) {
		host := sim.NewLive(sim.LiveConfig{})
		driver, closeIt, err := onDevices(t.TempDir())
		if err != nil {
			return nil, err
		}
		w, err := newScene(host, driver, corev1.ReadWriteOnce)
		if err != nil {
			return nil, errors.Join(err, closeIt())
		}
		w.Close = func() {
			host.Close()
			if err := closeIt(); err != nil {
				t.Errorf("what is left on devices: %v", err)
			}
		}
		return w, nil
	})
	if err != nil {
		t.Error(strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
	}
}
