package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodeIDAnnotation holds a node's id in the eyes of each driver.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// Publish tells the cluster about a driver on this node: the node's annotation and its CSINode object. It is one attempt;
// a conflict is an error, and trying again is safe.
//
// Upstream: pkg/volume/csi/nodeinfomanager InstallCSIDriver (v1.36).
func (p *Plugin) Publish(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error {
	if err := p.annotate(ctx, driver, info.GetNodeId()); err != nil {
		return err
	}
	return p.publish(ctx, entryOf(driver, info))
}

// publish writes a driver's entry into the node's CSINode.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateCSINode (v1.36).
func (p *Plugin) publish(ctx context.Context, entry storagev1.CSINodeDriver) error {
	nodes := p.cfg.Client.StorageV1().CSINodes()
	node, err := nodes.Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		node, err = p.createNode(ctx)
	}
	if err != nil {
		return fmt.Errorf("register driver %s: %w", entry.Name, err)
	}
	at := slices.IndexFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == entry.Name })
	if at < 0 {
		node.Spec.Drivers = append(node.Spec.Drivers, entry)
	} else {
		node.Spec.Drivers[at] = entry
	}
	if _, err := nodes.Update(ctx, node, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("register driver %s: %w", entry.Name, err)
	}
	p.published(entry)
	return nil
}

func (p *Plugin) createNode(ctx context.Context) (*storagev1.CSINode, error) {
	node, err := p.cfg.Client.CoreV1().Nodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	return p.cfg.Client.StorageV1().CSINodes().Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{owner}},
	}, metav1.CreateOptions{})
}

// annotate writes the driver's node id into the annotation, beside those of other drivers.
func (p *Plugin) annotate(ctx context.Context, driver, nodeID string) error {
	nodes := p.cfg.Client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("register driver %s: %w", driver, err)
	}
	ids := map[string]string{}
	if old := node.Annotations[nodeIDAnnotation]; old != "" {
		if err := json.Unmarshal([]byte(old), &ids); err != nil {
			return fmt.Errorf("register driver %s: annotation %s: %w", driver, nodeIDAnnotation, err)
		}
	}
	if ids[driver] == nodeID {
		return nil
	}
	ids[driver] = nodeID
	value, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("register driver %s: %w", driver, err)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": node.ResourceVersion,
		"annotations":     map[string]string{nodeIDAnnotation: string(value)},
	}})
	if err != nil {
		return fmt.Errorf("register driver %s: %w", driver, err)
	}
	if _, err := nodes.Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("register driver %s: %w", driver, err)
	}
	return nil
}

func topologyKeys(info *csispec.NodeGetInfoResponse) []string {
	var keys []string
	for key := range info.GetAccessibleTopology().GetSegments() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
