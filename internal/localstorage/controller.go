package localstorage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/sim"
)

// The reasons of events about classes.
const (
	reasonInvalid = "InvalidParameters"
	reasonNoNode  = "NodeNotFound"
)

// ControllerConfig configures NewController.
type ControllerConfig struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Dynamic   dynamic.Interface // for records
	Informers informers.SharedInformerFactory
	Recorder  record.EventRecorder
}

// A Controller reports what is wrong with classes and claims, and which nodes have left. As a
// scheduler extender, it filters and ranks nodes by the records; see Handler. When there is more space,
// it annotates the claims that it may suffice for, so that their pods are scheduled again.
type Controller struct {
	cfg     ControllerConfig
	nodes   corelisters.NodeLister
	claims  corelisters.PersistentVolumeClaimLister
	classes storagelisters.StorageClassLister
	records customresource.Cache[NodeLocalStorage, *NodeLocalStorage]
	queue   *sim.Queue[work]
	told    map[string]string // the last event of each class
}

// NewController returns the controller. It adds a queue with one worker to the process, and
// registers with the informers. It must be called before the host starts. The resource of records
// must be served; see Definition.
func NewController(cfg ControllerConfig) (*Controller, error) {
	core, classes := cfg.Informers.Core().V1(), cfg.Informers.Storage().V1().StorageClasses()
	own, recordInformer, err := records.Cache(cfg.Informers)
	if err != nil {
		return nil, err
	}
	c := &Controller{
		cfg: cfg, nodes: core.Nodes().Lister(), claims: core.PersistentVolumeClaims().Lister(), classes: classes.Lister(),
		records: own, queue: sim.NewQueue[work](cfg.Process, sim.QueueConfig{Name: "classes"}), told: map[string]string{},
	}
	eventhandler.Add(core.Nodes().Informer(), func(old, _ *corev1.Node) {
		if old == nil {
			c.addClasses()
		}
	}, func(*corev1.Node) { c.addClasses() })
	eventhandler.Add(classes.Informer(), func(_, class *storagev1.StorageClass) {
		if isOurs(class) {
			c.queue.Add(work{kind: classWork, name: class.Name})
			c.queue.Add(work{kind: spaceWork, name: class.Name})
		}
	}, nil)
	eventhandler.Add(core.PersistentVolumeClaims().Informer(), func(old, claim *corev1.PersistentVolumeClaim) {
		if claim.Spec.VolumeName == "" && (old == nil || !sameAnnotations(old, claim, storagehelpers.AnnStorageProvisioner, storagehelpers.AnnSelectedNode)) {
			c.queue.Add(work{claimWork, claim.Namespace, claim.Name})
		}
		if old != nil && !sameAnnotations(old, claim, storagehelpers.AnnSelectedNode) {
			c.promiseEnded(old)
		}
	}, c.promiseEnded)
	if err := c.watchSpace(recordInformer); err != nil {
		return nil, err
	}
	for _, informer := range []cache.SharedIndexInformer{
		core.Nodes().Informer(), classes.Informer(), core.PersistentVolumeClaims().Informer(), recordInformer,
	} {
		cfg.Process.GateWorkers(informer.HasSynced)
	}
	c.queue.Work(c.sync)
	return c, nil
}

func (c *Controller) addClasses() {
	all, err := c.classes.List(labels.Everything())
	if err != nil {
		panic("localstorage: list classes: " + err.Error())
	}
	sortByName(all)
	for _, class := range all {
		if isOurs(class) {
			c.queue.Add(work{kind: classWork, name: class.Name})
		}
	}
}

// class returns a class of this package, nil if there is none of the name.
func (c *Controller) class(name string) *storagev1.StorageClass {
	class, err := c.classes.Get(name)
	if err != nil || !isOurs(class) {
		return nil
	}
	return class
}

func (c *Controller) sync(ctx context.Context, key work) error {
	switch key.kind {
	case claimWork:
		return c.checkClaim(ctx, key)
	case spaceWork:
		c.addWaiting(key.name)
		return nil
	case waitingWork:
		return c.notify(ctx, key)
	default:
		return c.syncClass(ctx, key.name)
	}
}

// sameAnnotations reports whether two versions of a claim have the same values of annotations.
func sameAnnotations(old, claim *corev1.PersistentVolumeClaim, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return old.Annotations[key] != claim.Annotations[key] })
}

// checkClaim reports a claim that is not provisioned because its class is not delayed. It removes a
// selected node that does not exist from a claim, since no manager runs there.
//
// Upstream: sig-storage-lib-external-provisioner provisionClaimOperation (v13.0.0).
func (c *Controller) checkClaim(ctx context.Context, key work) error {
	claim, err := c.claims.PersistentVolumeClaims(key.namespace).Get(key.name)
	if err != nil || claim.Spec.VolumeName != "" || claim.Annotations[storagehelpers.AnnStorageProvisioner] != Provisioner {
		return nil //nolint:nilerr // it is gone
	}
	class := c.class(storagehelpers.GetPersistentVolumeClaimClass(claim))
	if class == nil {
		return nil
	}
	if !isDelayed(class) {
		c.cfg.Recorder.Eventf(claim, corev1.EventTypeWarning, reasonFailed,
			"storage class %q must have volumeBindingMode WaitForFirstConsumer: a local volume is created on the node of its pod", class.Name)
		return nil
	}
	node := claim.Annotations[storagehelpers.AnnSelectedNode]
	if _, err := c.nodes.Get(node); err == nil || node == "" {
		return nil
	}
	_, err = c.cfg.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		return err
	}
	c.cfg.Recorder.Event(claim, corev1.EventTypeWarning, reasonFailed, err.Error())
	return unselect(ctx, c.cfg.Client, claim)
}

// syncClass reports what is wrong with a class, and writes the records of nodes that have left.
func (c *Controller) syncClass(ctx context.Context, name string) error {
	class := c.class(name)
	if class == nil {
		return nil
	}
	p, err := parseClass(class)
	if err != nil {
		c.tell(class, reasonInvalid, err.Error())
		return nil
	}
	if !isDelayed(class) {
		c.tell(class, reasonInvalid, "volumeBindingMode must be WaitForFirstConsumer")
	}
	var missing []string
	for i, each := range p.nodes {
		if _, err := c.nodes.Get(each.Node); err == nil {
			continue
		}
		missing = append(missing, fmt.Sprintf("parameter nodes: [%d]: node %q does not exist", i, each.Node))
		c.addSelected(each.Node)
		if err := c.markGone(ctx, c.records.Get("", recordName(name, each.Node))); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		c.tell(class, reasonNoNode, strings.Join(missing, "; "))
	} else {
		delete(c.told, name+"/"+reasonNoNode)
	}
	return nil
}

// addSelected queues the claims without a volume whose selected node is the given one.
func (c *Controller) addSelected(node string) {
	all, err := c.claims.List(labels.Everything())
	if err != nil {
		panic("localstorage: list claims: " + err.Error())
	}
	sortByName(all)
	for _, claim := range all {
		if isSelected(claim, node) && claim.Spec.VolumeName == "" {
			c.queue.Add(work{claimWork, claim.Namespace, claim.Name})
		}
	}
}

// markGone writes into a record that its node has left.
func (c *Controller) markGone(ctx context.Context, r *NodeLocalStorage) error {
	if r == nil {
		return nil
	}
	before := r.Status
	r.Status.Conditions = slices.Clone(before.Conditions)
	r.Status.Phase = phaseFailed
	meta.SetStatusCondition(&r.Status.Conditions, metav1.Condition{
		Type: conditionReady, Status: metav1.ConditionFalse, Reason: "NodeGone", ObservedGeneration: r.Generation,
		Message: "the node does not exist; its volumes stay until they are deleted", LastTransitionTime: metav1.NewTime(c.cfg.Process.Now()),
	})
	if equality.Semantic.DeepEqual(before, r.Status) {
		return nil
	}
	_, err := records.Client(c.cfg.Dynamic).UpdateStatus(ctx, r)
	return err
}

// tell records a warning at a class, unless it was the last one of its reason.
func (c *Controller) tell(class *storagev1.StorageClass, reason, text string) {
	if key := class.Name + "/" + reason; c.told[key] != text {
		c.told[key] = text
		c.cfg.Recorder.Event(class, corev1.EventTypeWarning, reason, text)
	}
}
