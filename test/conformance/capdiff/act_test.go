package capdiff

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

type (
	act     = controllers.Act[*world]
	step    = controllers.Step[*world]
	restart = controllers.Restart[*world]
)

// createClass creates a class of the driver, or of another one.
type createClass struct {
	name, pool string
	mode       storagev1.VolumeBindingMode
	foreign    bool
}

func (c createClass) String() string {
	return fmt.Sprintf("create class %s of pool %s, %s, of another driver %v", c.name, c.pool, c.mode, c.foreign)
}

func (c createClass) Do(w *world) error {
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: c.name}, Provisioner: driverName, VolumeBindingMode: &c.mode,
		Parameters: map[string]string{"pool": c.pool},
	}
	if c.foreign {
		class.Provisioner = "other.example.com"
	}
	_, err := w.Client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type deleteClass struct{ name string }

func (d deleteClass) String() string { return "delete class " + d.name }

func (d deleteClass) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.StorageV1().StorageClasses().Delete(ctx, d.name, metav1.DeleteOptions{}))
}

// replaceClass deletes a class and creates another of its name at once.
type replaceClass struct{ by createClass }

func (r replaceClass) String() string { return "delete it, and " + r.by.String() }

func (r replaceClass) Do(w *world) error {
	if err := (deleteClass{r.by.name}).Do(w); err != nil {
		return err
	}
	return r.by.Do(w)
}

// label creates a node, or replaces its labels.
type label struct {
	node   string
	labels map[string]string
}

func (l label) String() string { return fmt.Sprintf("label node %s %v", l.node, l.labels) }

func (l label) Do(w *world) error {
	nodes := w.Client.CoreV1().Nodes()
	if node, ok := histories.Stored[*corev1.Node](w.Server, "nodes", "", l.node); ok {
		node.Labels = maps.Clone(l.labels)
		_, err := nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	}
	_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: l.node, Labels: maps.Clone(l.labels)}}, metav1.CreateOptions{})
	return err
}

type deleteNode struct{ node string }

func (d deleteNode) String() string { return "delete node " + d.node }

func (d deleteNode) Do(w *world) error {
	return controllers.IgnoreMissing(w.Client.CoreV1().Nodes().Delete(ctx, d.node, metav1.DeleteOptions{}))
}

// register registers the driver on a node again, with other topology keys; with none at all, it is
// registered no more.
type register struct {
	node string
	keys []string
}

func (r register) String() string {
	return fmt.Sprintf("register the driver on %s with %v", r.node, r.keys)
}

func (r register) Do(w *world) error {
	csiNodes := w.Client.StorageV1().CSINodes()
	if err := controllers.IgnoreMissing(csiNodes.Delete(ctx, r.node, metav1.DeleteOptions{})); err != nil || len(r.keys) == 0 {
		return err
	}
	_, err := csiNodes.Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: r.node},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: r.node, TopologyKeys: r.keys}}},
	}, metav1.CreateOptions{})
	return err
}

// setDriver changes the state of the driver.
type setDriver struct{ key, value string }

func (s setDriver) String() string { return fmt.Sprintf("set %s of the driver to %s", s.key, s.value) }

func (s setDriver) Do(w *world) error {
	state, _ := histories.Stored[*corev1.ConfigMap](w.Server, "configmaps", namespace, driverState)
	if state.Data == nil {
		state.Data = map[string]string{}
	}
	state.Data[s.key] = s.value
	_, err := w.Client.CoreV1().ConfigMaps(namespace).Update(ctx, state, metav1.UpdateOptions{})
	return err
}

// The labels of the objects that the controllers manage.
var managed = map[string]string{
	"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner",
}

// createObject creates an object as the controllers do, or without their labels.
type createObject struct {
	class     string
	topology  map[string]string
	unmanaged bool
}

func (c createObject) String() string {
	return fmt.Sprintf("create an object of class %s, topology %v, unmanaged %v", c.class, c.topology, c.unmanaged)
}

func (c createObject) Do(w *world) error {
	object := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "csisc-"}, StorageClassName: c.class,
		NodeTopology: &metav1.LabelSelector{MatchLabels: c.topology}, Capacity: ptr.To(resource.MustParse("1Ki")),
	}
	if !c.unmanaged {
		object.Labels = maps.Clone(managed)
	}
	_, err := w.Client.StorageV1().CSIStorageCapacities(namespace).Create(ctx, object, metav1.CreateOptions{})
	return err
}

// The edits of users.
const (
	setCapacity = "set the capacity"
	dropLabels  = "drop the labels"
	setLabels   = "set the labels"
	dropOwners  = "drop the owners"
	remove      = "delete"
)

// edit changes one of the objects.
type edit struct {
	number int // modulo the number of objects
	how    string
}

func (e edit) String() string { return fmt.Sprintf("%s of object %d", e.how, e.number) }

func (e edit) Do(w *world) error {
	all := w.published()
	if len(all) == 0 {
		return nil
	}
	object := all[e.number%len(all)]
	objects := w.Client.StorageV1().CSIStorageCapacities(namespace)
	switch e.how {
	case setCapacity:
		object.Capacity = ptr.To(resource.MustParse("3Ki"))
	case dropLabels:
		object.Labels = nil
	case setLabels:
		object.Labels = maps.Clone(managed)
	case dropOwners:
		object.OwnerReferences = nil
	case remove:
		return objects.Delete(ctx, object.Name, metav1.DeleteOptions{})
	}
	_, err := objects.Update(ctx, object, metav1.UpdateOptions{})
	return err
}
