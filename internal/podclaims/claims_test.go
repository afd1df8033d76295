package podclaims_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/podclaims"
)

func pod(name string, volumes ...corev1.Volume) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{Volumes: volumes},
	}
}

func claimed(claim string) corev1.Volume {
	return corev1.Volume{Name: "v-" + claim, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

var (
	scratch = corev1.Volume{
		Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
	}
	empty = corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
)

func TestKeys(t *testing.T) {
	got := podclaims.Keys(pod("p", claimed("b"), empty, scratch, claimed("a")))
	if diff := cmp.Diff([]string{"ns/b", "ns/p-scratch", "ns/a"}, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestIndexIsAddedOnceAndFindsPods(t *testing.T) {
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	podclaims.AddIndex(pods)
	podclaims.AddIndex(pods)
	for _, p := range []*corev1.Pod{pod("one", claimed("a")), pod("two", claimed("b"))} {
		if err := pods.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	using := podclaims.Using(pods, "ns/b")
	if len(using) != 1 || using[0].Name != "two" {
		t.Errorf("using ns/b: %v, want pod two", using)
	}
	if using := podclaims.Using(pods, "ns/c"); len(using) != 0 {
		t.Errorf("using ns/c: %v, want none", using)
	}
}

func TestTerminated(t *testing.T) {
	now := metav1.Now()
	running := []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	ended := []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	waiting := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}}}
	tests := []struct {
		name     string
		deleting bool
		status   corev1.PodStatus
		want     bool
	}{
		{"pending", false, corev1.PodStatus{Phase: corev1.PodPending}, false},
		{"succeeded", false, corev1.PodStatus{Phase: corev1.PodSucceeded}, true},
		{"failed", false, corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: running}, true},
		{"running", false, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: ended}, false},
		{"deleting, runs", true, corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: running}, false},
		{"deleting, nothing known", true, corev1.PodStatus{}, true},
		{"deleting, ended and waiting", true, corev1.PodStatus{
			InitContainerStatuses: waiting, ContainerStatuses: ended,
		}, true},
		{"deleting, may run", true, corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{{}}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := pod("p")
			p.Status = tt.status
			if tt.deleting {
				p.DeletionTimestamp = &now
			}
			if got := podclaims.Terminated(p); got != tt.want {
				t.Errorf("Terminated = %v, want %v", got, tt.want)
			}
		})
	}
}
