package fake

import (
	"errors"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake/internal/rules"
)

// This file has the default admission plugins that matter to storage. Those of pods and services
// are in admission_pod.go.
//
// Differs: there is no TaintNodesByCondition: a new node is not tainted as not ready, and accepts
// pods at once.

const (
	finalizerClaim  = "kubernetes.io/pvc-protection"
	finalizerVolume = "kubernetes.io/pv-protection"
	finalizerClass  = "kubernetes.io/vac-protection"

	defaultClassAnnotation     = "storageclass.kubernetes.io/is-default-class"
	defaultClassAnnotationBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// admitNamespace rejects a creation in a namespace that does not exist or is terminating.
//
// Upstream: k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle.
func (s *Server) admitNamespace(k *kind, namespace string, m *metav1.ObjectMeta) error {
	if !k.namespaced {
		return nil
	}
	ns, _ := s.lookup(s.table("namespaces"), namespace).(*corev1.Namespace)
	if ns == nil {
		return apierrors.NewNotFound(corev1.Resource("namespaces"), namespace)
	}
	if ns.DeletionTimestamp != nil {
		err := apierrors.NewForbidden(k.groupResource(), requestedName(m), fmt.Errorf(
			"unable to create new content in namespace %s because it is being terminated", namespace))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{
			Type: corev1.NamespaceTerminatingCause, Field: "metadata.namespace",
			Message: fmt.Sprintf("namespace %s is being terminated", namespace),
		}}
		return err
	}
	return nil
}

// requestedName returns the name that errors use for an object whose name may not be generated yet.
//
// Upstream: k8s.io/apiserver/pkg/admission extractResourceName.
func requestedName(m *metav1.ObjectMeta) string {
	switch {
	case m.Name != "":
		return m.Name
	case m.GenerateName != "":
		return m.GenerateName
	default:
		return "Unknown"
	}
}

// admitCreation sets defaults, and applies the plugins that may change an object to be created.
func (s writer) admitCreation(k *kind, obj Object) (Object, error) {
	m := metaOf(obj)
	m.DeletionTimestamp, m.DeletionGracePeriodSeconds = nil, nil
	m.CreationTimestamp, m.UID = metav1.Time{}, ""
	k.defaults(obj)
	if err := s.admitCreate(obj); err != nil {
		return nil, err
	}
	return s.admission.mutate(obj, nil, s.admitCreate)
}

// admitChange applies the Admitter to what was sent.
func (s writer) admitChange(k *kind, obj, old Object) (Object, error) {
	if s.admission == nil {
		return obj, nil
	}
	s.admission.as(admissionv1.Update)
	clean(obj)
	k.defaults(obj)
	return s.admission.mutate(obj, old, func(Object) error { return nil })
}

// admitCreate applies the mutating plugins to an object to be created.
//
// Upstream: plugin/pkg/admission/storage/storageobjectinuseprotection, storageclass/setdefault.
func (s *Server) admitCreate(obj Object) error {
	switch o := obj.(type) {
	case *corev1.Pod:
		s.defaultResources(o)
		return s.admitPod(o)
	case *corev1.Service:
		s.admitService(o)
	case *storagev1.VolumeAttributesClass:
		o.Finalizers = s.withFinalizer(o.Finalizers, finalizerClass)
	case *corev1.PersistentVolume:
		o.Finalizers = s.withFinalizer(o.Finalizers, finalizerVolume)
	case *corev1.PersistentVolumeClaim:
		if !s.crossNamespace {
			rules.DropCrossNamespaceSource(o)
		}
		o.Finalizers = s.withFinalizer(o.Finalizers, finalizerClaim)
		if _, ok := o.Annotations[corev1.BetaStorageClassAnnotation]; !ok && o.Spec.StorageClassName == nil {
			if class := s.defaultClass(); class != nil {
				o.Spec.StorageClassName = &class.Name
			}
		}
	}
	return nil
}

// withFinalizer returns the finalizers of a new object, with f unless the server does not protect
// objects.
func (s *Server) withFinalizer(finalizers []string, f string) []string {
	if !s.protect || slices.Contains(finalizers, f) {
		return finalizers
	}
	return append(finalizers, f)
}

// defaultClass returns the newest default class; of two of the same age, the first by name. It
// returns nil if there is none.
//
// Upstream: pkg/volume/util GetDefaultClass.
func (s *Server) defaultClass() *storagev1.StorageClass {
	t := s.table("storageclasses")
	s.mu.RLock()
	defer s.mu.RUnlock()
	var best *storagev1.StorageClass
	t.objects.Scan(func(_ string, obj Object) bool {
		class := obj.(*storagev1.StorageClass)
		isDefault := class.Annotations[defaultClassAnnotation] == "true" ||
			class.Annotations[defaultClassAnnotationBeta] == "true"
		if isDefault && (best == nil || best.CreationTimestamp.Before(&class.CreationTimestamp)) {
			best = class
		}
		return true
	})
	return best
}

// admitUpdate applies the validating plugins to an update.
//
// Upstream: plugin/pkg/admission/storage/persistentvolume/resize.
func (s *Server) admitUpdate(obj, old Object) error {
	claim, ok := obj.(*corev1.PersistentVolumeClaim)
	if !ok {
		return nil
	}
	oldClaim := old.(*corev1.PersistentVolumeClaim)
	if size := claim.Spec.Resources.Requests.Storage(); size.Cmp(*oldClaim.Spec.Resources.Requests.Storage()) <= 0 {
		return nil
	}
	msg := ""
	switch {
	case oldClaim.Status.Phase != corev1.ClaimBound:
		msg = "Only bound persistent volume claims can be expanded"
	case !s.expandable(claim, oldClaim):
		msg = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
	default:
		return nil
	}
	return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), claim.Name, errors.New(msg))
}

func (s *Server) expandable(claim, oldClaim *corev1.PersistentVolumeClaim) bool {
	name := className(claim)
	if name == "" || name != className(oldClaim) {
		return false
	}
	class, ok := s.lookup(s.table("storageclasses"), name).(*storagev1.StorageClass)
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}

// className returns the class in the claim's beta annotation or, without one, in its spec.
func className(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
