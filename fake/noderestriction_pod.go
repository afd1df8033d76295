package fake

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/podclaims"
	"github.com/volsim/volsim/internal/rbac"
)

// This file has what NodeRestriction says about pods and their tokens.
//
// Upstream: plugin/pkg/admission/noderestriction (v1.36).

// restrictPod rejects writes of pods of other nodes. A kubelet creates mirror pods only, and deletes, evicts and
// reports the status of its own pods.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitPod, admitPodStatus, admitPodEviction.
func (s writer) restrictPod(w nodeWrite) error {
	switch w.sub {
	case "":
		return s.restrictWholePod(w)
	case string(statusSubresource):
		return w.restrictPodStatus()
	case "eviction":
		return s.restrictEviction(w)
	}
	return w.forbid("unexpected pod subresource %q, only 'status' and 'eviction' are allowed", w.sub)
}

func (s writer) restrictWholePod(w nodeWrite) error {
	switch w.op {
	case admissionv1.Create:
		return s.restrictMirrorPod(w, w.obj.(*corev1.Pod))
	case admissionv1.Delete:
		if w.old.(*corev1.Pod).Spec.NodeName != w.node {
			return w.forbid("node %q can only delete pods with spec.nodeName set to itself", w.node)
		}
		return nil
	}
	return w.forbid("unexpected operation %q, node %q can only create and delete mirror pods", w.op, w.node)
}

// restrictMirrorPod rejects a new pod, except a mirror pod of the node that refers to no API object.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitPodCreate.
func (s writer) restrictMirrorPod(w nodeWrite, pod *corev1.Pod) error {
	owners := pod.OwnerReferences
	switch {
	case !isMirrorPod(pod):
		return w.forbid("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, w.node)
	case pod.Spec.NodeName != w.node:
		return w.forbid("node %q can only create pods with spec.nodeName set to itself", w.node)
	case len(owners) > 1:
		return w.forbid("node %q can only create pods with a single owner reference set to itself", w.node)
	case len(owners) == 0, owners[0].APIVersion != "v1", owners[0].Kind != "Node", owners[0].Name != w.node:
		return w.forbid("node %q can only create pods with an owner reference set to itself", w.node)
	case !ptr.Deref(owners[0].Controller, false):
		return w.forbid("node %q can only create pods with a controller owner reference set to itself", w.node)
	case ptr.Deref(owners[0].BlockOwnerDeletion, false):
		return w.forbid("node %q must not set blockOwnerDeletion on an owner reference", w.node)
	}
	node := s.lookup(s.table("nodes"), w.node)
	switch {
	case node == nil:
		return apierrors.NewNotFound(corev1.Resource("node"), w.node)
	case owners[0].UID != node.GetUID():
		return w.forbid("node %s UID mismatch: expected %s got %s", w.node, owners[0].UID, node.GetUID())
	}
	refers, resource, err := refersToObject(pod)
	switch {
	case err != nil:
		return w.forbid("error checking mirror pod for API references: %w", err)
	case refers:
		return w.forbid("node %q can not create pods that reference %s", w.node, resource)
	}
	return nil
}

func isMirrorPod(pod *corev1.Pod) bool {
	_, is := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return is
}

// refersToObject reports whether a pod refers to an API object, and to which resource.
//
// Upstream: pkg/api/pod HasAPIObjectReference.
func refersToObject(pod *corev1.Pod) (refers bool, resource string, err error) {
	secrets, configMaps := podReferences(pod)
	switch {
	case accountName(&pod.Spec) != "":
		return true, "serviceaccounts", nil
	case len(secrets) > 0:
		return true, "secrets", nil
	case len(configMaps) > 0:
		return true, "configmaps", nil
	case len(pod.Spec.ResourceClaims) > 0:
		return true, "resourceclaims", nil
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case isPlainVolume(&v.VolumeSource):
		case v.ConfigMap != nil:
			return true, "configmaps (via configmap volumes)", nil
		case v.Secret != nil:
			return true, "secrets (via secret volumes)", nil
		case v.CSI != nil:
			return true, "csidrivers (via CSI volumes)", nil
		case v.Glusterfs != nil:
			return true, "endpoints (via glusterFS volumes)", nil
		case v.PersistentVolumeClaim != nil:
			return true, "persistentvolumeclaims", nil
		case v.Ephemeral != nil:
			return true, "persistentvolumeclaims (via ephemeral volumes)", nil
		case v.AzureFile != nil:
			return true, "secrets (via azureFile volumes)", nil
		case v.Projected != nil:
			for j := range v.Projected.Sources {
				if refers, resource, err = projectedRefers(v.Name, &v.Projected.Sources[j]); refers {
					return refers, resource, err
				}
			}
		default:
			return true, "", fmt.Errorf("unknown volume type for volume  %q", v.Name)
		}
	}
	return false, "", nil
}

// isPlainVolume reports whether a volume is of a type that refers to no API object but, perhaps, a secret.
func isPlainVolume(v *corev1.VolumeSource) bool {
	return v.AWSElasticBlockStore != nil || v.AzureDisk != nil || v.CephFS != nil || v.Cinder != nil || v.DownwardAPI != nil ||
		v.EmptyDir != nil || v.FC != nil || v.FlexVolume != nil || v.Flocker != nil || v.GCEPersistentDisk != nil ||
		v.GitRepo != nil || v.HostPath != nil || v.Image != nil || v.ISCSI != nil || v.NFS != nil || v.PhotonPersistentDisk != nil ||
		v.PortworxVolume != nil || v.Quobyte != nil || v.RBD != nil || v.ScaleIO != nil || v.StorageOS != nil || v.VsphereVolume != nil
}

// projectedRefers is refersToObject for a source of a projected volume.
func projectedRefers(volume string, source *corev1.VolumeProjection) (refers bool, resource string, err error) {
	switch {
	case source.ConfigMap != nil:
		return true, "configmaps (via projected volumes)", nil
	case source.Secret != nil:
		return true, "secrets (via projected volumes)", nil
	case source.ServiceAccountToken != nil:
		return true, "serviceaccounts (via projected volumes)", nil
	case source.ClusterTrustBundle != nil:
		return true, "clustertrustbundles", nil
	case source.PodCertificate != nil:
		return true, "podcertificates", nil
	case source.DownwardAPI != nil:
		return false, "", nil
	}
	return true, "", fmt.Errorf("unknown source for projected volume %q", volume)
}

func (w nodeWrite) restrictPodStatus() error {
	if w.op != admissionv1.Update {
		return w.forbid("unexpected operation %q", w.op)
	}
	pod, old := w.obj.(*corev1.Pod), w.old.(*corev1.Pod)
	sameClaim := func(a, b corev1.PodResourceClaimStatus) bool {
		return a.Name == b.Name && ptr.Equal(a.ResourceClaimName, b.ResourceClaimName)
	}
	a, b := old.Status.ExtendedResourceClaimStatus, pod.Status.ExtendedResourceClaimStatus
	switch {
	case old.Spec.NodeName != w.node:
		return w.forbid("node %q can only update pod status for pods with spec.nodeName set to itself", w.node)
	case !labels.Equals(old.Labels, pod.Labels):
		return w.forbid("node %q cannot update labels through pod status", w.node)
	case !slices.EqualFunc(old.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses, sameClaim):
		return w.forbid("node %q cannot update resource claim statues", w.node)
	case (a == nil) != (b == nil),
		a != nil && (a.ResourceClaimName != b.ResourceClaimName || !slices.Equal(a.RequestMappings, b.RequestMappings)):
		return w.forbid("node %q cannot update extended resource claim status", w.node)
	}
	return nil
}

func (s writer) restrictEviction(w nodeWrite) error {
	if w.op != admissionv1.Create {
		return w.forbid("unexpected operation %s", w.op)
	}
	name := w.name
	if name == "" {
		name = w.obj.(*policyv1.Eviction).Name
	}
	pod, ok := s.lookup(s.table("pods"), key(w.namespace, name)).(*corev1.Pod)
	switch {
	case !ok:
		return apierrors.NewNotFound(corev1.Resource("pod"), name)
	case pod.Spec.NodeName != w.node:
		return w.forbid("node %s can only evict pods with spec.nodeName set to itself", w.node)
	}
	return nil
}

// restrictToken rejects a token that is not bound to a pod of the node, or is for an audience that the pod does
// not name.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.admitServiceAccount.
func (s writer) restrictToken(w nodeWrite) error {
	if w.op != admissionv1.Create || w.sub != "token" {
		return nil
	}
	req := w.obj.(*authenticationv1.TokenRequest)
	ref := req.Spec.BoundObjectRef
	switch {
	case ref == nil, ref.APIVersion != "v1", ref.Kind != "Pod", ref.Name == "":
		return w.forbid("node requested token not bound to a pod")
	case ref.UID == "":
		return w.forbid("node requested token with a pod binding without a uid")
	}
	pod, ok := s.lookup(s.table("pods"), key(w.namespace, ref.Name)).(*corev1.Pod)
	switch {
	case !ok:
		return apierrors.NewNotFound(corev1.Resource("pod"), ref.Name)
	case ref.UID != pod.UID:
		return w.forbid("the UID in the bound object reference (%s) does not match the UID in record. "+
			"The object might have been deleted and then recreated", ref.UID)
	case pod.Spec.NodeName != w.node:
		return w.forbid("node requested token bound to a pod scheduled on a different node")
	}
	return s.restrictAudience(w, req.Spec.Audiences, pod)
}

// restrictAudience rejects a token for an audience that neither the pod, nor a CSI driver of one of its volumes, nor
// a role of the node names.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.validateNodeServiceAccountAudience.
func (s writer) restrictAudience(w nodeWrite, audiences []string, pod *corev1.Pod) error {
	if len(audiences) > 1 {
		return w.forbid("node may only request 0 or 1 audiences")
	}
	audience := ""
	if len(audiences) == 1 {
		audience = audiences[0]
	}
	named, err := s.namesAudience(pod, audience)
	switch {
	case err != nil:
		return w.forbid("error validating audience %q: %w", audience, err)
	case named:
		return nil
	}
	if ok, _ := s.decide(rbac.Attributes{
		User: s.user, Verb: "request-serviceaccounts-token-audience", Resource: audience, Namespace: w.namespace, Name: w.name,
	}); ok {
		return nil
	}
	return w.forbid("audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience",
		audience, s.user.Username)
}

// namesAudience reports whether a pod names an audience, by itself or by the driver of a volume.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.podReferencesAudience.
func (s writer) namesAudience(pod *corev1.Pod, audience string) (bool, error) {
	var errs []error
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.Projected != nil && slices.ContainsFunc(v.Projected.Sources, func(p corev1.VolumeProjection) bool {
			return p.ServiceAccountToken != nil && p.ServiceAccountToken.Audience == audience
		}) {
			return true, nil
		}
		name, err := s.volumeDriver(pod, v)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case name == "":
			continue
		}
		driver, ok := s.lookup(s.table("csidrivers"), name).(*storagev1.CSIDriver)
		if !ok {
			errs = append(errs, apierrors.NewNotFound(storagev1.Resource("csidriver"), name))
			continue
		}
		if slices.ContainsFunc(driver.Spec.TokenRequests, func(r storagev1.TokenRequest) bool { return r.Audience == audience }) {
			return true, nil
		}
	}
	return false, utilerrors.NewAggregate(errs)
}

// volumeDriver returns the CSI driver of a pod's volume; "": it has none.
func (s writer) volumeDriver(pod *corev1.Pod, v *corev1.Volume) (string, error) {
	translator := csitranslation.New()
	switch {
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil:
		return s.claimDriver(pod.Namespace, podclaims.Name(pod, v))
	case v.CSI != nil:
		return v.CSI.Driver, nil
	case translator.IsInlineMigratable(v):
		pv, err := translator.TranslateInTreeInlineVolumeToCSI(klog.Background(), v, pod.Namespace)
		return driverOf(pv), err
	}
	return "", nil
}

// claimDriver returns the CSI driver of a claim's volume; "": it has none.
//
// Upstream: plugin/pkg/admission/noderestriction Plugin.getCSIFromPVC.
func (s writer) claimDriver(namespace, name string) (string, error) {
	claim, ok := s.lookup(s.table("persistentvolumeclaims"), key(namespace, name)).(*corev1.PersistentVolumeClaim)
	if !ok {
		return "", apierrors.NewNotFound(corev1.Resource("persistentvolumeclaim"), name)
	}
	pv, ok := s.lookup(s.table("persistentvolumes"), claim.Spec.VolumeName).(*corev1.PersistentVolume)
	if !ok {
		return "", apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolume"}, claim.Spec.VolumeName)
	}
	translator := csitranslation.New()
	if pv.Spec.CSI != nil || !translator.IsPVMigratable(pv) {
		return driverOf(pv), nil
	}
	pv, err := translator.TranslateInTreePVToCSI(klog.Background(), pv)
	return driverOf(pv), err
}

func driverOf(pv *corev1.PersistentVolume) string {
	if pv == nil || pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}
