package fake_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// patchStatus patches a status with a document of the given content.
func patchStatus(t *testing.T, client kubernetes.Interface, pt types.PatchType, claim string, content any) error {
	t.Helper()
	patch, err := json.Marshal(content)
	testcheck.NoError(t, err)
	_, err = client.CoreV1().PersistentVolumeClaims("default").Patch(t.Context(), claim, pt, patch, metav1.PatchOptions{}, "status")
	return err
}

// TestNodeRestriction makes requests that the Node authorizer allows. The conformance test TestNodeRestrictionRows compares
// more of them with upstream's plugin.
func TestNodeRestriction(t *testing.T) {
	type m = map[string]any
	const node1 = `nodes "node-1" is forbidden: `
	for _, tt := range []struct {
		name string
		do   func(c *fake.Clientset) error
		want string
	}{
		{"another node", func(c *fake.Clientset) error {
			_, err := c.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-3"}}, metav1.CreateOptions{})
			return err
		}, `nodes "node-3" is forbidden: node "node-1" is not allowed to modify node "node-3"`},
		{"taints, patched through the status", func(c *fake.Clientset) error {
			_, err := c.CoreV1().Nodes().Patch(t.Context(), "node-1", types.StrategicMergePatchType,
				[]byte(`{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`), metav1.PatchOptions{}, "status")
			return err
		}, node1 + `node "node-1" is not allowed to modify taints`},
		{"taints, through the status", func(c *fake.Clientset) error {
			node, err := c.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			testcheck.NoError(t, err)
			node.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
			_, err = c.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
			return err
		}, node1 + `node "node-1" is not allowed to modify taints`},
		{"a label, applied", func(c *fake.Clientset) error {
			_, err := c.CoreV1().Nodes().Patch(t.Context(), "node-1", types.ApplyYAMLPatchType,
				[]byte(`{"apiVersion":"v1","kind":"Node","metadata":{"labels":{"node-role.kubernetes.io/x":""}}}`), metav1.PatchOptions{FieldManager: "m"})
			return err
		}, node1 + `is not allowed to modify labels: node-role.kubernetes.io/x`},
		{"its status", func(c *fake.Clientset) error {
			_, err := c.CoreV1().Nodes().Patch(t.Context(), "node-1", types.MergePatchType,
				[]byte(`{"status":{"phase":"Running"},"metadata":{"labels":{"kubernetes.io/os":"linux"}}}`), metav1.PatchOptions{}, "status")
			return err
		}, ""},
		{"a claim's capacity", func(c *fake.Clientset) error {
			return patchStatus(t, c, types.MergePatchType, "data", m{"status": m{"capacity": m{"storage": "2Gi"}}})
		}, ""},
		{"a claim's label", func(c *fake.Clientset) error {
			return patchStatus(t, c, types.JSONPatchType, "data", []m{{"op": "add", "path": "/metadata/labels", "value": m{"a": "b"}}})
		}, `persistentvolumeclaims "data" is forbidden: node "node-1" is not allowed to update fields other than status.quantity and status.conditions: `},
		{"evict a pod of another node", func(c *fake.Clientset) error {
			return c.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}})
		}, `pods "other" is forbidden: node node-1 can only evict pods with spec.nodeName set to itself`},
		{"delete a pod of another node", func(c *fake.Clientset) error {
			return c.CoreV1().Pods("default").Delete(t.Context(), "other", metav1.DeleteOptions{})
		}, `pods "other" is forbidden: node "node-1" can only delete pods with spec.nodeName set to itself`},
		{"delete a pod of another node, which is being deleted", func(c *fake.Clientset) error {
			return c.CoreV1().Pods("default").Delete(t.Context(), "ending", metav1.DeleteOptions{})
		}, ""},
		{"evict its pod", func(c *fake.Clientset) error {
			return c.CoreV1().Pods("default").EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "own"}})
		}, ""},
		{"a token of its pod", func(c *fake.Clientset) error { return requestToken(t, c, "own", "own") }, ""},
		{"a token that is bound to no pod", func(c *fake.Clientset) error {
			return requestToken(t, c, "", "")
		}, `serviceaccounts "default" is forbidden: node requested token not bound to a pod`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newAccessWorld(t)
			grace := int64(30)
			pods := map[string]string{"own": "node-1", "other": "node-2", "ending": "node-2"}
			for _, name := range []string{"own", "other", "ending"} {
				pod := newPod(name)
				pod.Namespace, pod.UID = "default", types.UID(name)
				pod.Spec.NodeName, pod.Spec.ServiceAccountName = pods[name], "default"
				pod.Spec.TerminationGracePeriodSeconds = &grace
				pod.Spec.Volumes = []corev1.Volume{
					{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
						{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
					}}}},
					{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				}
				testcheck.NoError(t, w.server.Add(pod))
			}
			claim := newClaim("data")
			claim.Namespace, claim.UID = "default", "d"
			testcheck.NoError(t, w.server.Add(claim, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}))
			testcheck.NoError(t, w.admin.CoreV1().Pods("default").Delete(t.Context(), "ending", metav1.DeleteOptions{}))
			got := ""
			if err := tt.do(w.as("system:node:node-1", "system:nodes")); err != nil {
				got, _, _ = strings.Cut(err.Error(), "@@") // a difference of objects
			}
			testcheck.Equal(t, "error", tt.want, got)
		})
	}
}

func requestToken(t *testing.T, c *fake.Clientset, pod string, uid types.UID) error {
	req := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)}}
	if pod != "" {
		req.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod, UID: uid}
	}
	_, err := c.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), "default", req, metav1.CreateOptions{})
	return err
}

// TestMirrorPodIsNotChanged: a kubelet has a mirror pod from a file, with which the API object must agree.
func TestMirrorPodIsNotChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.PodSpec)
		want   string
	}{
		"plain":     {func(*corev1.PodSpec) {}, ""},
		"account":   {func(s *corev1.PodSpec) { s.ServiceAccountName = "default" }, "a mirror pod may not reference service accounts"},
		"old field": {func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "default" }, "a mirror pod may not reference service accounts"},
		"secret": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
		}, "a mirror pod may not reference secrets"},
		"token": {func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}}},
			}}}}
		}, "a mirror pod may not use ServiceAccountToken volume projections"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }, MountTokens: true}).Client(direct)
			pod := newPod("p")
			pod.Namespace, pod.Annotations = "default", map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
			tt.change(&pod.Spec)
			created, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
			if tt.want != "" {
				tt.want = `pods "p" is forbidden: ` + tt.want
				wantError(t, "creation", tt.want, err)
				return
			}
			testcheck.NoError(t, err)
			testcheck.Equal(t, "account", "", created.Spec.ServiceAccountName)
			testcheck.Equal(t, "volumes", len(pod.Spec.Volumes), len(created.Spec.Volumes))
		})
	}
}
