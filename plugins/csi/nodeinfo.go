package csi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/volsim/volsim/sim/trace"
)

// nodeIDAnnotation holds a node's id in the eyes of each driver.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// retryDelays are how long it takes from each attempt to tell the cluster about a driver to the next one.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateBackoff (v1.36), without its jitter.
var retryDelays = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// retry tries until an attempt succeeds or all have failed: the error holds those of all.
func (p *Plugin) retry(try func() error) error {
	var errs []error
	for i := 0; ; i++ {
		err := try()
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		if i == len(retryDelays) {
			return fmt.Errorf("timed out waiting for the condition; caused by: %w", utilerrors.NewAggregate(errs))
		}
		p.cfg.Process.Sleep(retryDelays[i])
	}
}

// errNoNodeID is the error for a driver that has no name for its node.
var errNoNodeID = errors.New("error adding CSI driver node info: driverNodeID must not be empty")

// install tells the cluster about a driver on this node: the node's annotation and topology labels, and its CSINode.
//
// Upstream: pkg/volume/csi/nodeinfomanager InstallCSIDriver (v1.36), and its texts.
func (p *Plugin) install(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error {
	if info.GetNodeId() == "" {
		return errNoNodeID
	}
	err := p.retry(func() error {
		return p.patchNode(ctx, func(node *corev1.Node) (nodeChange, error) { return installChange(node, driver, info) })
	})
	if err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: error updating node: %w", err)
	}
	return p.updateDriverEntry(ctx, newDriverEntry(driver, info))
}

// uninstall takes a driver out of the node's CSINode, and out of its annotation. Its topology labels stay.
//
// Differs: a node that is gone has nothing that could be taken out of it; upstream tries in vain.
//
// Upstream: pkg/volume/csi/nodeinfomanager UninstallCSIDriver (v1.36), and its texts.
func (p *Plugin) uninstall(ctx context.Context, driver string) error {
	err := p.retry(func() error { return p.removeDriverEntry(ctx, driver) })
	if err != nil {
		return fmt.Errorf("error uninstalling CSI driver from CSINode object error updating CSINode: %w", err)
	}
	err = p.retry(func() error {
		err := p.patchNode(ctx, func(node *corev1.Node) (nodeChange, error) { return uninstallChange(node, driver) })
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("error removing CSI driver node info from Node object error updating node: %w", err)
	}
	return nil
}

// nodeChange is what is to be different about a Node. A null takes an annotation away.
type nodeChange struct {
	Annotations map[string]*string `json:"annotations,omitempty"`
	Labels      map[string]string  `json:"labels,omitempty"`
}

// patchNode changes the Node, if it is still the one that the change was made for.
//
// Differs: upstream goes by its own lock, and overwrites what another process does to the annotation at the same time.
//
// Upstream: pkg/volume/csi/nodeinfomanager tryUpdateNode (v1.36).
func (p *Plugin) patchNode(ctx context.Context, decide func(*corev1.Node) (nodeChange, error)) error {
	node, err := p.getNode(ctx)
	if err != nil {
		return err
	}
	change, err := decide(node)
	if err != nil || len(change.Annotations) == 0 && len(change.Labels) == 0 {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": struct {
		nodeChange
		ResourceVersion string `json:"resourceVersion"`
	}{change, node.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("patch of node: %w", err)
	}
	_, err = p.cfg.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// getNode asks for the Node.
func (p *Plugin) getNode(ctx context.Context) (*corev1.Node, error) {
	node, err := p.cfg.Client.CoreV1().Nodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if err == nil {
		p.nodeUID = node.UID
	}
	return node, err
}

// installChange is what a driver has different about a Node.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateNodeIDInNode, updateTopologyLabels (v1.36).
func installChange(node *corev1.Node, driver string, info *csispec.NodeGetInfoResponse) (nodeChange, error) {
	ids, err := nodeIDs(node)
	if err != nil {
		return nodeChange{}, err
	}
	change := nodeChange{Labels: map[string]string{}}
	if ids[driver] != info.GetNodeId() {
		ids[driver] = info.GetNodeId()
		change.Annotations = map[string]*string{nodeIDAnnotation: encodeNodeIDs(ids)}
	}
	segments := info.GetAccessibleTopology().GetSegments()
	for _, key := range slices.Sorted(maps.Keys(segments)) {
		switch is, there := node.Labels[key]; {
		case !there:
			change.Labels[key] = segments[key]
		case is != segments[key]:
			return nodeChange{}, fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q",
				key, segments[key], key, is)
		}
	}
	return change, nil
}

// uninstallChange is what a Node has different when a driver is gone.
//
// Upstream: pkg/volume/csi/nodeinfomanager removeNodeIDFromNode (v1.36).
func uninstallChange(node *corev1.Node, driver string) (nodeChange, error) {
	ids, err := nodeIDs(node)
	if _, there := ids[driver]; err != nil || !there {
		return nodeChange{}, err
	}
	delete(ids, driver)
	return nodeChange{Annotations: map[string]*string{nodeIDAnnotation: encodeNodeIDs(ids)}}, nil
}

// nodeIDs reads a Node's annotation.
//
// Upstream: pkg/volume/csi/nodeinfomanager buildNodeIDMapFromAnnotation (v1.36), and its text.
func nodeIDs(node *corev1.Node) (map[string]string, error) {
	ids := map[string]string{}
	text := node.Annotations[nodeIDAnnotation]
	if text == "" {
		return ids, nil
	}
	if err := json.Unmarshal([]byte(text), &ids); err != nil {
		return nil, fmt.Errorf("failed to parse node's %q annotation value (%q) err=%w", nodeIDAnnotation, text, err)
	}
	return ids, nil
}

// encodeNodeIDs is the annotation's value; nil where there is to be none.
func encodeNodeIDs(ids map[string]string) *string {
	if len(ids) == 0 {
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		panic("csi: node ids cannot be written: " + err.Error()) // they are text
	}
	value := string(text)
	return &value
}

// record records that something failed which is only told.
func (p *Plugin) record(verb, driver string, err error) {
	p.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: driver}, trace.Outcome{Err: err})
}
