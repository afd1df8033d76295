package job

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/workload"
)

const (
	indexVariable = "JOB_COMPLETION_INDEX"

	maxPrefix = 58 // of a generated name; the server adds five characters
)

// template returns the template of the job's pods: with the finalizer and, if they have indexes, with an
// environment variable for them.
func (s *state) template() *corev1.PodTemplateSpec {
	t := s.job.Spec.Template.DeepCopy()
	if !slices.Contains(t.Finalizers, batchv1.JobTrackingFinalizer) {
		t.Finalizers = append(t.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if s.isIndexed() {
		for _, containers := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
			for i := range containers {
				addVariable(&containers[i])
			}
		}
	}
	return t
}

func addVariable(c *corev1.Container) {
	if slices.ContainsFunc(c.Env, func(v corev1.EnvVar) bool { return v.Name == indexVariable }) {
		return
	}
	c.Env = append(c.Env, corev1.EnvVar{Name: indexVariable, ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{
			FieldPath: fmt.Sprintf("metadata.labels['%s']", batchv1.JobCompletionIndexAnnotation),
		},
	}})
}

// setIndex gives a pod its index: in a label, an annotation, its name and its host name. The number of
// failures of its predecessors comes along.
//
// Upstream: pkg/controller/job addCompletionIndexAnnotation, addIndexFailureCountAnnotation,
// podGenerateNameWithIndex (v1.36).
func (s *state) setIndex(pod *corev1.Pod, index int) {
	suffix := "-" + strconv.Itoa(index)
	metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, suffix[1:])
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, suffix[1:])
	pod.Spec.Hostname = s.job.Name + suffix
	suffix += "-"
	pod.GenerateName = s.job.Name[:min(len(s.job.Name), maxPrefix-len(suffix))] + suffix
	if !s.hasLimitPerIndex() {
		return
	}
	counted, ignored := int32(0), int32(0)
	if last := s.replaced[index]; last != nil {
		n, all := failuresOf(last)
		counted, ignored = n, all-n
		if s.match(last).counts {
			counted++
		} else {
			ignored++
		}
	}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobIndexFailureCountAnnotation, strconv.Itoa(int(counted)))
	if ignored > 0 {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobIndexIgnoredFailureCountAnnotation, strconv.Itoa(int(ignored)))
	}
}

// excess returns the active pods to be deleted, at least so many. Pods of an indexed job that have no
// index, an index beyond its completions, or that of a better pod, are always among them.
//
// Upstream: pkg/controller/job activePodsForRemoval, appendDuplicatedIndexPodsForRemoval (v1.36).
func (s *state) excess(atLeast int) []*corev1.Pod {
	rest := slices.Clone(s.active)
	slices.SortStableFunc(rest, compareActive)
	var excess []*corev1.Pod
	if s.isIndexed() {
		best := map[int]*corev1.Pod{}
		for _, pod := range rest {
			if s.hasIndex(pod) {
				best[indexOf(pod)] = pod // the last one
			}
		}
		kept := slices.Collect(maps.Values(best))
		rest = slices.DeleteFunc(rest, func(pod *corev1.Pod) bool {
			if slices.Contains(kept, pod) {
				return false
			}
			excess = append(excess, pod)
			return true
		})
	}
	return append(excess, rest[:max(0, atLeast-len(excess))]...)
}

var phaseOrder = []corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}

// compareActive orders active pods so that the least is deleted first: one without a node, in an early
// phase, not ready, ready for a short time, with many restarts, young.
//
// Upstream: pkg/controller ActivePods (v1.36).
func compareActive(a, b *corev1.Pod) int {
	if c := compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""); c != 0 {
		return c
	}
	if c := cmp.Compare(slices.Index(phaseOrder, a.Status.Phase), slices.Index(phaseOrder, b.Status.Phase)); c != 0 {
		return c
	}
	readyA, readyB := workload.Ready(a), workload.Ready(b)
	if c := compareBool(readyA != nil, readyB != nil); c != 0 {
		return c
	}
	if readyA != nil {
		if c := compareAge(readyA.LastTransitionTime, readyB.LastTransitionTime); c != 0 {
			return c
		}
	}
	if c := cmp.Compare(restartsOf(b), restartsOf(a)); c != 0 {
		return c
	}
	if c := compareAge(a.CreationTimestamp, b.CreationTimestamp); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// compareAge orders times so that unknown and late ones come first.
func compareAge(a, b metav1.Time) int {
	if c := compareBool(!a.IsZero(), !b.IsZero()); c != 0 {
		return c
	}
	return b.Compare(a.Time)
}

// restartsOf returns the restarts of the container that was restarted most.
//
// Differs: upstream compares the restarts of sidecars next.
func restartsOf(pod *corev1.Pod) int32 {
	most := int32(0)
	for _, c := range pod.Status.ContainerStatuses {
		most = max(most, c.RestartCount)
	}
	return most
}
