package cluster

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"

	"github.com/volsim/volsim/attachdetach"
	"github.com/volsim/volsim/controllers/garbagecollector"
	"github.com/volsim/volsim/controllers/namespace"
	"github.com/volsim/volsim/controllers/pvcprotection"
	"github.com/volsim/volsim/controllers/pvprotection"
	"github.com/volsim/volsim/controllers/rootca"
	"github.com/volsim/volsim/controllers/serviceaccount"
	"github.com/volsim/volsim/events"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/nodefs"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sidecars/attacher"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

// node is a node of the cluster.
type node struct {
	name    string
	fs      nodefs.FS
	kubelet *kubelet
}

// process is what each part of the control plane gets: its component, its own client, its own caches and its recorder.
type process struct {
	component *sim.Component
	client    kubernetes.Interface
	informers informers.SharedInformerFactory
}

func (c *Cluster) process(name string, selections ...fake.Selection) process {
	component := c.host.Component(name)
	return process{
		component: component, client: c.server.Client(component), informers: c.server.Informers(component, selections...),
	}
}

func (p process) recorder(source string) record.EventRecorder {
	return events.New(events.Config{Component: p.component, Client: p.client, Source: source})
}

// assemble is the list of all parts of the world, in the order in which they are registered.
func (c *Cluster) assemble(cfg Config) error {
	controller, err := c.connect(c.driver.controller)
	if err != nil {
		return err
	}
	c.setUp()
	for _, add := range []func(grpc.ClientConnInterface) error{
		c.addVolumeController, c.addProtection, c.addAttachDetach, c.addScheduler, c.addProvisioner, c.addAttacher,
		c.addGarbageCollector, c.addNamespaces,
	} {
		if err := add(controller); err != nil {
			return err
		}
	}
	for i := range cfg.Nodes {
		if err := c.addNode(fmt.Sprintf("node-%d", i+1)); err != nil {
			return err
		}
	}
	return nil
}

// setUp is what an administrator does first: the CSIDriver object and the default storage class.
func (c *Cluster) setUp() {
	admin := c.host.Component("admin")
	client := c.server.Client(admin)
	admin.User("", func(ctx context.Context) {
		_, err := client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: c.driver.name()},
		}, metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			_, err = client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{
					Name: ClassName, Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
				},
				Provisioner: c.driver.name(),
			}, metav1.CreateOptions{})
		}
		if err != nil && !apierrors.IsAlreadyExists(err) {
			panic(fmt.Sprintf("cluster: set-up: %v", err))
		}
	})
}

func (c *Cluster) addVolumeController(grpc.ClientConnInterface) error {
	p := c.process("pvcontroller")
	pvcontroller.New(pvcontroller.Config{
		Component: p.component, Client: p.client, Informers: p.informers, Recorder: p.recorder(pvcontroller.EventSource),
	})
	return nil
}

func (c *Cluster) addProtection(grpc.ClientConnInterface) error {
	p := c.process("pvprotection")
	pvprotection.New(pvprotection.Config{Component: p.component, Client: p.client, Informers: p.informers})
	p = c.process("pvcprotection")
	pvcprotection.New(pvcprotection.Config{Component: p.component, Client: p.client, Informers: p.informers})
	return nil
}

func (c *Cluster) addAttachDetach(grpc.ClientConnInterface) error {
	p := c.process("attachdetach")
	var manager plugins.Manager
	err := manager.Register(csi.New(csi.Config{
		Component: p.component, Client: p.client,
		CSIDrivers:  p.informers.Storage().V1().CSIDrivers().Lister(),
		Attachments: p.informers.Storage().V1().VolumeAttachments().Lister(),
	}))
	if err != nil {
		return err
	}
	attachdetach.New(attachdetach.Config{
		Component: p.component, Client: p.client, Informers: p.informers,
		Recorder: p.recorder("attachdetach-controller"), Plugins: &manager,
	})
	return nil
}

func (c *Cluster) addScheduler(grpc.ClientConnInterface) error {
	p := c.process("scheduler")
	scheduler.New(scheduler.Config{
		Component: p.component, Client: p.client, Informers: p.informers, Recorder: p.recorder("default-scheduler"),
	})
	return nil
}

func (c *Cluster) addProvisioner(conn grpc.ClientConnInterface) error {
	p := c.process("provisioner")
	provisioner.New(provisioner.Config{
		Component: p.component, Client: p.client, Informers: p.informers, DriverName: c.driver.name(),
		Recorder: p.recorder(c.driver.name()), Conn: csi.Suspend(p.component, c.driver.name(), conn),
	})
	return nil
}

func (c *Cluster) addAttacher(conn grpc.ClientConnInterface) error {
	p := c.process("attacher")
	attacher.New(attacher.Config{
		Component: p.component, Client: p.client, Informers: p.informers, DriverName: c.driver.name(),
		Conn: csi.Suspend(p.component, c.driver.name(), conn),
	})
	return nil
}

func (c *Cluster) addNode(name string) error {
	fs, root, register, err := c.driver.addNode(name)
	if err != nil {
		return err
	}
	conn, err := c.connect(register)
	if err != nil {
		return err
	}
	p := c.process("kubelet("+name+")",
		fake.Selection{Resource: "pods", Fields: "spec.nodeName=" + name},
		fake.Selection{Resource: "nodes", Fields: "metadata.name=" + name})
	k, err := newKubelet(kubeletConfig{
		component: p.component, client: p.client, informers: p.informers, node: name, root: root, fs: fs,
		drivers: map[string]grpc.ClientConnInterface{c.driver.name(): csi.Suspend(p.component, c.driver.name(), conn)},
	})
	if err != nil {
		return err
	}
	c.nodes = append(c.nodes, &node{name: name, fs: fs, kubelet: k})
	return nil
}

func (c *Cluster) addGarbageCollector(grpc.ClientConnInterface) error {
	p := c.process("garbagecollector")
	garbagecollector.New(garbagecollector.Config{
		Component: p.component, Client: c.server.Client(p.component).Metadata(), Source: c.server.Survey(p.component),
		Recorder: p.recorder(garbagecollector.EventSource),
	})
	return nil
}

// addNamespaces adds what fills namespaces, and what empties them. The selections keep them from costing a step where
// they have nothing to do.
func (c *Cluster) addNamespaces(grpc.ClientConnInterface) error {
	p := c.process("namespace", fake.Selection{
		Resource: "namespaces", Concerns: func(was, is fake.Object) bool { return namespace.Concerns(was, is) },
	})
	namespace.New(namespace.Config{
		Component: p.component, Client: p.client, Metadata: c.server.Client(p.component).Metadata(), Informers: p.informers,
		Source:   c.server.Survey(p.component),
		Discover: p.client.Discovery().ServerPreferredNamespacedResources,
	})
	return c.addAccounts()
}

func (c *Cluster) addAccounts() error {
	var p process
	p = c.process("serviceaccount",
		fake.Selection{
			Resource: "serviceaccounts", Fields: "metadata.name=" + serviceaccount.Name,
			Concerns: func(_, is fake.Object) bool { return is == nil },
		},
		fake.Selection{Resource: "namespaces", Concerns: func(_, is fake.Object) bool {
			return is != nil && serviceaccount.Lacks(p.informers, is.(*corev1.Namespace))
		}})
	serviceaccount.New(serviceaccount.Config{Component: p.component, Client: p.client, Informers: p.informers})
	return c.addRootCA()
}

func (c *Cluster) addRootCA() error {
	var p process
	p = c.process("rootca",
		fake.Selection{
			Resource: "configmaps", Fields: "metadata.name=" + rootca.Name,
			Concerns: func(_, is fake.Object) bool { return is == nil || !rootca.Holds(is.(*corev1.ConfigMap), c.rootCA) },
		},
		fake.Selection{Resource: "namespaces", Concerns: func(_, is fake.Object) bool {
			return is != nil && rootca.Lacks(p.informers, is.(*corev1.Namespace))
		}})
	rootca.New(rootca.Config{Component: p.component, Client: p.client, Informers: p.informers, RootCA: c.rootCA})
	return nil
}
