// Package schedulerconfig reads the configuration of a scheduler: a KubeSchedulerConfiguration.
//
//	file, err := schedulerconfig.Parse(yaml)
//	cfg, err := schedulerconfig.New(file, schedulerconfig.Features{})
//	for _, plugin := range cfg.Profiles[0].Plugins[schedulerconfig.Score] {
//		… plugin.Name, plugin.Weight
//	}
//
// Parse reads kubescheduler.config.k8s.io/v1 as strictly as kube-scheduler. New adds upstream's defaults,
// checks all values, and determines which plugins act at which point, and in which order. Errors have
// upstream's texts. What the scheduler here cannot do is refused: plugins that are not upstream's own, and
// those of dynamic resource allocation, pod groups and declared features.
//
// Fields about the process of a kube-scheduler are read and ignored: leaderElection, clientConnection,
// parallelism, enableProfiling, enableContentionProfiling, delayCacheUntilActive.
//
// Upstream: pkg/scheduler/apis/config, pkg/scheduler/framework/runtime NewFramework (v1.36).
package schedulerconfig
