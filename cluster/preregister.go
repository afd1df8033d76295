package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/kubelet"
	"github.com/volsim/volsim/plugins/csi"
)

// nodeIDAnnotation holds the node's ID at each driver.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// preRegister stores what a kubelet writes when it registers its node and the driver on it. The
// kubelet then finds this done.
func (c *Cluster) preRegister(name string, conn grpc.ClientConnInterface) error {
	info, err := csispec.NewNodeClient(conn).NodeGetInfo(context.Background(), &csispec.NodeGetInfoRequest{})
	if err != nil {
		return fmt.Errorf("driver %s: NodeGetInfo: %w", c.driver.name(), err)
	}
	segments := info.GetAccessibleTopology().GetSegments()
	ids, err := json.Marshal(map[string]string{c.driver.name(): info.GetNodeId()})
	if err != nil {
		return fmt.Errorf("annotation of node %s: %w", name, err)
	}
	node := kubelet.NewNode(name, c.host.Now())
	node.Annotations[nodeIDAnnotation] = string(ids)
	maps.Copy(node.Labels, segments)
	if err := c.server.Add(node); err != nil {
		return err
	}
	stored, _ := c.server.Get("nodes", "", name)
	entry := storagev1.CSINodeDriver{
		Name: c.driver.name(), NodeID: info.GetNodeId(), TopologyKeys: slices.Sorted(maps.Keys(segments)),
	}
	if limit := int32(info.GetMaxVolumesPerNode()); limit > 0 {
		entry.Allocatable = &storagev1.VolumeNodeResources{Count: &limit}
	}
	return c.server.Add(&storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: csi.MigratedAnnotation(),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node",
				Name: name, UID: stored.GetUID(),
			}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{entry}},
	})
}
