package noderesources_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// amounts returns a list of cpu and memory; an empty text is left out.
func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

// containers returns containers with requests; nil has none.
func containers(requests ...corev1.ResourceList) []corev1.Container {
	var all []corev1.Container
	for _, r := range requests {
		all = append(all, corev1.Container{Resources: corev1.ResourceRequirements{Requests: r}})
	}
	return all
}

// TestDefaultRequests has the rows of upstream about containers without requests.
func TestDefaultRequests(t *testing.T) {
	const mi, cpu, memory = 1 << 20, 100, 200 << 20 // the defaults
	one, tiny := amounts("1", "1Mi"), amounts("1m", "1")
	for name, test := range map[string]struct {
		spec        corev1.PodSpec
		cpu, memory int64
	}{
		"only overhead":            {corev1.PodSpec{Overhead: one}, 1000, mi},
		"a container":              {corev1.PodSpec{Containers: containers(nil)}, cpu, memory},
		"two containers":           {corev1.PodSpec{Containers: containers(nil, nil)}, 2 * cpu, 2 * memory},
		"one of two containers":    {corev1.PodSpec{Containers: containers(one, nil)}, 1000 + cpu, mi + memory},
		"one of two, and overhead": {corev1.PodSpec{Overhead: one, Containers: containers(one, nil)}, 2000 + cpu, 2*mi + memory},
		"a large init container": {
			corev1.PodSpec{Overhead: one, InitContainers: containers(amounts("3", "")), Containers: containers(one, nil)}, 4000, 2*mi + memory,
		},
		"an init container, small ones": {
			corev1.PodSpec{InitContainers: containers(nil, tiny), Containers: containers(amounts("3m", "3"))}, cpu, memory,
		},
		"an init container, small ones, a container": {
			corev1.PodSpec{InitContainers: containers(nil, tiny), Containers: containers(amounts("3m", "3"), nil)}, 3 + cpu, 3 + memory,
		},
	} {
		t.Run(name, func(t *testing.T) {
			info, err := framework.NewPodInfo(&corev1.Pod{Spec: test.spec})
			if err != nil {
				t.Fatal(err)
			}
			if info.NonZeroMilliCPU != test.cpu || info.NonZeroMemory != test.memory {
				t.Errorf("got %d and %d, want %d and %d", info.NonZeroMilliCPU, info.NonZeroMemory, test.cpu, test.memory)
			}
		})
	}
}
