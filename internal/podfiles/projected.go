package podfiles

import (
	"context"
	"errors"
	"io/fs"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/volsim/volsim/internal/podtokens"
)

// ownerMode is the mode of a token in a pod that has a user or a group for its files.
const ownerMode fs.FileMode = 0o600

// projected makes files, in memory, of several sources, and tokens of the pod's service account. A
// token is replaced before it expires.
//
// Upstream: pkg/volume/projected (v1.36).
type projected struct {
	cfg    Config
	tokens *podtokens.Tokens
}

func (projected) name() string { return ProjectedName }

func (projected) supports(volume *corev1.Volume) bool { return volume.Projected != nil }

func (projected) volumeName(volume *corev1.Volume) string { return volume.Name }

func (projected) empty() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}
}

func (projected) memory() bool { return true }

func (s projected) forget(pod types.UID) { s.tokens.Forget(pod) }

// payload returns the files of all sources; later ones replace earlier ones of the same path. The
// error joins those of all sources.
//
// Upstream: pkg/volume/projected projectedVolumeMounter.collectData (v1.36).
func (s projected) payload(
	ctx context.Context, pod *corev1.Pod, volume *corev1.Volume, group *int64,
) (Payload, error) {
	mode := volume.Projected.DefaultMode
	if mode == nil {
		return nil, errNoMode
	}
	all := Payload{}
	var failed []error
	for i := range volume.Projected.Sources {
		files, err := s.files(ctx, pod, &volume.Projected.Sources[i], mode, group)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		maps.Copy(all, files)
	}
	return all, utilerrors.NewAggregate(failed)
}

// files returns the files of one source.
//
// Differs: cluster trust bundles and pod certificates are refused, in the words of a kubelet whose
// feature gates for them are off, as they are by default.
func (s projected) files(
	ctx context.Context, pod *corev1.Pod, from *corev1.VolumeProjection, mode *int32, group *int64,
) (Payload, error) {
	switch {
	case from.ConfigMap != nil:
		k := keys{from.ConfigMap.Name, from.ConfigMap.Items, from.ConfigMap.Optional}
		return k.configMap(ctx, s.cfg.Client, pod, mode)
	case from.Secret != nil:
		k := keys{from.Secret.Name, from.Secret.Items, from.Secret.Optional}
		return k.secret(ctx, s.cfg.Client, pod, mode)
	case from.DownwardAPI != nil:
		return fieldsOf(pod, from.DownwardAPI.Items, mode, s.cfg.Allocatable)
	case from.ServiceAccountToken != nil:
		return s.token(ctx, pod, from.ServiceAccountToken, mode, group)
	case from.ClusterTrustBundle != nil:
		return nil, errors.New("ClusterTrustBundle projection is not supported in static kubelet mode")
	case from.PodCertificate != nil:
		return nil, errors.New("unimplemented")
	default:
		return nil, nil
	}
}

// token returns a file with a token of the pod's service account. Only the user of the containers,
// or the group of the volume, can read it if there is one.
func (s projected) token(
	ctx context.Context, pod *corev1.Pod, from *corev1.ServiceAccountTokenProjection, mode *int32, group *int64,
) (Payload, error) {
	token, err := s.tokens.Get(ctx, pod, podtokens.Request{Audience: from.Audience, Seconds: from.ExpirationSeconds})
	if err != nil {
		return nil, err
	}
	file := File{Data: []byte(token.Status.Token), Mode: fs.FileMode(*mode), User: userOf(pod)}
	if file.User != nil || group != nil {
		file.Mode = ownerMode
	}
	return Payload{from.Path: file}, nil
}

// userOf returns the user of all containers of a pod; nil if they differ or one has none.
//
// Upstream: pkg/volume/util FsUserFrom, pkg/securitycontext DetermineEffectiveRunAsUser (v1.36).
func userOf(pod *corev1.Pod) *int64 {
	var user *int64
	for _, all := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range all {
			runs := runAsUser(pod, &all[i])
			if runs == nil || user != nil && *user != *runs {
				return nil
			}
			user = runs
		}
	}
	return user
}

func runAsUser(pod *corev1.Pod, c *corev1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.RunAsUser
	}
	return nil
}
