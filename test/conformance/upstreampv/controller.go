package upstreampv

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/volume/persistentvolume"
	"k8s.io/kubernetes/pkg/volume"
)

// ResyncPeriod is upstream's default resync period.
//
// Upstream: cmd/kube-controller-manager --pvclaimbinder-sync-period (v1.36).
const ResyncPeriod = 15 * time.Second

// Config configures Start.
type Config struct {
	Client       kubernetes.Interface
	ResyncPeriod time.Duration // 0: ResyncPeriod
	Plugins      []volume.VolumePlugin
}

// Start runs upstream's controller, with informers of its own, until ctx ends. wait returns when it
// has stopped. The error is that of a plugin whose initialization failed.
func Start(ctx context.Context, cfg Config) (wait func(), err error) {
	if cfg.ResyncPeriod == 0 {
		cfg.ResyncPeriod = ResyncPeriod
	}
	factory := informers.NewSharedInformerFactory(cfg.Client, 0)
	controller, err := persistentvolume.NewController(ctx, persistentvolume.ControllerParameters{
		KubeClient:                cfg.Client,
		SyncPeriod:                cfg.ResyncPeriod,
		VolumePlugins:             cfg.Plugins,
		VolumeInformer:            factory.Core().V1().PersistentVolumes(),
		ClaimInformer:             factory.Core().V1().PersistentVolumeClaims(),
		ClassInformer:             factory.Storage().V1().StorageClasses(),
		PodInformer:               factory.Core().V1().Pods(),
		NodeInformer:              factory.Core().V1().Nodes(),
		EnableDynamicProvisioning: true,
	})
	if err != nil {
		return nil, fmt.Errorf("upstream's PersistentVolume controller: %w", err)
	}
	stopped := make(chan struct{})
	factory.Start(ctx.Done())
	go func() {
		defer close(stopped)
		controller.Run(ctx)
	}()
	return func() {
		<-stopped
		factory.Shutdown()
	}, nil
}
