package cluster

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

// A Driver is a CSI driver of a cluster, with its sidecars, its CSIDriver object and its classes. See
// docs/own-driver.md.
type Driver struct {
	// Name is the name that the driver's GetPluginInfo returns.
	Name string
	// Controller returns what registers the services of the controller: Identity, Controller and
	// GroupController. at has a process only. nil: the driver has no controller service.
	Controller func(at DriverNode) (func(grpc.ServiceRegistrar), error)
	// Node returns what registers the services of a node: Identity and Node. It is called again when
	// the driver is started again there. nil: the driver has no node service.
	Node func(at DriverNode) (func(grpc.ServiceRegistrar), error)
	// Socket is the unix socket of a server that has the services of the controller, as a path or as
	// unix://PATH. In a cluster of one node it also has those of the node. It must answer when the cluster
	// is made. Live worlds only, as all of the following; services on nodes need Loop or LVM.
	Socket string
	// NodeSockets are the sockets of servers that have the services of nodes, by node.
	NodeSockets map[string]string
	// Command returns a program that has the services of a node, and serves at an endpoint unix://PATH. It
	// is started when the cluster is made, killed by StopDriver and ended by Close. The first node's has
	// the services of the controller, too, unless ControllerCommand or Socket is set.
	Command func(at DriverNode, endpoint string) *exec.Cmd
	// ControllerCommand returns a program that has the services of the controller.
	ControllerCommand func(endpoint string) *exec.Cmd
	// Sidecars says which sidecars the driver has.
	Sidecars Sidecars
	// CSIDriver is the driver's object; nil: one that follows from its capabilities.
	CSIDriver *storagev1.CSIDriver
	// Classes exist from the beginning: StorageClasses, VolumeAttributesClasses. An empty provisioner
	// or driver name is replaced by Name.
	Classes []runtime.Object
	// Backend is the driver's actual state, for the rules of package invariant. nil: rules that need
	// it are not checked for this driver.
	Backend invariant.Backend
}

// A DriverNode is where services of a driver run.
type DriverNode struct {
	Name string    // the node; "": the controller
	Disk nodefs.FS // the node's disk
	Root string    // the kubelet's directory on Disk
	// Process is the driver's own process, until it is stopped. What the driver does by Process.Call, such as a
	// request to its cloud, is a suspension point of a stepped world: other tasks may run before, the request may
	// fail, and the driver may crash there. Process has the clock of the world, and may have tasks. A method of
	// the driver must hold no lock across such a call.
	Process *sim.Process
}

// Sidecars are the options of a driver's sidecars. The zero value runs those whose capabilities the
// driver has, with the defaults of upstream.
type Sidecars struct {
	None           bool // there are none: other programs do their work
	NoTopology     bool // the provisioner states no topology: --feature-gates=Topology=false
	StrictTopology bool // a volume is for the topology of the selected node only: --strict-topology
	// ExtraCreateMetadata passes the names of claims and volumes to the driver: --extra-create-metadata.
	ExtraCreateMetadata bool
	// Capacity makes the provisioner publish the free capacity this often; see Config.StorageCapacity.
	Capacity time.Duration
	// NodeDeployment runs a provisioner on each node, next to the driver's services there, which include its
	// controller service: --node-deployment. It is named after driver and node, as in
	// "provisioner(disk.example.com@node-1)". The driver need not have a Controller.
	NodeDeployment bool
	// LeaderElection makes each sidecar act only while it holds a Lease of kube-system: --leader-election.
	// Replicas wait for their turn. See Config.LeaderElection.
	LeaderElection bool
	// User is the user of all sidecars, with fake.Config.RBAC, as if one pod ran them; "": each is the account that its
	// project publishes. See Config.SidecarUser.
	User string
}

// check returns an error for an invalid driver. others are the names of the drivers before it.
func (d *Driver) check(others []string) error {
	switch problems := validation.IsDNS1123Subdomain(d.Name); {
	case d.Name == "":
		return errors.New("a driver without a name: set the name that its GetPluginInfo returns")
	case len(problems) > 0 || len(d.Name) > driverNameMax:
		return fmt.Errorf("driver %q: invalid name: must be a DNS subdomain of at most %d characters", d.Name, driverNameMax)
	case slices.Contains(others, d.Name):
		return fmt.Errorf("driver %q: another one has this name", d.Name)
	case d.CSIDriver != nil && d.CSIDriver.Name != d.Name:
		return fmt.Errorf("driver %q: its CSIDriver is named %q", d.Name, d.CSIDriver.Name)
	case d.Backend != nil && d.Backend.Driver() != d.Name:
		return fmt.Errorf("driver %q: its Backend is that of %q", d.Name, d.Backend.Driver())
	case d.Sidecars.Capacity < 0:
		return fmt.Errorf("driver %q: capacity every %v: want no negative duration", d.Name, d.Sidecars.Capacity)
	case d.Controller != nil && (d.Socket != "" || d.ControllerCommand != nil), d.Socket != "" && d.ControllerCommand != nil:
		return fmt.Errorf("driver %q: want one of Controller, Socket and ControllerCommand", d.Name)
	case d.Node != nil && (len(d.NodeSockets) > 0 || d.Command != nil), len(d.NodeSockets) > 0 && d.Command != nil:
		return fmt.Errorf("driver %q: want one of Node, NodeSockets and Command", d.Name)
	case d.Sidecars.NodeDeployment && d.Node == nil && !d.isOutside():
		return fmt.Errorf("driver %q: NodeDeployment without services on the nodes", d.Name)
	case d.Controller == nil && d.Node == nil && !d.isOutside():
		return fmt.Errorf("driver %q has neither a controller nor a node service", d.Name)
	}
	return nil
}

// driverNameMax is the maximum length of a driver's name.
//
// Upstream: pkg/apis/core/validation ValidateCSIDriverName (v1.36).
const driverNameMax = 63
