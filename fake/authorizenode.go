package fake

import (
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/rbac"
)

// This file has the Node authorizer: a kubelet may read what the pods of its node use, and write what
// belongs to its node.
//
// Differs: it looks the objects up instead of keeping a graph of them. Certificate requests are not served.
// NodeRestriction limits what a kubelet may write.
//
// Upstream: plugin/pkg/auth/authorizer/node.

const (
	nodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
	nodeRole       = "system:node"
)

// nodeOf returns the node of a kubelet's user.
//
// Upstream: pkg/auth/nodeidentifier.
func nodeOf(user *authenticationv1.UserInfo) (node string, isNode bool) {
	node, ok := strings.CutPrefix(user.Username, nodeUserPrefix)
	return node, ok && slices.Contains(user.Groups, nodesGroup)
}

// nodeMay reports whether a node may make a request, and why not.
func (s *Server) nodeMay(node string, a rbac.Attributes) (allowed bool, reason string) {
	if node == "" {
		return false, fmt.Sprintf("unknown node for user %q", a.User.Username)
	}
	if a.Path != "" {
		return s.nodeRuleAllows(a), ""
	}
	switch a.Group + "/" + a.Resource {
	case "/secrets", "/configmaps":
		return s.nodeReads(node, a)
	case "/persistentvolumeclaims":
		if a.Subresource == "status" {
			if a.Verb != "update" && a.Verb != "patch" {
				return false, "can only get/update/patch this type"
			}
			return s.related(node, a)
		}
		return s.nodeGets(node, a)
	case "/persistentvolumes", "storage.k8s.io/volumeattachments", "resource.k8s.io/resourceclaims":
		return s.nodeGets(node, a)
	case "/serviceaccounts":
		return s.nodeAccount(node, a)
	case "coordination.k8s.io/leases":
		return nodeLease(node, a)
	case "storage.k8s.io/csinodes":
		return nodeCSINode(node, a)
	case "resource.k8s.io/resourceslices":
		return s.nodeSlice(node, a)
	case "certificates.k8s.io/podcertificaterequests":
		return false, ""
	case "/nodes":
		return nodeNode(node, a)
	case "/pods":
		return s.nodePod(node, a)
	}
	return s.nodeRuleAllows(a), ""
}

// nodeRuleAllows reports whether the role of all nodes allows a request.
func (s *Server) nodeRuleAllows(a rbac.Attributes) bool {
	role, err := s.policy().RoleRules(rbacv1.RoleRef{Kind: "ClusterRole", Name: nodeRole}, "")
	return err == nil && rbac.RulesAllow(role, a)
}

func (s *Server) nodeReads(node string, a rbac.Attributes) (bool, string) {
	switch {
	case a.Verb != "get" && a.Verb != "list" && a.Verb != "watch":
		return false, "can only read resources of this type"
	case a.Subresource != "":
		return false, "cannot read subresource"
	case a.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return s.related(node, a)
}

func (s *Server) nodeGets(node string, a rbac.Attributes) (bool, string) {
	switch {
	case a.Verb != "get":
		return false, "can only get individual resources of this type"
	case a.Subresource != "":
		return false, "cannot get subresource"
	}
	return s.related(node, a)
}

func (s *Server) nodeAccount(node string, a rbac.Attributes) (bool, string) {
	switch {
	case a.Verb == "get" && a.Subresource == "":
		return s.nodeReads(node, a)
	case a.Verb != "create" || a.Name == "":
		return false, "can only create tokens for individual service accounts"
	case a.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return s.related(node, a)
}

func nodeLease(node string, a rbac.Attributes) (bool, string) {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return false, "can only get, create, update, patch, or delete a node lease"
	case a.Namespace != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case a.Verb != "create" && a.Name != node:
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func nodeCSINode(node string, a rbac.Attributes) (bool, string) {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case a.Subresource != "":
		return false, "cannot authorize CSINode subresources"
	case a.Verb != "create" && a.Name != node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func (s *Server) nodeSlice(node string, a rbac.Attributes) (bool, string) {
	if a.Subresource != "" {
		return false, "cannot authorize ResourceSlice subresources"
	}
	switch a.Verb {
	case "create":
		return true, "" // NodeRestriction knows the object
	case "get", "update", "patch", "delete":
		return s.related(node, a)
	case "watch", "list", "deletecollection":
		if a.NodeName == node {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

func nodeNode(node string, a rbac.Attributes) (bool, string) {
	switch a.Subresource + " " + a.Verb {
	case " create", " update", " patch", "status update", "status patch":
		return true, ""
	case " get", " list", " watch":
		switch a.Name {
		case node:
			return true, ""
		case "":
			return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
		}
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, a.Name)
	}
	return false, ""
}

func (s *Server) nodePod(node string, a rbac.Attributes) (bool, string) {
	switch a.Subresource + " " + a.Verb {
	case " create", " delete", "status update", "status patch", "eviction create":
		return true, ""
	case " get":
		return s.nodeGets(node, a)
	case " list", " watch":
		switch {
		case a.NodeName == node:
			return true, ""
		case a.Name != "":
			return s.related(node, a)
		}
		return false, "can only list/watch pods with spec.nodeName field selector"
	}
	return false, ""
}

// related reports whether an object is one of the node, or one that its pods use.
func (s *Server) related(node string, a rbac.Attributes) (bool, string) {
	if a.Name == "" {
		return false, "No Object name found"
	}
	if s.belongsTo(node, a) {
		return true, ""
	}
	return false, fmt.Sprintf("no relationship found between node '%s' and this object", node)
}

func (s *Server) belongsTo(node string, a rbac.Attributes) bool {
	switch a.Resource {
	case "volumeattachments":
		va, ok := s.lookup(s.table("volumeattachments"), a.Name).(*storagev1.VolumeAttachment)
		return ok && a.Namespace == "" && va.Spec.NodeName == node
	case "pods":
		pod, ok := s.lookup(s.table("pods"), key(a.Namespace, a.Name)).(*corev1.Pod)
		return ok && pod.Spec.NodeName == node
	case "resourceslices":
		slice, ok := s.lookup(s.table("resourceslices"), a.Name).(*resourcev1.ResourceSlice)
		return ok && a.Namespace == "" && ptr.Deref(slice.Spec.NodeName, "") == node
	}
	return slices.ContainsFunc(listed[*corev1.Pod](s, s.table("pods")), func(pod *corev1.Pod) bool {
		return pod.Spec.NodeName == node && !isMirrorPod(pod) && s.podUses(pod, a)
	})
}

// podUses reports whether a pod refers to an object, which need not exist. A volume belongs to the claim that it names.
//
// Upstream: plugin/pkg/auth/authorizer/node Graph.AddPod, AddPV.
func (s *Server) podUses(pod *corev1.Pod, a rbac.Attributes) bool {
	switch a.Resource {
	case "persistentvolumes":
		pv, ok := s.lookup(s.table("persistentvolumes"), a.Name).(*corev1.PersistentVolume)
		return ok && a.Namespace == "" && isVolumeOf(pod, pv)
	case "secrets":
		secret := corev1.SecretReference{Namespace: a.Namespace, Name: a.Name}
		secrets, _ := podReferences(pod)
		return pod.Namespace == a.Namespace && slices.Contains(secrets, a.Name) ||
			slices.ContainsFunc(listed[*corev1.PersistentVolume](s, s.table("persistentvolumes")), func(pv *corev1.PersistentVolume) bool {
				return isVolumeOf(pod, pv) && slices.Contains(persistentSecrets(pv), secret)
			})
	}
	if pod.Namespace != a.Namespace {
		return false
	}
	switch a.Resource {
	case "serviceaccounts":
		return pod.Spec.ServiceAccountName == a.Name
	case "persistentvolumeclaims":
		return usesClaim(pod, a.Name)
	case "configmaps":
		_, configMaps := podReferences(pod)
		return slices.Contains(configMaps, a.Name)
	case "resourceclaims":
		return slices.Contains(resourceClaimNames(pod), a.Name)
	}
	return false
}

// isVolumeOf reports whether a volume is bound to a claim of a pod.
func isVolumeOf(pod *corev1.Pod, pv *corev1.PersistentVolume) bool {
	ref := pv.Spec.ClaimRef
	return ref != nil && ref.Namespace == pod.Namespace && usesClaim(pod, ref.Name)
}

// usesClaim reports whether a claim is a volume of a pod.
func usesClaim(pod *corev1.Pod, name string) bool {
	return slices.Contains(podclaims.Keys(pod), key(pod.Namespace, name))
}

// resourceClaimNames returns the names of a pod's resource claims. Those that are made from a template are in its status.
//
// Upstream: k8s.io/dynamic-resource-allocation/resourceclaim Name.
func resourceClaimNames(pod *corev1.Pod) []string {
	var names []string
	for _, claim := range pod.Spec.ResourceClaims {
		name := claim.ResourceClaimName
		if name == nil && claim.ResourceClaimTemplateName != nil {
			for _, status := range pod.Status.ResourceClaimStatuses {
				if status.Name == claim.Name {
					name = status.ResourceClaimName
					break
				}
			}
		}
		if name != nil {
			names = append(names, *name)
		}
	}
	if extended := pod.Status.ExtendedResourceClaimStatus; extended != nil && extended.ResourceClaimName != "" {
		names = append(names, extended.ResourceClaimName)
	}
	return names
}
