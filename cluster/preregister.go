package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/podnetwork"
	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/plugins/csi"
)

// nodeIDAnnotation holds the node's ID at each driver.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// preRegister stores what a kubelet writes when it registers its node and the drivers on it. The
// kubelet then finds this done.
func (c *Cluster) preRegister(n *node) error {
	node, ids := kubelet.NewNode(n.name, c.host.Now()), map[string]string{}
	node.Status.Addresses = podnetwork.NodeAddresses(n.name, n.address)
	drivers := make([]storagev1.CSINodeDriver, 0, len(n.drivers))
	for _, d := range n.drivers {
		info, err := csispec.NewNodeClient(d.conn).NodeGetInfo(context.Background(), &csispec.NodeGetInfoRequest{})
		if err != nil {
			return fmt.Errorf("driver %s: NodeGetInfo: %w", d.Name, err)
		}
		segments := info.GetAccessibleTopology().GetSegments()
		ids[d.Name] = info.GetNodeId()
		maps.Copy(node.Labels, segments)
		entry := storagev1.CSINodeDriver{Name: d.Name, NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(segments))}
		if limit := int32(info.GetMaxVolumesPerNode()); limit > 0 {
			entry.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
		}
		drivers = append(drivers, entry)
	}
	if len(ids) > 0 {
		annotation, err := json.Marshal(ids)
		if err != nil {
			return fmt.Errorf("annotation of node %s: %w", n.name, err)
		}
		node.Annotations[nodeIDAnnotation] = string(annotation)
	}
	if err := c.server.Add(node); err != nil {
		return err
	}
	stored, _ := c.server.Get("nodes", "", n.name)
	return c.server.Add(&storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:        n.name,
			Annotations: csi.MigratedAnnotation(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node",
				Name: n.name, UID: stored.GetUID(),
			}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: drivers},
	})
}
