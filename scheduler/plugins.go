package scheduler

import (
	"encoding/json"
	"fmt"
	"sync"
	"time"

	configv1 "k8s.io/kube-scheduler/config/v1"
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

// arguments are those of a profile's plugins.
type arguments struct {
	nodeAffinity     nodeaffinity.Args
	fit              noderesources.FitArgs
	balanced         noderesources.BalancedAllocationArgs
	spread           podtopologyspread.Args
	interPodAffinity interpodaffinity.Args
	volumeBinding    volumebinding.Args
	preemption       configv1.DefaultPreemptionArgs
}

// configuration is what a scheduler needs to know.
type configuration struct {
	*schedulerconfig.Config

	arguments []*arguments // of each profile
}

// newConfiguration checks a file; nil has upstream's defaults.
func newConfiguration(file *configv1.KubeSchedulerConfiguration, features schedulerconfig.Features) (*configuration, error) {
	cfg, err := schedulerconfig.New(file, features)
	if err != nil {
		return nil, err
	}
	c := &configuration{Config: cfg}
	for i := range cfg.Profiles {
		args, err := newArguments(&cfg.Profiles[i], features)
		if err != nil {
			return nil, err
		}
		c.arguments = append(c.arguments, args)
	}
	return c, nil
}

// defaults returns the configuration without a file. It must not be changed.
var defaults = sync.OnceValues(func() (*configuration, error) {
	return newConfiguration(nil, schedulerconfig.Features{})
})

func newArguments(p *schedulerconfig.Profile, features schedulerconfig.Features) (*arguments, error) {
	args := &arguments{preemption: p.DefaultPreemption, volumeBinding: volumebinding.Args{
		// 0 of a file is not to wait.
		BindTimeout:            max(time.Duration(ptr.Deref(p.VolumeBinding.BindTimeoutSeconds, 600))*time.Second, 1),
		StorageCapacityScoring: features.StorageCapacityScoring,
	}}
	for _, point := range p.VolumeBinding.Shape {
		args.volumeBinding.Shape = append(args.volumeBinding.Shape,
			volumebinding.ShapePoint{Utilization: int64(point.Utilization), Score: int64(point.Score)})
	}
	for _, c := range []struct{ from, to any }{
		{p.NodeAffinity, &args.nodeAffinity},
		{p.NodeResourcesFit, &args.fit},
		{p.NodeResourcesBalancedAllocation, &args.balanced},
		{p.PodTopologySpread, &args.spread},
		{p.InterPodAffinity, &args.interPodAffinity},
	} {
		text, err := json.Marshal(c.from)
		if err == nil {
			err = json.Unmarshal(text, c.to)
		}
		if err != nil {
			return nil, fmt.Errorf("arguments of plugins: %w", err)
		}
	}
	return args, nil
}

// newPlugin makes a plugin. It is nil for those that do nothing here: scheduling gates, the order of the queue
// and the assignment to a node are parts of the scheduler.
func (p *profile) newPlugin(name string, args *arguments) (framework.Plugin, error) {
	switch name {
	case nodeunschedulable.Name:
		return nodeunschedulable.New(p.handle), nil
	case nodename.Name:
		return nodename.New(p.handle), nil
	case tainttoleration.Name:
		return tainttoleration.New(p.handle), nil
	case nodeaffinity.Name:
		return nodeaffinity.New(p.handle, args.nodeAffinity)
	case nodeports.Name:
		return nodeports.New(p.handle), nil
	case noderesources.Name:
		return noderesources.NewFit(p.handle, args.fit)
	case noderesources.BalancedName:
		return noderesources.NewBalancedAllocation(p.handle, args.balanced)
	case volumerestrictions.Name:
		return volumerestrictions.New(p.handle), nil
	case nodevolumelimits.Name:
		return nodevolumelimits.New(p.handle), nil
	case volumebinding.Name:
		return volumebinding.New(p.handle, args.volumeBinding), nil
	case volumezone.Name:
		return volumezone.New(p.handle), nil
	case podtopologyspread.Name:
		return podtopologyspread.New(p.handle, args.spread)
	case imagelocality.Name:
		return imagelocality.New(p.handle), nil
	case interpodaffinity.Name:
		return interpodaffinity.New(p.handle, args.interPodAffinity)
	case defaultpreemption.Name:
		return defaultpreemption.New(p.handle, defaultpreemption.Config{
			Recorder: p.cfg.Recorder, Filter: p.filterWithNominated, Changers: []framework.PodChanger{&p.plugins},
			Nominated: p.nominated.of, Activate: p.queue.activate, Extend: p.extenders.Preempt,
			MinCandidateNodesPercentage: int(ptr.Deref(args.preemption.MinCandidateNodesPercentage, 0)),
			MinCandidateNodesAbsolute:   int(ptr.Deref(args.preemption.MinCandidateNodesAbsolute, 0)),
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
