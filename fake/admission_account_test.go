package fake_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// TestMountTokens: each container has the token of the pod's service account, unless the pod or the account
// declines, or the container has something else at its place.
func TestMountTokens(t *testing.T) {
	const at = "/var/run/secrets/kubernetes.io/serviceaccount"
	mounted := func(c corev1.Container) []string {
		var names []string
		for _, m := range c.VolumeMounts {
			if m.MountPath == at {
				names = append(names, strings.TrimRight(m.Name, "bcdfghjklmnpqrstvwxz2456789"))
			}
		}
		return names
	}
	added := []string{"kube-api-access-"}
	account := func(name string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.ServiceAccountName = name }
	}
	for name, test := range map[string]struct {
		change  func(*corev1.Pod)
		mounts  [][]string // of the init container, and of the container
		volumes int
		pull    []corev1.LocalObjectReference
	}{
		"default":          {mounts: [][]string{added, added}, volumes: 2},
		"pod declines":     {change: func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = ptr.To(false) }, mounts: [][]string{nil, nil}, volumes: 1},
		"other account":    {change: account("puller"), mounts: [][]string{added, added}, volumes: 2, pull: []corev1.LocalObjectReference{{Name: "registry"}}},
		"account declines": {change: account("careful"), mounts: [][]string{nil, nil}, volumes: 1},
		"pod prevails over account": {change: func(p *corev1.Pod) {
			account("careful")(p)
			p.Spec.AutomountServiceAccountToken = ptr.To(true)
		}, mounts: [][]string{added, added}, volumes: 2},
		"place is taken": {change: func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts[0].MountPath = at
		}, mounts: [][]string{added, {"data"}}, volumes: 2},
		"places are taken": {change: func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeMounts[0].MountPath = at
			p.Spec.InitContainers = nil
		}, mounts: [][]string{{"data"}}, volumes: 1},
		"volume exists": {change: func(p *corev1.Pod) {
			p.Spec.Volumes[0].Name, p.Spec.Containers[0].VolumeMounts[0].Name = "kube-api-access-h", "kube-api-access-h"
		}, mounts: [][]string{added, added}, volumes: 1},
		"own secrets for images": {change: func(p *corev1.Pod) {
			account("puller")(p)
			p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "own"}}
		}, mounts: [][]string{added, added}, volumes: 2, pull: []corev1.LocalObjectReference{{Name: "own"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldWith(t, fake.Config{MountTokens: true})
			for _, a := range []*corev1.ServiceAccount{
				{ObjectMeta: metav1.ObjectMeta{Name: "careful"}, AutomountServiceAccountToken: ptr.To(false)},
				{ObjectMeta: metav1.ObjectMeta{Name: "puller"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}},
			} {
				testcheck.Must(w.User.CoreV1().ServiceAccounts("default").Create(w.Context(), a, metav1.CreateOptions{}))
			}
			pod := testcheck.Must(w.User.CoreV1().Pods("default").Create(w.Context(), newPod("p", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "busybox"}}
				if test.change != nil {
					test.change(p)
				}
			}), metav1.CreateOptions{}))
			var mounts [][]string
			for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
				mounts = append(mounts, mounted(c))
			}
			testcheck.Equal(t, "mounts", test.mounts, mounts)
			testcheck.Equal(t, "volumes", test.volumes, len(pod.Spec.Volumes))
			testcheck.Equal(t, "secrets for images", test.pull, pod.Spec.ImagePullSecrets)
		})
	}
}

// TestMissingAccount: the account of a pod must exist, except the one that a controller creates.
func TestMissingAccount(t *testing.T) {
	w := newWorldWith(t, fake.Config{MountTokens: true, SkipBootstrap: true})
	pods := w.User.CoreV1().Pods("default")
	testcheck.Must(pods.Create(w.Context(), newPod("early"), metav1.CreateOptions{}))
	_, err := pods.Create(w.Context(), newPod("p", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "none" }), metav1.CreateOptions{})
	const want = `pods "p" is forbidden: error looking up service account default/none: serviceaccount "none" not found`
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
