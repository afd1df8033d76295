package scheduler

import (
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/schedulerconfig"
	"github.com/volsim/volsim/scheduler/internal/defaultpreemption"
	"github.com/volsim/volsim/scheduler/internal/framework"
	"github.com/volsim/volsim/scheduler/internal/imagelocality"
	"github.com/volsim/volsim/scheduler/internal/interpodaffinity"
	"github.com/volsim/volsim/scheduler/internal/nodeaffinity"
	"github.com/volsim/volsim/scheduler/internal/nodename"
	"github.com/volsim/volsim/scheduler/internal/nodeports"
	"github.com/volsim/volsim/scheduler/internal/noderesources"
	"github.com/volsim/volsim/scheduler/internal/nodeunschedulable"
	"github.com/volsim/volsim/scheduler/internal/nodevolumelimits"
	"github.com/volsim/volsim/scheduler/internal/podtopologyspread"
	"github.com/volsim/volsim/scheduler/internal/tainttoleration"
	"github.com/volsim/volsim/scheduler/internal/volumebinding"
	"github.com/volsim/volsim/scheduler/internal/volumerestrictions"
	"github.com/volsim/volsim/scheduler/internal/volumezone"
)

// defaults returns the configuration without a file. It must not be changed.
var defaults = sync.OnceValues(func() (*schedulerconfig.Config, error) {
	return schedulerconfig.New(nil, schedulerconfig.Features{})
})

// newPlugin makes a plugin. It is nil for those that do nothing here: scheduling gates, the order of the queue
// and the assignment to a node are parts of the scheduler.
func (p *profile) newPlugin(name string, cfg *schedulerconfig.Profile) (framework.Plugin, error) {
	switch name {
	case nodeunschedulable.Name:
		return nodeunschedulable.New(p.handle), nil
	case nodename.Name:
		return nodename.New(p.handle), nil
	case tainttoleration.Name:
		return tainttoleration.New(p.handle), nil
	case nodeaffinity.Name:
		return nodeaffinity.New(p.handle, &cfg.NodeAffinity)
	case nodeports.Name:
		return nodeports.New(p.handle), nil
	case noderesources.Name:
		return noderesources.NewFit(p.handle, &cfg.NodeResourcesFit)
	case noderesources.BalancedName:
		return noderesources.NewBalancedAllocation(p.handle, &cfg.NodeResourcesBalancedAllocation)
	case volumerestrictions.Name:
		return volumerestrictions.New(p.handle), nil
	case nodevolumelimits.Name:
		return nodevolumelimits.New(p.handle), nil
	case volumebinding.Name:
		return volumebinding.New(p.handle, volumebinding.Args{
			// 0 of a file is not to wait.
			BindTimeout:            max(time.Duration(*cfg.VolumeBinding.BindTimeoutSeconds)*time.Second, 1),
			StorageCapacityScoring: p.cfg.StorageCapacityScoring,
			Shape:                  cfg.VolumeBinding.Shape,
		}), nil
	case volumezone.Name:
		return volumezone.New(p.handle), nil
	case podtopologyspread.Name:
		return podtopologyspread.New(p.handle, &cfg.PodTopologySpread)
	case imagelocality.Name:
		return imagelocality.New(p.handle), nil
	case interpodaffinity.Name:
		return interpodaffinity.New(p.handle, &cfg.InterPodAffinity)
	case defaultpreemption.Name:
		return defaultpreemption.New(p.handle, defaultpreemption.Config{
			Recorder: p.cfg.Recorder, Filter: p.filterWithNominated, Changers: []framework.PodChanger{&p.plugins},
			Nominated: p.nominated.of, Activate: p.queue.activate, Extend: p.extenders.Preempt,
			MinCandidateNodesPercentage: int(ptr.Deref(cfg.DefaultPreemption.MinCandidateNodesPercentage, 0)),
			MinCandidateNodesAbsolute:   int(ptr.Deref(cfg.DefaultPreemption.MinCandidateNodesAbsolute, 0)),
		}), nil
	}
	return nil, nil
}

// everything is an interest in all changes: those that may help a pod that an extender rejected.
func everything() []framework.EventHint {
	var hints []framework.EventHint
	for _, resource := range []framework.EventResource{
		framework.Pod, framework.Node, framework.PersistentVolume, framework.PersistentVolumeClaim, framework.StorageClass,
		framework.CSINode, framework.CSIDriver, framework.CSIStorageCapacity, framework.VolumeAttachment,
	} {
		hints = append(hints, framework.EventHint{Resource: resource, Action: framework.Add | framework.Delete | framework.Update})
	}
	return hints
}
