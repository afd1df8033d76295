package provisioner

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/sim"
)

// A NodeDeployment makes the provisioner one of several, one on each node, for a driver whose volumes are local:
// --node-deployment. Conn is then a connection to the driver on the node.
//
// A claim with a selected node is the provisioner's on that node. For another claim of a class with immediate
// binding the provisioners contend: each waits, asks its driver for the free capacity and writes its node into the
// claim.
//
// Upstream: external-provisioner pkg/controller NodeDeployment (6.3.0).
//
// Differs: delays depend on the node and the claim, not on chance. A provisioner without enough capacity looks again
// after MaxDelay, in the background; upstream at the next resync.
type NodeDeployment struct {
	Node     string
	NodeID   string            // that the driver reports of the node
	Segments map[string]string // its topology, as the driver reports it; nil: none
	// NoImmediateBinding leaves claims of classes with immediate binding alone:
	// --node-deployment-immediate-binding=false.
	NoImmediateBinding bool
	// BaseDelay is the longest first delay of a contest; later ones double up to MaxDelay. 0: 20 s, 1 min.
	BaseDelay, MaxDelay time.Duration
}

const (
	contestBaseDelay = 20 * time.Second
	contestMaxDelay  = time.Minute
)

// A contender is a provisioner that contends with those of other nodes.
type contender struct {
	NodeDeployment
	c        *Controller
	contests *sim.Queue[claimKey] // whose delays have passed
	rechecks *sim.Queue[claimKey] // claims for which there was no capacity
	waiting  map[types.UID]bool   // claims in these queues
	tries    map[types.UID]int
}

// deployOnNode makes the provisioner a contender.
func (c *Controller) deployOnNode(on NodeDeployment) {
	on.BaseDelay, on.MaxDelay = cmp.Or(on.BaseDelay, contestBaseDelay), cmp.Or(on.MaxDelay, contestMaxDelay)
	background := c.cfg.queue("rechecks")
	background.Background = true
	n := &contender{
		NodeDeployment: on, c: c, waiting: map[types.UID]bool{}, tries: map[types.UID]int{},
		contests: sim.NewQueue[claimKey](c.cfg.Process, c.cfg.queue("contests")),
		rechecks: sim.NewQueue[claimKey](c.cfg.Process, background),
	}
	n.contests.Work(n.own)
	n.rechecks.Work(func(_ context.Context, key claimKey) error {
		delete(n.waiting, key.uid)
		c.claimQueue.Add(key)
		return nil
	})
	c.node = n
}

// place returns a topology that has only the provisioner's node, which does not change.
//
// Upstream: external-provisioner cmd/csi-provisioner main (6.3.0).
func (on *NodeDeployment) place(driver string, strict bool) topology {
	indexer := func(obj any) cache.Indexer {
		one := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if err := one.Add(obj); err != nil {
			panic("provisioner: index an object: " + err.Error()) // it has a name
		}
		return one
	}
	registered := storagev1.CSINodeDriver{Name: driver, NodeID: on.NodeID, TopologyKeys: segmentSet(on.Segments).keys()}
	return topology{
		driver: driver, strict: strict,
		csiNodes: storagelisters.NewCSINodeLister(indexer(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: on.Node}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{registered}},
		})),
		nodes: corelisters.NewNodeLister(indexer(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: on.Node, Labels: on.Segments}})),
	}
}

// isResponsible reports whether the provisioner must provision a claim, and contends for one without a node.
//
// Upstream: external-provisioner pkg/controller checkNode (6.3.0).
func (c *Controller) isResponsible(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	if c.node == nil {
		return true
	}
	switch claim.Annotations[storagehelpers.AnnSelectedNode] {
	case c.node.Node:
		return true
	case "":
		if !c.node.NoImmediateBinding && !isDelayed(class) && c.node.isAllowed(claim, class) {
			c.node.contend(keyOf(claim))
		}
	default:
		delete(c.node.tries, claim.UID)
	}
	return false
}

// onNode returns a claim for which the provisioner's node is selected.
func (n *contender) onNode(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, storagehelpers.AnnSelectedNode, n.Node)
	return claim
}

// isAllowed reports whether a class allows volumes on the node.
func (n *contender) isAllowed(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) bool {
	if len(class.AllowedTopologies) == 0 {
		return true
	}
	_, err := n.c.topology.requirement(n.onNode(claim), class.AllowedTopologies)
	return err == nil
}

// contend waits before it owns a claim, unless it waits already.
func (n *contender) contend(key claimKey) {
	if n.waiting[key.uid] {
		return
	}
	n.waiting[key.uid] = true
	n.contests.AddAfter(key, n.delay(key.uid))
	n.tries[key.uid]++
}

// delay returns how long to wait: BaseDelay, doubled with each earlier try up to MaxDelay, less a part of BaseDelay
// that depends on the node and the claim.
//
// Upstream: external-provisioner pkg/controller rateLimiterWithJitter (6.3.0).
func (n *contender) delay(claim types.UID) time.Duration {
	delay := doubled(n.BaseDelay, n.tries[claim], n.MaxDelay)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(n.Node + "/" + string(claim))) // it never fails
	return max(0, delay-n.BaseDelay*time.Duration(hash.Sum32()%1000)/1000)
}

// own writes the node into a claim whose delay has passed, unless another one is selected or the driver has not
// enough capacity. If the capacity is not known, it writes it: provisioning tells the user why.
//
// Upstream: external-provisioner pkg/controller becomeOwner (6.3.0).
func (n *contender) own(ctx context.Context, key claimKey) error {
	delete(n.waiting, key.uid)
	claim := n.c.claim(key)
	if claim == nil || claim.Annotations[storagehelpers.AnnSelectedNode] != "" || claim.Spec.VolumeName != "" {
		delete(n.tries, key.uid)
		return nil
	}
	class := n.c.class(claim)
	if class == nil {
		return nil
	}
	if has, err := n.hasCapacity(ctx, claim, class); err == nil && !has {
		n.waiting[key.uid] = true
		n.rechecks.AddAfter(key, n.MaxDelay)
		return nil
	}
	_, err := n.c.cfg.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).Update(ctx, n.onNode(claim), metav1.UpdateOptions{})
	switch {
	case apierrors.IsConflict(err):
		n.contend(key)
		return nil
	case apierrors.IsNotFound(err):
		delete(n.tries, key.uid)
		return nil
	case err != nil:
		return fmt.Errorf("selecting node %q for PVC failed: %w", n.Node, err)
	}
	delete(n.tries, key.uid)
	return nil
}

// hasCapacity reports whether the driver has the capacity for a claim on the node.
//
// Upstream: external-provisioner pkg/controller checkCapacity (6.3.0).
func (n *contender) hasCapacity(ctx context.Context, claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (bool, error) {
	capabilities, err := n.c.driver.Capabilities(ctx)
	if err != nil {
		return false, err
	}
	a, err := n.c.cfg.newAttempt(n.onNode(claim), class, capabilities)
	if err == nil {
		err = n.c.addPlacement(ctx, a)
	}
	if err != nil {
		return false, err
	}
	bytes := a.request.GetCapacityRange().GetRequiredBytes()
	if bytes == 0 {
		return true, nil
	}
	places := a.request.GetAccessibilityRequirements().GetRequisite()
	if len(places) == 0 {
		places = []*csispec.Topology{nil}
	}
	for _, place := range places {
		answer, err := n.c.driver.GetCapacity(ctx, &csispec.GetCapacityRequest{
			VolumeCapabilities: a.request.GetVolumeCapabilities(), Parameters: a.request.GetParameters(), AccessibleTopology: place,
		})
		if err != nil || bytes <= answer.GetAvailableCapacity() {
			return err == nil, err
		}
	}
	return false, nil
}

// reaches reports whether a volume is accessible on the node. Without a topology all are.
//
// Upstream: external-provisioner pkg/controller VolumeIsAccessible (6.3.0).
func (on *NodeDeployment) reaches(volume *corev1.PersistentVolume) bool {
	affinity := volume.Spec.NodeAffinity
	if on.Segments == nil || affinity == nil || affinity.Required == nil {
		return true
	}
	selector, err := nodeaffinity.NewNodeSelector(affinity.Required)
	return err == nil && selector.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: on.Segments}})
}

// publisher returns the label of the objects that the provisioner publishes.
//
// Upstream: external-provisioner cmd/csi-provisioner getNameWithMaxLength (6.3.0).
func (cfg *Config) publisher() string {
	if cfg.NodeDeployment == nil {
		return managedBy
	}
	const lengthMax = 63 // of a label
	suffix := cfg.NodeDeployment.Node
	name := managedBy + "-" + suffix
	short := func(text string) string {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(text)) // it never fails
		return fmt.Sprintf("%08x", hash.Sum32())
	}
	switch rest := lengthMax - len("-12345678-") - len(suffix); {
	case len(name) <= lengthMax:
		return name
	case rest <= 0:
		return managedBy + "-" + short(name)
	default:
		return managedBy[:min(rest, len(managedBy))] + "-" + short(managedBy) + "-" + suffix
	}
}
