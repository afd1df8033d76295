package cluster_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/loop"
	"github.com/volsim/volsim/sidecars/registrar"
)

// attentive is a driver that records the last request.
type attentive struct {
	directories
	mu   sync.Mutex
	last *csispec.NodePublishVolumeRequest // guarded by mu
}

func (a *attentive) NodePublishVolume(ctx context.Context,
	r *csispec.NodePublishVolumeRequest,
) (*csispec.NodePublishVolumeResponse, error) {
	a.mu.Lock()
	a.last = r
	a.mu.Unlock()
	return a.directories.NodePublishVolume(ctx, r)
}

func (a *attentive) asked() *csispec.NodePublishVolumeRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

// TestInlineVolume uses a third-party driver behind sockets of this machine. It gets the pod, the
// pod's secret and a token of the pod's service account. The files of the volume get the pod's
// group.
func TestInlineVolume(t *testing.T) {
	if err := loop.Probe(); err != nil {
		t.Skipf("loop devices: %v", err)
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Loop, Nodes: 1})
	testcheck.NoError(t, err)
	defer func() { testcheck.NoError(t, c.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	testcheck.NoError(t, c.Start(ctx))
	dir, err := c.KubeletDir("node-1")
	testcheck.NoError(t, err)

	driver := &attentive{directories: directories{dir: filepath.Join(t.TempDir(), "own")}}
	socket := filepath.Join(dir, "plugins", ownDriver, "csi.sock")
	defer serveAt(t, socket, func(s grpc.ServiceRegistrar) { csispec.RegisterNodeServer(s, driver) })()
	announces := registrar.New(ownDriver, socket)
	defer serveAt(t, filepath.Join(dir, "plugins_registry", ownDriver+"-reg.sock"), announces.Register)()
	testcheck.NoError(t, c.Wait(ctx, "the notification of the driver",
		func() bool { _, _, notified := announces.Status(); return notified }))

	pods := c.Client().CoreV1().Pods("default")
	pod := scratchPod(ctx, t, c)
	testcheck.NoError(t, c.WaitForPod(ctx, "default", "web", corev1.PodRunning))
	request := driver.asked()
	wantWords(t, pod, request)
	info, err := os.Stat(request.GetTargetPath())
	testcheck.NoError(t, err)
	if group := info.Sys().(*syscall.Stat_t).Gid; group != 3000 || info.Mode()&fs.ModeSetgid == 0 ||
		info.Mode().Perm() != 0o775 {
		t.Errorf("the volume has group %d, %v", group, info.Mode())
	}
	testcheck.NoError(t, pods.Delete(ctx, "web", metav1.DeleteOptions{}))
	testcheck.NoError(t, c.WaitForGone(ctx, "pods", "default", "web"))
	if _, err := os.Stat(filepath.Join(dir, "pods", string(pod.UID))); !os.IsNotExist(err) {
		t.Errorf("the pod's directory still exists: %v", err)
	}
	testcheck.NoError(t, c.WaitForRest(ctx))
}

// scratchPod creates a pod with an inline volume of the driver, and the objects that both need.
func scratchPod(ctx context.Context, t *testing.T, c *cluster.Cluster) *corev1.Pod {
	t.Helper()
	yes, no, group, policy := true, false, int64(3000), storagev1.FileFSGroupPolicy
	_, err := c.Client().StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: ownDriver},
		Spec: storagev1.CSIDriverSpec{
			AttachRequired: &no, PodInfoOnMount: &yes, FSGroupPolicy: &policy,
			TokenRequests:        []storagev1.TokenRequest{{Audience: "vault"}},
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecycleEphemeral},
		},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	_, err = c.Client().CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "key"}, Data: map[string][]byte{"password": []byte("sesame")},
	}, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	pod := cluster.NewPod("web")
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: ownDriver, VolumeAttributes: map[string]string{"size": "small"},
		NodePublishSecretRef: &corev1.LocalObjectReference{Name: "key"},
	}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
	pod, err = c.Client().CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
	testcheck.NoError(t, err)
	return pod
}

// wantWords checks the requests of the driver.
func wantWords(t *testing.T, pod *corev1.Pod, request *csispec.NodePublishVolumeRequest) {
	t.Helper()
	words := maps.Clone(request.GetVolumeContext())
	var tokens map[string]authenticationv1.TokenRequestStatus
	testcheck.NoError(t, json.Unmarshal([]byte(words["csi.storage.k8s.io/serviceAccount.tokens"]), &tokens))
	delete(words, "csi.storage.k8s.io/serviceAccount.tokens")
	if audiences := slices.Collect(maps.Keys(tokens)); !cmp.Equal(audiences, []string{"vault"}) ||
		tokens["vault"].Token == "" {
		t.Errorf("tokens for %v", audiences)
	}
	want := map[string]string{
		"size":                                   "small",
		"csi.storage.k8s.io/pod.name":            "web",
		"csi.storage.k8s.io/pod.namespace":       "default",
		"csi.storage.k8s.io/pod.uid":             string(pod.UID),
		"csi.storage.k8s.io/serviceAccount.name": "default",
		"csi.storage.k8s.io/ephemeral":           "true",
	}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"password": "sesame"}, request.GetSecrets()); diff != "" {
		t.Errorf("secrets (-want +got):\n%s", diff)
	}
}
