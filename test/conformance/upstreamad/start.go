package upstreamad

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
)

// SyncPeriod is the default period in which upstream's controller verifies that volumes are still
// attached.
//
// Upstream: cmd/kube-controller-manager --attach-detach-reconcile-sync-period (v1.36).
const SyncPeriod = time.Minute

// DefaultTimers holds the default periods and timeouts of upstream's controller.
//
// Upstream: pkg/controller/volume/attachdetach DefaultTimerConfig (v1.36).
var DefaultTimers = attachdetach.DefaultTimerConfig

// Config configures Start.
type Config struct {
	Client             kubernetes.Interface
	Timers             attachdetach.TimerConfig // zero: DefaultTimers
	SyncPeriod         time.Duration            // 0: SyncPeriod
	DisableSync        bool                     // disables the verification of attachments
	DisableForceDetach bool                     // force a detach only on the out-of-service taint
	Plugins            []volume.VolumePlugin    // nil: upstream's CSI plugin
}

// initializing serializes the initialization of the CSI plugin, which writes variables of its
// package.
var initializing sync.Mutex

// Start runs upstream's controller, with informers of its own, until ctx ends. wait returns when it
// has stopped. Operations that still run end by themselves after two minutes at most. The error is
// that of a plugin whose initialization failed.
func Start(ctx context.Context, cfg Config) (wait func(), err error) {
	if cfg.Timers == (attachdetach.TimerConfig{}) {
		cfg.Timers = DefaultTimers
	}
	factory := informers.NewSharedInformerFactory(cfg.Client, 0)
	controller, err := newController(ctx, cfg, factory)
	if err != nil {
		return nil, fmt.Errorf("upstream's attach/detach controller: %w", err)
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

func newController(
	ctx context.Context, cfg Config, factory informers.SharedInformerFactory,
) (attachdetach.AttachDetachController, error) {
	initializing.Lock()
	defer initializing.Unlock()
	plugins := cfg.Plugins
	if plugins == nil {
		plugins = csi.ProbeVolumePlugins()
	}
	core, storage := factory.Core().V1(), factory.Storage().V1()
	return attachdetach.NewAttachDetachController(ctx, cfg.Client, core.Pods(), core.Nodes(), core.PersistentVolumeClaims(),
		core.PersistentVolumes(), storage.CSINodes(), storage.CSIDrivers(), storage.VolumeAttachments(), plugins, nil,
		cfg.DisableSync, cmp.Or(cfg.SyncPeriod, SyncPeriod), cfg.DisableForceDetach, cfg.Timers)
}
