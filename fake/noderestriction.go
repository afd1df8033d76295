package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/diff"
	kubeletapis "k8s.io/kubelet/pkg/apis"
	"k8s.io/utils/ptr"
)

// This file has the admission plugin NodeRestriction: a kubelet writes its own Node, Lease and CSINode, and
// the status of its own pods. What it does to pods and tokens is in noderestriction_pod.go.
//
// It comes after NamespaceLifecycle and ServiceAccount, and before all other plugins.
//
// Differs: resources that are not served (certificate requests) are not checked. The difference in the error
// about the status of a claim has the field names of v1.
//
// Upstream: plugin/pkg/admission/noderestriction (v1.36).

// A nodeWrite is a write that NodeRestriction may reject.
type nodeWrite struct {
	k               *kind
	op              admissionv1.Operation
	sub             string // subresource
	namespace, name string // of the request; name is "" until it is generated
	obj             runtime.Object
	old             Object

	node string // of the kubelet
}

// restrictsNodes reports whether the user is a kubelet whose writes are limited.
func (c *Clientset) restrictsNodes() bool {
	return c != nil && writer{Server: c.server, user: c.user}.isNode()
}

// isNode reports whether the writer is a kubelet whose writes are limited.
func (s writer) isNode() bool {
	if s.access == nil || s.user == nil {
		return false
	}
	_, is := nodeOf(s.user)
	return is
}

// restrictNode returns an error if the writer is a kubelet that may not make a write.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.Admit.
func (s writer) restrictNode(w nodeWrite) error {
	if !s.isNode() {
		return nil
	}
	if pod, ok := w.obj.(*corev1.Pod); ok && w.op == admissionv1.Create {
		if err := s.admitServiceAccount(pod.DeepCopy()); err != nil {
			return err // that plugin comes first
		}
	}
	if w.node, _ = nodeOf(s.user); w.node == "" {
		return w.forbid("could not determine node from user %q", s.user.Username)
	}
	switch w.k.groupResource().String() {
	case "pods":
		return s.restrictPod(w)
	case "nodes":
		return w.restrictOwnNode()
	case "persistentvolumeclaims":
		return w.restrictClaim()
	case "serviceaccounts":
		return s.restrictToken(w)
	case "leases.coordination.k8s.io":
		if w.namespace != corev1.NamespaceNodeLease {
			return w.forbid("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
		}
		return w.restrictName("can only access node lease with the same name as the requesting node")
	case "csinodes.storage.k8s.io":
		return w.restrictName("can only access CSINode with the same name as the requesting node")
	case "resourceslices.resource.k8s.io":
		return w.restrictSlice()
	}
	return nil
}

// forbid returns the error about a rejected write.
//
// Upstream: k8s.io/apiserver/pkg/admission NewForbidden.
func (w nodeWrite) forbid(format string, args ...any) error {
	name := w.name
	if obj, ok := w.obj.(Object); ok && name == "" {
		name = requestedName(metaOf(obj))
	}
	return apierrors.NewForbidden(w.k.groupResource(), name, fmt.Errorf(format, args...))
}

// restrictName rejects a write of an object that does not have the name of the node.
func (w nodeWrite) restrictName(message string) error {
	if w.name != w.node {
		return w.forbid("%s", message)
	}
	return nil
}

// restrictOwnNode rejects a write of another Node, and of what the scheduler decides by: taints, and labels of Kubernetes.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitNode.
func (w nodeWrite) restrictOwnNode() error {
	if w.name != w.node {
		return w.forbid("node %q is not allowed to modify node %q", w.node, w.name)
	}
	node, _ := w.obj.(*corev1.Node)
	switch w.op {
	case admissionv1.Create:
		//lint:ignore SA1019 clients may still send it
		if node.Spec.ConfigSource != nil {
			return w.forbid("node %q is not allowed to create pods with a non-nil configSource", w.node)
		}
		if keys := forbiddenLabels(node.Labels, nil); len(keys) > 0 {
			return w.forbid("node %q is not allowed to set the following labels: %s", w.node, strings.Join(keys, ", "))
		}
	case admissionv1.Update:
		old := w.old.(*corev1.Node)
		//lint:ignore SA1019 clients may still send it
		if source := node.Spec.ConfigSource; source != nil && !equality.Semantic.DeepEqual(source, old.Spec.ConfigSource) {
			return w.forbid("node %q is not allowed to update configSource to a new non-nil configSource", w.node)
		}
		if !equality.Semantic.DeepEqual(node.Spec.Taints, old.Spec.Taints) {
			return w.forbid("node %q is not allowed to modify taints", w.node)
		}
		if !equality.Semantic.DeepEqual(node.OwnerReferences, old.OwnerReferences) {
			return w.forbid("node %q is not allowed to modify ownerReferences", w.node)
		}
		if keys := forbiddenLabels(node.Labels, old.Labels); len(keys) > 0 {
			return w.forbid("is not allowed to modify labels: %s", strings.Join(keys, ", "))
		}
	}
	return nil
}

// forbiddenLabels returns the keys that differ and that a kubelet may not set, sorted: those of Kubernetes
// that are not the kubelet's, and those that are reserved for keeping pods off nodes.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.getForbiddenLabels.
func forbiddenLabels(labels, old map[string]string) []string {
	all := maps.Clone(old)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, labels)
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value, is := labels[key]
		before, was := old[key]
		if is == was && value == before {
			continue
		}
		prefix, _, hasPrefix := strings.Cut(key, "/")
		within := func(domain string) bool {
			return hasPrefix && (prefix == domain || strings.HasSuffix(prefix, "."+domain))
		}
		kubernetes := within("kubernetes.io") || within("k8s.io")
		if within(corev1.LabelNamespaceNodeRestriction) || kubernetes && !kubeletapis.IsKubeletLabel(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// restrictClaim rejects a write of a claim, except of what an expansion reports in its status.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitPVCStatus.
func (w nodeWrite) restrictClaim() error {
	switch {
	case w.sub != string(statusSubresource):
		return w.forbid("may only update PVC status")
	case w.op != admissionv1.Update:
		return w.forbid("unexpected operation %q", w.op)
	}
	compared := func(obj runtime.Object) *corev1.PersistentVolumeClaim {
		claim := obj.(*corev1.PersistentVolumeClaim).DeepCopy()
		clean(claim)
		w.k.defaults(claim)
		claim.ResourceVersion, claim.ManagedFields = "", nil
		status := &claim.Status
		status.Capacity, status.Conditions = nil, nil
		status.AllocatedResourceStatuses, status.AllocatedResources = nil, nil
		return claim
	}
	claim, old := compared(w.obj), compared(w.old)
	if !equality.Semantic.DeepEqual(old, claim) {
		return w.forbid("node %q is not allowed to update fields other than status.quantity and status.conditions: %v",
			w.node, diff.Diff(old, claim))
	}
	return nil
}

// restrictSlice rejects creating and deleting a ResourceSlice of another node.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitResourceSlice.
func (w nodeWrite) restrictSlice() error {
	owns := func(obj runtime.Object) bool {
		slice := obj.(*resourcev1.ResourceSlice)
		return slice.Spec.NodeName != nil && ptr.Deref(slice.Spec.NodeName, "") == w.node
	}
	switch {
	case w.op == admissionv1.Create && !owns(w.obj):
		return w.forbid("can only create ResourceSlice with the same NodeName as the requesting node")
	case w.op == admissionv1.Delete && !owns(w.old):
		return w.forbid("can only delete ResourceSlice with the same NodeName as the requesting node")
	}
	return nil
}
