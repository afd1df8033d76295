package podfiles

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/internal/podtokens"
	"github.com/volsim/volsim/plugins"
)

// The names of the plugins. Volumes of all of them are directories of the first.
const (
	EmptyDirName    = "kubernetes.io/empty-dir"
	ConfigMapName   = "kubernetes.io/configmap"
	SecretName      = "kubernetes.io/secret"
	DownwardAPIName = "kubernetes.io/downward-api"
	ProjectedName   = "kubernetes.io/projected"
)

// Config configures the plugins of one kubelet.
type Config struct {
	Disk        Disk
	Client      kubernetes.Interface
	Allocatable corev1.ResourceList // what pods can have of the node
}

// Plugins returns the plugins of one kubelet. Call them in tasks of its process.
func Plugins(cfg Config) []plugins.Plugin {
	memory := cfg.Allocatable.Memory().Value()
	all := []plugins.Plugin{&emptyDir{cfg.Disk, memory}}
	for _, s := range []source{
		configMaps{cfg.Client},
		secrets{cfg.Client},
		downwardAPI{cfg.Allocatable},
		projected{cfg, podtokens.New(cfg.Disk.Process, cfg.Client)},
	} {
		all = append(all, &plugin{cfg.Disk, s, memory})
	}
	return all
}
