package mockdriver

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"k8s.io/kubernetes/test/e2e/storage/drivers/csi-test/mock/service"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/csitest"
	"github.com/volsim/volsim/plugins/nodefs"
)

const driverName = "mock.example.com"

// disks are the disks of the nodes, by root, as the mock driver uses them.
type disks map[string]nodefs.FS

// on returns the disk with a path.
func (d disks) on(name string) (nodefs.FS, error) {
	root, _, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if disk := d["/"+root]; disk != nil {
		return disk, nil
	}
	return nil, &fs.PathError{Op: "find", Path: name, Err: fs.ErrNotExist}
}

func (d disks) DirExists(name string) (bool, error) {
	disk, err := d.on(name)
	if err != nil {
		return false, err
	}
	info, err := disk.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && info.Mode.IsDir(), err
}

func (d disks) Mkdir(name string) error {
	disk, err := d.on(name)
	if err != nil {
		return err
	}
	if exists, err := disk.Exists(path.Dir(name)); err != nil || !exists {
		return errors.Join(err, fs.ErrNotExist)
	}
	return disk.MkdirAll(name)
}

func (d disks) RemoveAll(name string) error {
	disk, err := d.on(name)
	if err != nil {
		return err
	}
	return disk.RemoveAll(name)
}

func (d disks) Rename(from, to string) error {
	disk, err := d.on(from)
	if err != nil {
		return err
	}
	return disk.Rename(from, to)
}

// newMock returns the mock driver of a new world. It mounts nothing.
func newMock() cluster.Driver {
	nodes := disks{}
	mock := service.New(service.Config{DriverName: driverName, NodeExpansionRequired: true, IO: nodes})
	register := func(r grpc.ServiceRegistrar) {
		csispec.RegisterIdentityServer(r, mock)
		csispec.RegisterControllerServer(r, mock)
		csispec.RegisterNodeServer(r, mock)
	}
	return cluster.Driver{
		Name:       driverName,
		Controller: func(cluster.DriverNode) (func(grpc.ServiceRegistrar), error) { return register, nil },
		Node: func(at cluster.DriverNode) (func(grpc.ServiceRegistrar), error) {
			nodes["/"+at.Name] = at.Disk
			return register, nil
		},
	}
}

// TestMockDriver checks a driver that others have written, and use in the tests of kubelets and sidecars. It has one
// ID for all nodes, and so it is checked with one.
func TestMockDriver(t *testing.T) {
	csitest.Check(t, csitest.Target{New: newMock, Nodes: 1})
}
