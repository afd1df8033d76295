package scheddiff

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	upstream "k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// A decision is what a scheduler does with a pod.
type decision struct {
	best      []string // upstream: the nodes with the highest score; ours: the pod's node
	message   string   // why there is none
	nominated string   // the node on which there will be room
	victims   []string // the pods that make it
}

func (d decision) String() string {
	return fmt.Sprintf("nodes %v, message %q, nominated %q, victims %v", d.best, d.message, d.nominated, d.victims)
}

// admits reports whether ours, which is d, is right according to upstream.
func (d decision) admittedBy(of decision) bool {
	if len(of.best) > 0 {
		return len(d.best) == 1 && slices.Contains(of.best, d.best[0])
	}
	return len(d.best) == 0 && d.message == of.message && d.nominated == of.nominated && slices.Equal(d.victims, of.victims)
}

type noEvents struct{}

func (noEvents) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}
func (noEvents) WithLogger(klog.Logger) events.EventRecorderLogger                             { return noEvents{} }

// judge returns upstream's decision about a pod.
func judge(objects []runtime.Object, pod *corev1.Pod) (decision, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := fake.NewClientset()
	informers := upstream.NewInformerFactory(client, 0)
	sched, err := upstream.New(ctx, client, informers, nil, func(string) events.EventRecorderLogger { return noEvents{} })
	if err != nil {
		return decision{}, err
	}
	for _, obj := range objects {
		var to cache.SharedIndexInformer
		switch o := obj.(type) {
		case *corev1.Node:
			sched.Cache.AddNode(klog.FromContext(ctx), o)
			to = informers.Core().V1().Nodes().Informer()
		case *corev1.Pod:
			if o.Spec.NodeName != "" {
				if err := sched.Cache.AddPod(klog.FromContext(ctx), o); err != nil {
					return decision{}, err
				}
			}
			if err := client.Tracker().Add(o); err != nil {
				return decision{}, err
			}
			to = informers.Core().V1().Pods().Informer()
		case *corev1.PersistentVolume:
			to = informers.Core().V1().PersistentVolumes().Informer()
		case *corev1.PersistentVolumeClaim:
			to = informers.Core().V1().PersistentVolumeClaims().Informer()
		case *corev1.Namespace:
			to = informers.Core().V1().Namespaces().Informer()
		case *storagev1.StorageClass:
			to = informers.Storage().V1().StorageClasses().Informer()
		case *storagev1.CSINode:
			to = informers.Storage().V1().CSINodes().Informer()
		case *storagev1.CSIDriver:
			to = informers.Storage().V1().CSIDrivers().Informer()
		case *storagev1.CSIStorageCapacity:
			to = informers.Storage().V1().CSIStorageCapacities().Informer()
		case *storagev1.VolumeAttachment:
			to = informers.Storage().V1().VolumeAttachments().Informer()
		case *policyv1.PodDisruptionBudget:
			to = informers.Policy().V1().PodDisruptionBudgets().Informer()
		default:
			return decision{}, fmt.Errorf("unexpected %T", obj)
		}
		if err := to.GetIndexer().Add(obj); err != nil {
			return decision{}, err
		}
	}
	f := sched.Profiles[corev1.DefaultSchedulerName]
	if err := sched.Cache.UpdateSnapshot(klog.FromContext(ctx), f.SnapshotSharedLister().(*internalcache.Snapshot)); err != nil {
		return decision{}, err
	}
	for _, obj := range objects {
		if p, ok := obj.(*corev1.Pod); ok && p.Spec.NodeName == "" && p.Status.NominatedNodeName != "" {
			info, err := framework.NewPodInfo(p)
			if err != nil {
				return decision{}, err
			}
			sched.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info, nil)
		}
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return decision{}, err
	}
	state := framework.NewCycleState()
	result, err := sched.SchedulePod(ctx, f, state, &framework.QueuedPodInfo{PodInfo: info})
	var unfit *framework.FitError
	switch {
	case errors.As(err, &unfit):
		result, status := f.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
		unfit.Diagnosis.PostFilterMsg = status.Message()
		d := decision{message: unfit.Error()}
		if result != nil && result.NominatingInfo != nil {
			d.nominated = result.NominatingInfo.NominatedNodeName
		}
		for _, action := range client.Actions() {
			if a, ok := action.(clienttesting.DeleteAction); ok {
				d.victims = append(d.victims, a.GetName())
			}
		}
		slices.Sort(d.victims)
		return d, nil
	case err != nil:
		return decision{message: err.Error()}, nil
	}
	best, err := bestNodes(ctx, f, state, pod, result.SuggestedHost)
	return decision{best: best}, err
}

// bestNodes returns the nodes that upstream rates best.
func bestNodes(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *corev1.Pod, chosen string) ([]string, error) {
	if pod.Status.NominatedNodeName == chosen {
		return []string{chosen}, nil // it was not compared with others
	}
	all, err := f.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, err
	}
	fresh := framework.NewCycleState()
	eligible, status, _ := f.RunPreFilterPlugins(ctx, fresh, pod)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var feasible []fwk.NodeInfo
	for _, node := range all {
		if (eligible.AllNodes() || eligible.NodeNames.Has(node.Node().Name)) &&
			f.RunFilterPluginsWithNominatedPods(ctx, fresh, pod, node).IsSuccess() {
			feasible = append(feasible, node)
		}
	}
	if status := f.RunPreScorePlugins(ctx, fresh, pod, feasible); !status.IsSuccess() {
		return nil, status.AsError()
	}
	scores, status := f.RunScorePlugins(ctx, fresh, pod, feasible)
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	var best []string
	top := slices.MaxFunc(scores, func(a, b fwk.NodePluginScores) int { return int(a.TotalScore - b.TotalScore) }).TotalScore
	for _, score := range scores {
		if score.TotalScore == top {
			best = append(best, score.Name)
		}
	}
	slices.Sort(best)
	if !slices.Contains(best, chosen) {
		return nil, fmt.Errorf("%s was chosen, %v are best", chosen, best)
	}
	return best, nil
}

// withoutGoroutines lets upstream preempt within PostFilter.
func withoutGoroutines() error {
	return utilfeature.DefaultMutableFeatureGate.Set(string(features.SchedulerAsyncPreemption) + "=false")
}
