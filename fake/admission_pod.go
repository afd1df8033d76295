package fake

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/volsim/volsim/fake/internal/rules"
)

// defaultAccount is the default service account of a pod.
const defaultAccount = "default"

// admitPod applies the plugins ServiceAccount, Priority, DefaultTolerationSeconds and
// PodTopologyLabels to a pod.
//
// Differs: the service account need not exist, and no token is mounted, unless Config.MountTokens says so.
//
// Upstream: plugin/pkg/admission/serviceaccount, priority, defaulttolerationseconds,
// podtopologylabels.
func (s *Server) admitPod(pod *corev1.Pod) error {
	spec := &pod.Spec
	if err := s.admitServiceAccount(pod); err != nil {
		return err
	}
	if err := s.admitPriority(pod); err != nil {
		return err
	}
	rules.AddDefaultTolerations(spec)
	if spec.NodeName != "" {
		pod.Labels = s.withTopology(pod.Labels, spec.NodeName)
	}
	return nil
}

// withTopology adds the topology labels of a node, if it exists, to the labels of a pod or of its
// binding. It may modify the map.
func (s *Server) withTopology(labels map[string]string, name string) map[string]string {
	node, ok := s.lookup(s.table("nodes"), name).(*corev1.Node)
	if !ok {
		return labels
	}
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := node.Labels[label]; ok {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[label] = value
		}
	}
	return labels
}

// admitPriority sets a pod's priority from its class or the default class.
func (s *Server) admitPriority(pod *corev1.Pod) error {
	spec := &pod.Spec
	value, policy := int32(0), corev1.PreemptLowerPriority
	if spec.PriorityClassName == "" {
		if class := s.defaultPriority(); class != nil {
			spec.PriorityClassName, value, policy = class.Name, class.Value, *class.PreemptionPolicy
		}
	} else if system, ok := rules.SystemPriority(spec.PriorityClassName); ok {
		value = system
	} else {
		class, ok := s.lookup(s.table("priorityclasses"), spec.PriorityClassName).(*schedulingv1.PriorityClass)
		if !ok {
			return forbidPod(pod, "no PriorityClass with name %v was found", spec.PriorityClassName)
		}
		value, policy = class.Value, *class.PreemptionPolicy
	}
	if spec.Priority != nil && *spec.Priority != value {
		return forbidPod(pod,
			"the integer value of priority (%d) must not be provided in pod spec; priority admission "+
				"controller computed %d from the given PriorityClass name", *spec.Priority, value)
	}
	if spec.PreemptionPolicy != nil && *spec.PreemptionPolicy != policy {
		return forbidPod(pod,
			"the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission "+
				"controller computed %s from the given PriorityClass name", *spec.PreemptionPolicy, policy)
	}
	spec.Priority, spec.PreemptionPolicy = &value, &policy
	return nil
}

func forbidPod(pod *corev1.Pod, format string, args ...any) error {
	return apierrors.NewForbidden(corev1.Resource("pods"), requestedName(&pod.ObjectMeta), fmt.Errorf(format, args...))
}

// defaultPriority returns the global default class with the lowest value, or nil.
func (s *Server) defaultPriority() *schedulingv1.PriorityClass {
	t := s.table("priorityclasses")
	s.mu.RLock()
	defer s.mu.RUnlock()
	var least *schedulingv1.PriorityClass
	t.objects.Scan(func(_ string, obj Object) bool {
		class := obj.(*schedulingv1.PriorityClass)
		if class.GlobalDefault && (least == nil || class.Value < least.Value) {
			least = class
		}
		return true
	})
	return least
}

// admitService assigns a cluster IP to a service.
//
// Differs: a cluster IP is never released, and a requested one is not reserved.
func (s *Server) admitService(service *corev1.Service) {
	spec := &service.Spec
	if !rules.NeedsClusterIP(spec) || spec.ClusterIP != "" {
		return
	}
	s.counters.Lock()
	s.addresses++
	n := s.addresses
	s.counters.Unlock()
	spec.ClusterIP = rules.ClusterIP(n)
	spec.ClusterIPs = []string{spec.ClusterIP}
}
