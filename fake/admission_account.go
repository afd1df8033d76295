package fake

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

const (
	rootCAConfigMap = "kube-root-ca.crt"

	tokenVolume = "kube-api-access-"
	tokenDir    = "/var/run/secrets/kubernetes.io/serviceaccount"
	// An hour and seven seconds: by the odd number the real server recognizes the tokens that it has added itself.
	tokenSeconds = 60*60 + 7
)

// admitServiceAccount sets the service account of a pod. A mirror pod, which the kubelet has from a file, stays as it
// is, and may have none.
//
// Upstream: plugin/pkg/admission/serviceaccount Plugin.Admit (v1.36).
func (s *Server) admitServiceAccount(pod *corev1.Pod) error {
	spec := &pod.Spec
	if isMirrorPod(pod) {
		return validateMirrorPod(pod)
	}
	if spec.ServiceAccountName == "" {
		spec.ServiceAccountName = defaultAccount
	}
	spec.DeprecatedServiceAccount = spec.ServiceAccountName
	if s.tokens {
		return s.admitAccount(pod)
	}
	return nil
}

// accountName returns the service account of a pod as it was sent.
func accountName(spec *corev1.PodSpec) string {
	return cmp.Or(spec.ServiceAccountName, spec.DeprecatedServiceAccount)
}

// validateMirrorPod rejects a mirror pod with a service account, secrets or a token.
//
// Upstream: plugin/pkg/admission/serviceaccount Plugin.Validate (v1.36).
func validateMirrorPod(pod *corev1.Pod) error {
	if accountName(&pod.Spec) != "" {
		return forbidPod(pod, "a mirror pod may not reference service accounts")
	}
	if secrets, _ := podReferences(pod); len(secrets) > 0 {
		return forbidPod(pod, "a mirror pod may not reference secrets")
	}
	for i := range pod.Spec.Volumes {
		v := pod.Spec.Volumes[i].Projected
		if v != nil && slices.ContainsFunc(v.Sources, func(p corev1.VolumeProjection) bool { return p.ServiceAccountToken != nil }) {
			return forbidPod(pod, "a mirror pod may not use ServiceAccountToken volume projections")
		}
	}
	return nil
}

// admitAccount sets what a pod takes from its service account: the secrets for images, and a volume with a
// token, the root certificate and the namespace, mounted by each container. See Config.MountTokens.
//
// Differs: the account "default" is taken for one without settings until it exists. Upstream waits for it,
// up to two seconds. Secrets are not limited to those of the account.
//
// Upstream: plugin/pkg/admission/serviceaccount Plugin.Admit (v1.36).
func (s *Server) admitAccount(pod *corev1.Pod) error {
	spec := &pod.Spec
	account, ok := s.lookup(s.table("serviceaccounts"), key(pod.Namespace, spec.ServiceAccountName)).(*corev1.ServiceAccount)
	switch {
	case ok:
	case spec.ServiceAccountName == defaultAccount:
		account = &corev1.ServiceAccount{}
	default:
		return forbidPod(pod, "error looking up service account %s/%s: %w", pod.Namespace, spec.ServiceAccountName,
			apierrors.NewNotFound(corev1.Resource("serviceaccount"), spec.ServiceAccountName))
	}
	if ptr.Deref(spec.AutomountServiceAccountToken, ptr.Deref(account.AutomountServiceAccountToken, true)) {
		s.mountToken(spec)
	}
	if len(spec.ImagePullSecrets) == 0 {
		spec.ImagePullSecrets = slices.Clone(account.ImagePullSecrets)
	}
	return nil
}

// mountToken adds the volume with the token to the containers that have nothing at its place.
//
// Upstream: plugin/pkg/admission/serviceaccount Plugin.mountServiceAccountToken (v1.36).
func (s *Server) mountToken(spec *corev1.PodSpec) {
	var name string
	i := slices.IndexFunc(spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, tokenVolume) })
	if i >= 0 {
		name = spec.Volumes[i].Name
	}
	mounted := false
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for j := range containers {
			c := &containers[j]
			if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == tokenDir }) {
				continue
			}
			if name == "" {
				name = s.generateName(tokenVolume)
			}
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, ReadOnly: true, MountPath: tokenDir})
			mounted = true
		}
	}
	if mounted && i < 0 {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Projected: tokenSource()}})
	}
}

// tokenSource returns the content of the volume.
//
// Upstream: plugin/pkg/admission/serviceaccount TokenVolumeSource (v1.36).
func tokenSource() *corev1.ProjectedVolumeSource {
	return &corev1.ProjectedVolumeSource{
		DefaultMode: ptr.To(corev1.ProjectedVolumeSourceDefaultMode),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](tokenSeconds)}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: rootCAConfigMap},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
}
