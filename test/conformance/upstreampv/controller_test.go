package upstreampv_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

func TestUpstreamBindsOnOurServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewServer(fake.Config{Now: time.Now}).Client(sim.DirectCaller())
		size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
		modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		volume.Spec.Capacity, volume.Spec.AccessModes = size, modes
		volume.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/v"}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}}
		claim.Spec.AccessModes, claim.Spec.Resources.Requests = modes, size
		if _, err := client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wait, err := upstreampv.Start(ctx, upstreampv.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 { // the first makes the volume Available, the next retries the claim
			synctest.Wait()
			time.Sleep(upstreampv.ResyncPeriod)
		}
		bound, err := client.CoreV1().PersistentVolumeClaims("default").Get(ctx, "c", metav1.GetOptions{})
		if err != nil || bound.Status.Phase != corev1.ClaimBound || bound.Spec.VolumeName != "v" {
			t.Errorf("claim: %v %q, %v; want it bound to v", bound.Status.Phase, bound.Spec.VolumeName, err)
		}
		cancel()
		wait()
	})
}
