package csi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/plugins"
)

// MigratedAnnotation is what a CSINode says of the plugins whose volumes are handled by CSI drivers.
//
// Upstream: pkg/volume/csi migratedPlugins, k8s.io/api/core/v1 MigratedPluginsAnnotationKey (v1.36).
func MigratedAnnotation() map[string]string {
	return map[string]string{
		corev1.MigratedPluginsAnnotationKey: strings.Join(slices.Sorted(maps.Keys(plugins.Migrated())), ","),
	}
}

// InitializeCSINode sees to it that the node has a CSINode, which is its own and says which plugins are migrated. It is one attempt;
// trying again is safe. node is the Node's UID as far as is known, or "".
//
// Differs: upstream's kubelet ends when that has failed 24 times, for something else to start it again, and is not ready before.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryInitializeCSINodeWithAnnotation (v1.36).
func (p *Plugin) InitializeCSINode(ctx context.Context, node types.UID) error {
	p.nodeUID = node
	own, err := p.csiNode(ctx)
	if err != nil || !markMigrated(own, plugins.Migrated()) {
		return err
	}
	_, err = p.updateCSINode(ctx, own)
	return err
}

// csiNode is the node's CSINode, made if it was not there, and the caller's own. One of an earlier Node of the name is deleted,
// which is an error.
//
// Differs: upstream knows the Node as it was when the kubelet started, and takes what belongs to a Node that was made since for an
// earlier one's. It also deletes whatever has the name by then.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryUpdateCSINode, ensureNodeOwnsCSINode (v1.36).
func (p *Plugin) csiNode(ctx context.Context) (*storagev1.CSINode, error) {
	own, err := p.cfg.Client.StorageV1().CSINodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return p.createCSINode(ctx)
	}
	if err != nil || p.owns(own) {
		return ownCopy(own, err)
	}
	if _, err := p.getNode(ctx); err != nil {
		return nil, err
	}
	if p.owns(own) {
		return ownCopy(own, nil)
	}
	err = p.cfg.Client.StorageV1().CSINodes().Delete(ctx, own.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(own.UID))})
	if err != nil {
		return nil, fmt.Errorf("error deleting existing CSINode %q: %w", own.Name, err)
	}
	return nil, fmt.Errorf("CSINode %q was owned by different node (oldNodeID=%q, newNodeID=%q), deleted it",
		own.Name, ownerOf(own), p.nodeUID)
}

// ownCopy is an answer that may be shared, as one that is to be changed.
func ownCopy(node *storagev1.CSINode, err error) (*storagev1.CSINode, error) {
	return node.DeepCopy(), err
}

// owns tells whether a CSINode is that of the Node.
//
// Upstream: pkg/volume/csi/nodeinfomanager nodeOwnsCSINode (v1.36).
func (p *Plugin) owns(node *storagev1.CSINode) bool {
	return slices.ContainsFunc(node.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Node" && o.Name == string(p.cfg.NodeName) && o.UID == p.nodeUID
	})
}

// ownerOf is the UID of the Node that a CSINode belongs to.
func ownerOf(node *storagev1.CSINode) types.UID {
	var owner types.UID
	for _, o := range node.OwnerReferences {
		if o.Kind == "Node" {
			owner = o.UID
		}
	}
	return owner
}

// createCSINode makes the CSINode of the Node that there is now.
//
// Upstream: pkg/volume/csi/nodeinfomanager CreateCSINode (v1.36).
func (p *Plugin) createCSINode(ctx context.Context) (*storagev1.CSINode, error) {
	node, err := p.getNode(ctx)
	if err != nil {
		return nil, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	return ownCopy(p.cfg.Client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}, Annotations: MigratedAnnotation(),
		},
	}, metav1.CreateOptions{}))
}

// markMigrated brings what a CSINode says of migrated plugins in line, and tells whether it was not. The order of their names does
// not matter.
//
// Upstream: pkg/volume/csi/nodeinfomanager setMigrationAnnotation (v1.36).
func markMigrated(node *storagev1.CSINode, migrated plugins.Migration) (changed bool) {
	const key = corev1.MigratedPluginsAnnotationKey
	is, there := node.Annotations[key]
	named, want := strings.Split(is, ","), slices.Sorted(maps.Keys(migrated))
	slices.Sort(named)
	switch {
	case len(want) == 0:
		delete(node.Annotations, key)
		return there && is != ""
	case slices.Equal(slices.Compact(named), want):
		return false
	case node.Annotations == nil:
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = strings.Join(want, ",")
	return true
}

// updateDriverEntry has a driver's entry in the node's CSINode.
//
// Differs: an entry that changes stays in its place, where it can; upstream moves it to the end. One that says something that an
// API server lets nobody change is taken out first; upstream tries in vain, unregisters the driver, and registers it again later.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateCSINode, UpdateCSIDriver (v1.36), and their texts.
func (p *Plugin) updateDriverEntry(ctx context.Context, entry storagev1.CSINodeDriver) error {
	err := p.retry(func() error {
		node, err := p.csiNode(ctx)
		if err != nil {
			return err
		}
		marked, was := markMigrated(node, plugins.Migrated()), findDriverEntry(node, entry.Name)
		if was != nil && (was.NodeID != entry.NodeID || !sameKeys(was.TopologyKeys, entry.TopologyKeys)) {
			node.Spec.Drivers = slices.DeleteFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == entry.Name })
			if node, err = p.updateCSINode(ctx, node); err != nil {
				return err
			}
			was = nil
		}
		switch {
		case was == nil:
			node.Spec.Drivers = append(node.Spec.Drivers, entry)
		case !equality.Semantic.DeepEqual(was.Allocatable, entry.Allocatable):
			was.Allocatable = entry.Allocatable
		case !marked:
			return nil
		}
		_, err = p.updateCSINode(ctx, node)
		return err
	})
	if err != nil {
		return fmt.Errorf("error updating CSINode object with CSI driver node info: error updating CSINode: %w", err)
	}
	p.rememberDriverEntry(entry)
	return nil
}

func (p *Plugin) updateCSINode(ctx context.Context, node *storagev1.CSINode) (*storagev1.CSINode, error) {
	return ownCopy(p.cfg.Client.StorageV1().CSINodes().Update(ctx, node, metav1.UpdateOptions{}))
}

// findDriverEntry is a driver's entry in a CSINode; nil: none.
func findDriverEntry(node *storagev1.CSINode, driver string) *storagev1.CSINodeDriver {
	at := slices.IndexFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if at < 0 {
		return nil
	}
	return &node.Spec.Drivers[at]
}

// sameKeys compares without the order.
func sameKeys(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// removeDriverEntry takes a driver's entry out of the node's CSINode, where there is one.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryUninstallDriverFromCSINode (v1.36).
func (p *Plugin) removeDriverEntry(ctx context.Context, driver string) error {
	node, err := ownCopy(p.cfg.Client.StorageV1().CSINodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{}))
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(node.Spec.Drivers), func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
	if len(left) == len(node.Spec.Drivers) {
		return nil
	}
	node.Spec.Drivers = left
	_, err = p.updateCSINode(ctx, node)
	return err
}

func topologyKeys(info *csispec.NodeGetInfoResponse) []string {
	return slices.Sorted(maps.Keys(info.GetAccessibleTopology().GetSegments()))
}
