package kubelet

import (
	"context"
	"errors"
	"path"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	utilstrings "k8s.io/utils/strings"

	"github.com/volsim/volsim/plugins"
)

// errGitRepo has upstream's text.
var errGitRepo = errors.New("git-repo volume plugin has been disabled; " +
	"if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`")

// A gitRepo plugin refuses to mount volumes of kind gitRepo.
//
// Upstream: pkg/volume/git_repo gitRepoPlugin (v1.36), whose feature gate is locked to off.
type gitRepo struct{ root string }

var _ plugins.Mounter = gitRepo{}

func (gitRepo) Name() string { return "kubernetes.io/git-repo" }

func (gitRepo) CanSupport(spec *plugins.Spec) bool {
	return spec.Volume != nil && spec.Volume.GitRepo != nil
}

func (gitRepo) VolumeName(spec *plugins.Spec) (string, error) {
	if spec.Volume == nil || spec.Volume.GitRepo == nil {
		//lint:ignore ST1005 the text is upstream's
		return "", errors.New("Spec does not reference a Git repo volume type")
	}
	source := spec.Volume.GitRepo
	return source.Repository + ":" + source.Revision + ":" + source.Directory, nil
}

func (g gitRepo) MountPath(spec *plugins.Spec, pod types.UID) string {
	return path.Join(g.root, "pods", string(pod), "volumes", utilstrings.EscapeQualifiedName(g.Name()), spec.Name())
}

func (gitRepo) SetUp(context.Context, *plugins.Spec, *corev1.Pod, plugins.MountOptions) error {
	return errGitRepo
}

func (gitRepo) TearDown(context.Context, string, types.UID) error { return nil }
