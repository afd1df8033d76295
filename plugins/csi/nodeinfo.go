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

// nodeIDAnnotation is the Node annotation that holds the node's ID for each driver.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// retryDelays are the delays between the attempts to update the Node and the CSINode.
//
// Upstream: pkg/volume/csi/nodeinfomanager updateBackoff (v1.36), without its jitter.
var retryDelays = []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 250 * time.Millisecond}

// retry calls try until it succeeds or all attempts have failed. The error joins those of all
// attempts.
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

// errNoNodeID is the error for a driver that reports no node ID.
var errNoNodeID = errors.New("error adding CSI driver node info: driverNodeID must not be empty")

// install publishes a driver on this node: the Node's annotation and topology labels, and its
// CSINode.
//
// Upstream: pkg/volume/csi/nodeinfomanager InstallCSIDriver (v1.36), and its texts.
func (p *Plugin) install(ctx context.Context, driver string, info *csispec.NodeGetInfoResponse) error {
	if info.GetNodeId() == "" {
		return errNoNodeID
	}
	err := p.retry(func() error {
		return p.patchNode(ctx,
			func(node *corev1.Node) (nodeChange, error) { return installChange(node, driver, info) })
	})
	if err != nil {
		return fmt.Errorf("error updating Node object with CSI driver node info: error updating node: %w", err)
	}
	return p.updateDriverEntry(ctx, newDriverEntry(driver, info))
}

// uninstall removes a driver from the node's CSINode and from the Node's annotation. Its topology
// labels stay.
//
// Differs: for a Node that no longer exists there is nothing to do; upstream retries in vain.
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

// A nodeChange is a patch of a Node's metadata. A null removes an annotation.
type nodeChange struct {
	Annotations map[string]*string `json:"annotations,omitempty"`
	Labels      map[string]string  `json:"labels,omitempty"`
}

// patchNode patches the Node unless it has changed since decide saw it.
//
// Differs: upstream relies on a lock within its process, and overwrites what another process writes
// to the annotation concurrently.
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

// getNode reads the Node from the API server.
func (p *Plugin) getNode(ctx context.Context) (*corev1.Node, error) {
	node, err := p.cfg.Client.CoreV1().Nodes().Get(ctx, string(p.cfg.NodeName), metav1.GetOptions{})
	if err == nil {
		p.nodeUID = node.UID
	}
	return node, err
}

// installChange returns the change of the Node when a driver is installed.
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
		switch value, found := node.Labels[key]; {
		case !found:
			change.Labels[key] = segments[key]
		case value != segments[key]:
			return nodeChange{}, fmt.Errorf("detected topology value collision: driver reported %q:%q "+
				"but existing label is %q:%q",
				key, segments[key], key, value)
		}
	}
	return change, nil
}

// uninstallChange returns the change of the Node when a driver is uninstalled.
//
// Upstream: pkg/volume/csi/nodeinfomanager removeNodeIDFromNode (v1.36).
func uninstallChange(node *corev1.Node, driver string) (nodeChange, error) {
	ids, err := nodeIDs(node)
	if _, found := ids[driver]; err != nil || !found {
		return nodeChange{}, err
	}
	delete(ids, driver)
	return nodeChange{Annotations: map[string]*string{nodeIDAnnotation: encodeNodeIDs(ids)}}, nil
}

// nodeIDs parses a Node's annotation.
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

// encodeNodeIDs returns the annotation's value, or nil if the annotation must be removed.
func encodeNodeIDs(ids map[string]string) *string {
	if len(ids) == 0 {
		return nil
	}
	text, err := json.Marshal(ids)
	if err != nil {
		panic("csi: encode node IDs: " + err.Error()) // a map of strings always encodes
	}
	value := string(text)
	return &value
}

// record records a failure that is not returned.
func (p *Plugin) record(verb, driver string, err error) {
	p.cfg.Process.Record(trace.Action{Kind: trace.KindWork, Verb: verb, Object: driver}, trace.Outcome{Err: err})
}
