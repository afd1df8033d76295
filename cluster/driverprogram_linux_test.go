package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/plugins/lvm"
	"github.com/volsim/volsim/sim"
)

// A directoryDriver is a whole CSI driver with directories as volumes, which all nodes share. It attaches
// nothing.
type directoryDriver struct {
	csispec.UnimplementedIdentityServer
	csispec.UnimplementedControllerServer
	*directories
	node string
}

func newDirectoryDriver(dir, node string) *directoryDriver {
	return &directoryDriver{directories: &directories{dir: dir}, node: node}
}

func (d *directoryDriver) register(r grpc.ServiceRegistrar) {
	csispec.RegisterIdentityServer(r, d)
	csispec.RegisterControllerServer(r, d)
	csispec.RegisterNodeServer(r, d)
}

func (d *directoryDriver) GetPluginInfo(context.Context, *csispec.GetPluginInfoRequest) (*csispec.GetPluginInfoResponse, error) {
	return &csispec.GetPluginInfoResponse{Name: ownDriver, VendorVersion: "1"}, nil
}

func (d *directoryDriver) ControllerGetCapabilities(context.Context,
	*csispec.ControllerGetCapabilitiesRequest,
) (*csispec.ControllerGetCapabilitiesResponse, error) {
	capability := &csispec.ControllerServiceCapability_RPC{Type: csispec.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME}
	return &csispec.ControllerGetCapabilitiesResponse{Capabilities: []*csispec.ControllerServiceCapability{
		{Type: &csispec.ControllerServiceCapability_Rpc{Rpc: capability}},
	}}, nil
}

func (d *directoryDriver) CreateVolume(_ context.Context, r *csispec.CreateVolumeRequest) (*csispec.CreateVolumeResponse, error) {
	if err := os.MkdirAll(filepath.Join(d.dir, r.GetName()), 0o755); err != nil {
		return nil, err
	}
	return &csispec.CreateVolumeResponse{Volume: &csispec.Volume{
		VolumeId: r.GetName(), CapacityBytes: r.GetCapacityRange().GetRequiredBytes(),
	}}, nil
}

func (d *directoryDriver) DeleteVolume(_ context.Context, r *csispec.DeleteVolumeRequest) (*csispec.DeleteVolumeResponse, error) {
	return &csispec.DeleteVolumeResponse{}, os.RemoveAll(filepath.Join(d.dir, r.GetVolumeId()))
}

func (d *directoryDriver) NodeGetInfo(context.Context, *csispec.NodeGetInfoRequest) (*csispec.NodeGetInfoResponse, error) {
	return &csispec.NodeGetInfoResponse{NodeId: "id-of-" + d.node}, nil
}

// The environment of a test that is the program of a driver.
const (
	driverEndpoint = "VOLSIM_TEST_ENDPOINT"
	driverNode     = "VOLSIM_TEST_NODE"
	driverDir      = "VOLSIM_TEST_DIR"
)

// TestDriverProgram is the program of a driver. It serves until it is killed.
func TestDriverProgram(t *testing.T) {
	endpoint := os.Getenv(driverEndpoint)
	if endpoint == "" {
		return // it is not started as a driver
	}
	server := grpc.NewServer()
	newDirectoryDriver(os.Getenv(driverDir), os.Getenv(driverNode)).register(server)
	testcheck.NoError(t, server.Serve(testcheck.Must(net.Listen("unix", strings.TrimPrefix(endpoint, "unix://")))))
}

// driverProgram returns the command of TestDriverProgram.
func driverProgram(dir string) func(at cluster.DriverNode, endpoint string) *exec.Cmd {
	return func(at cluster.DriverNode, endpoint string) *exec.Cmd {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDriverProgram$")
		cmd.Env = append(os.Environ(), driverEndpoint+"="+endpoint, driverNode+"="+at.Name, driverDir+"="+dir)
		return cmd
	}
}

// directoryClass is the default class of the driver.
func directoryClass() []runtime.Object {
	return []runtime.Object{&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
		Name: "standard", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
	}}}
}

func loopOrSkip(t *testing.T) {
	t.Helper()
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
}

// TestDriverOutside runs the life cycle of a volume whose driver is outside this program: child processes,
// and servers at sockets.
func TestDriverOutside(t *testing.T) {
	loopOrSkip(t)
	controllerOnly := func(dir string) func(endpoint string) *exec.Cmd {
		return func(endpoint string) *exec.Cmd { return driverProgram(dir)(cluster.DriverNode{}, endpoint) }
	}
	for name, driver := range map[string]func(t *testing.T, dir string) cluster.Driver{
		"programs": func(_ *testing.T, dir string) cluster.Driver { return cluster.Driver{Command: driverProgram(dir)} },
		"programs, one for the controller": func(_ *testing.T, dir string) cluster.Driver {
			return cluster.Driver{Command: driverProgram(dir), ControllerCommand: controllerOnly(dir)}
		},
		"sockets": func(t *testing.T, dir string) cluster.Driver {
			sockets := map[string]string{}
			for _, node := range []string{"node-1", "node-2"} {
				socket := filepath.Join(t.TempDir(), node)
				t.Cleanup(serveAt(t, socket, newDirectoryDriver(dir, node).register))
				sockets[node] = "unix://" + socket
			}
			return cluster.Driver{Socket: sockets["node-1"], NodeSockets: sockets}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			own := driver(t, dir)
			own.Name, own.Classes = ownDriver, directoryClass()
			c := run(t, cluster.Config{Devices: cluster.Loop, WithoutDriver: true, Drivers: []cluster.Driver{own}})
			if files := testcheck.Must(os.ReadDir(dir)); len(files) > 0 {
				t.Errorf("volumes left: %v", files)
			}
			obj, _ := c.Server().Get("csinodes", "", "node-2")
			if drivers := obj.(*storagev1.CSINode).Spec.Drivers; len(drivers) != 1 || drivers[0].NodeID != "id-of-node-2" {
				t.Errorf("drivers of node-2: %v", drivers)
			}
		})
	}
}

// TestDriverProgramStops stops the program of a driver on a node and starts it again.
func TestDriverProgramStops(t *testing.T) {
	loopOrSkip(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	c := testcheck.Must(cluster.New(cluster.Config{Devices: cluster.Loop, Nodes: 1, WithoutDriver: true, Drivers: []cluster.Driver{
		{Name: ownDriver, Classes: directoryClass(), Command: driverProgram(dir)},
	}}))
	defer func() { testcheck.NoError(t, c.Close()) }()
	testcheck.NoError(t, c.Start(ctx))
	testcheck.NoError(t, c.StopDriver("node-1", ownDriver))
	if !c.Degraded() {
		t.Error("not degraded while the driver is stopped")
	}
	core := c.Client().CoreV1()
	testcheck.Must(core.PersistentVolumeClaims("default").Create(ctx, cluster.NewClaim("data", "1Mi"), metav1.CreateOptions{}))
	testcheck.Must(core.Pods("default").Create(ctx, cluster.NewPod("web", "data"), metav1.CreateOptions{}))
	testcheck.NoError(t, c.Wait(ctx, "the driver to be deregistered", func() bool {
		obj, _ := c.Server().Get("csinodes", "", "node-1")
		return len(obj.(*storagev1.CSINode).Spec.Drivers) == 0
	}))
	if !c.Repair() {
		t.Error("nothing to repair")
	}
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	testcheck.NoError(t, c.WriteFile("default", "web", "data", "file", []byte("hello")))
}

// TestDriverOutsideIsRefused makes clusters that cannot have their drivers.
func TestDriverOutsideIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exits := func(cluster.DriverNode, string) *exec.Cmd { return exec.Command("/bin/sh", "-c", "exit 3") }
	for want, cfg := range map[string]cluster.Config{
		`mounts in real directories of nodes, and devices are "array"`: {
			Devices: cluster.Array, Drivers: []cluster.Driver{{Name: ownDriver, Command: exits}},
		},
		"the world is stepped": {
			Stepped: &sim.SteppedConfig{}, Drivers: []cluster.Driver{{Name: ownDriver, Socket: "unix://" + dir + "/none"}},
		},
		"the program ended (exit status 3)": {
			Devices: cluster.Array, Drivers: []cluster.Driver{{
				Name: ownDriver, ControllerCommand: func(endpoint string) *exec.Cmd { return exits(cluster.DriverNode{}, endpoint) },
			}},
		},
		"want one of Controller, Socket and ControllerCommand": {Drivers: []cluster.Driver{{
			Name: ownDriver, Socket: "/a", ControllerCommand: func(string) *exec.Cmd { return nil },
		}}},
	} {
		c, err := cluster.New(cfg)
		if err == nil {
			err = errors.Join(errors.New("no error"), c.Close())
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLoopBesidesLVM uses a volume of each of two built-in drivers in one pod.
func TestLoopBesidesLVM(t *testing.T) {
	loopOrSkip(t)
	if err := lvm.Probe(); err != nil {
		t.Skipf("logical volumes: %v", err)
	}
	for _, kinds := range [][2]cluster.Devices{{cluster.Loop, cluster.LVM}, {cluster.LVM, cluster.Loop}} {
		t.Run(fmt.Sprintf("%s with %s", kinds[0], kinds[1]), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			c := testcheck.Must(cluster.New(cluster.Config{Devices: kinds[0], MoreDevices: kinds[1:], Nodes: 1, Snapshots: true}))
			defer func() { testcheck.NoError(t, c.Close()) }()
			testcheck.NoError(t, c.Start(ctx))
			var classes []string
			for _, obj := range c.Server().List("volumesnapshotclasses.snapshot.storage.k8s.io") {
				class := testcheck.Must(snapshotapi.Classes.Parse(obj))
				classes = append(classes, class.Name+" "+class.Driver)
			}
			slices.Sort(classes)
			wantClasses := []string{"standard " + string(kinds[0]) + ".csi.volsim.dev", string(kinds[1]) + " " + string(kinds[1]) + ".csi.volsim.dev"}
			slices.Sort(wantClasses)
			testcheck.Equal(t, "classes of snapshots", wantClasses, classes)
			core := c.Client().CoreV1()
			class := string(kinds[1])
			other := cluster.NewClaim("other", "32Mi")
			other.Spec.StorageClassName = &class
			for _, claim := range []*corev1.PersistentVolumeClaim{cluster.NewClaim("data", "32Mi"), other} {
				testcheck.Must(core.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}))
			}
			testcheck.Must(core.Pods("default").Create(ctx, cluster.NewPod("web", "data", "other"), metav1.CreateOptions{}))
			testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
			for _, volume := range []string{"data", "other"} {
				testcheck.NoError(t, c.WriteFile("default", "web", volume, "file", []byte(volume)))
			}
			testcheck.NoError(t, core.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}))
			for _, claim := range []string{"data", "other"} {
				testcheck.NoError(t, core.PersistentVolumeClaims("default").Delete(ctx, claim, metav1.DeleteOptions{}))
				testcheck.NoError(t, c.WaitForGone(ctx, "persistentvolumeclaims", "default", claim))
			}
			testcheck.NoError(t, c.WaitForRest(ctx))
			if leaks := testcheck.Must(c.Leaks()); len(leaks) > 0 {
				t.Errorf("leaks: %v", leaks)
			}
		})
	}
}
