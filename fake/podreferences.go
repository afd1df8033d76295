package fake

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// podReferences returns the names of the secrets and config maps to which a pod refers, in its namespace. Those of
// its claims' volumes are not among them.
//
// Upstream: pkg/api/v1/pod VisitPodSecretNames, VisitPodConfigmapNames.
func podReferences(pod *corev1.Pod) (secrets, configMaps []string) {
	for _, ref := range pod.Spec.ImagePullSecrets {
		secrets = append(secrets, ref.Name)
	}
	environment := func(from []corev1.EnvFromSource, env []corev1.EnvVar) {
		for _, source := range from {
			if source.SecretRef != nil {
				secrets = append(secrets, source.SecretRef.Name)
			}
			if source.ConfigMapRef != nil {
				configMaps = append(configMaps, source.ConfigMapRef.Name)
			}
		}
		for _, v := range env {
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				secrets = append(secrets, v.ValueFrom.SecretKeyRef.Name)
			}
			if v.ValueFrom != nil && v.ValueFrom.ConfigMapKeyRef != nil {
				configMaps = append(configMaps, v.ValueFrom.ConfigMapKeyRef.Name)
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		environment(pod.Spec.InitContainers[i].EnvFrom, pod.Spec.InitContainers[i].Env)
	}
	for i := range pod.Spec.Containers {
		environment(pod.Spec.Containers[i].EnvFrom, pod.Spec.Containers[i].Env)
	}
	for i := range pod.Spec.EphemeralContainers {
		environment(pod.Spec.EphemeralContainers[i].EnvFrom, pod.Spec.EphemeralContainers[i].Env)
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i].VolumeSource
		switch {
		case v.ConfigMap != nil:
			configMaps = append(configMaps, v.ConfigMap.Name)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				if source.Secret != nil {
					secrets = append(secrets, source.Secret.Name)
				}
				if source.ConfigMap != nil {
					configMaps = append(configMaps, source.ConfigMap.Name)
				}
			}
		default:
			secrets = append(secrets, volumeSecret(v))
		}
	}
	unnamed := func(name string) bool { return name == "" }
	return slices.DeleteFunc(secrets, unnamed), slices.DeleteFunc(configMaps, unnamed)
}

// volumeSecret returns the secret of a volume in a pod; "": it has none.
func volumeSecret(v *corev1.VolumeSource) string {
	var ref *corev1.LocalObjectReference
	switch {
	case v.AzureFile != nil:
		return v.AzureFile.SecretName
	case v.Secret != nil:
		return v.Secret.SecretName
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	}
	return ptr.Deref(ref, corev1.LocalObjectReference{}).Name
}

// persistentSecrets returns the secrets of a PersistentVolume that a kubelet may read.
//
// Upstream: pkg/api/v1/persistentvolume VisitPVSecretNames.
func persistentSecrets(pv *corev1.PersistentVolume) []corev1.SecretReference {
	claims := ptr.Deref(pv.Spec.ClaimRef, corev1.ObjectReference{}).Namespace
	var refs []*corev1.SecretReference
	// ofClaim adds a secret that is in the namespace of the claim unless it names one.
	ofClaim := func(ref *corev1.SecretReference) {
		if ref != nil {
			refs = append(refs, &corev1.SecretReference{Namespace: cmp.Or(ref.Namespace, claims), Name: ref.Name})
		}
	}
	switch v := &pv.Spec.PersistentVolumeSource; {
	case v.AzureFile != nil:
		ofClaim(&corev1.SecretReference{Namespace: ptr.Deref(v.AzureFile.SecretNamespace, ""), Name: v.AzureFile.SecretName})
	case v.CephFS != nil:
		ofClaim(v.CephFS.SecretRef)
	case v.Cinder != nil:
		refs = append(refs, v.Cinder.SecretRef)
	case v.FlexVolume != nil:
		ofClaim(v.FlexVolume.SecretRef)
	case v.RBD != nil:
		ofClaim(v.RBD.SecretRef)
	case v.ScaleIO != nil:
		ofClaim(v.ScaleIO.SecretRef)
	case v.ISCSI != nil:
		ofClaim(v.ISCSI.SecretRef)
	case v.StorageOS != nil:
		if ref := v.StorageOS.SecretRef; ref != nil {
			refs = append(refs, &corev1.SecretReference{Namespace: ref.Namespace, Name: ref.Name})
		}
	case v.CSI != nil:
		refs = append(refs, v.CSI.NodePublishSecretRef, v.CSI.NodeStageSecretRef, v.CSI.NodeExpandSecretRef)
	}
	var secrets []corev1.SecretReference
	for _, ref := range refs {
		if ref != nil && ref.Name != "" {
			secrets = append(secrets, *ref)
		}
	}
	return secrets
}
