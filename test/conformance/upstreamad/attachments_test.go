package upstreamad_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

// runController runs upstream's controller and an attacher over a world with objects, for two
// seconds. Then it calls check.
func runController(
	t *testing.T, objects func(ctx context.Context, server *fake.Server) error,
	check func(ctx context.Context, server *fake.Server, client kubernetes.Interface),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := fake.NewServer(fake.Config{Now: time.Now})
		client := server.Client(sim.DirectCaller())
		if err := objects(ctx, server); err != nil {
			t.Fatal(err)
		}
		if err := attacher(ctx, client); err != nil {
			t.Fatal(err)
		}
		wait, err := upstreamad.Start(ctx, upstreamad.Config{Client: client})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		check(ctx, server, client)
		cancel()
		wait()
	})
}

// TestUpstreamSharesAnAttachmentOfTheSameName has two volumes whose VolumeAttachments have the same
// name, because it concatenates handle, driver and node (I21). Upstream uses one VolumeAttachment
// for both. With ours the second volume waits; attachdetach: TestVolumesWithOneAttachmentName.
func TestUpstreamSharesAnAttachmentOfTheSameName(t *testing.T) {
	const ours, others = "disk.example.com^v", "isk.example.com^vd"
	if csi.AttachmentName("v", driver, "n") != csi.AttachmentName("vd", driver[1:], "n") {
		t.Fatal("the names differ")
	}
	world := func(ctx context.Context, server *fake.Server) error {
		if err := createObjects(ctx, server); err != nil {
			return err
		}
		return server.Add(secondVolume()...)
	}
	runController(t, world, func(ctx context.Context, server *fake.Server, client kubernetes.Interface) {
		names := listed(server)
		slices.Sort(names)
		want := []corev1.UniqueVolumeName{"kubernetes.io/csi/" + ours, "kubernetes.io/csi/" + others}
		if !slices.Equal(names, want) || server.Count("volumeattachments") != 1 {
			t.Fatalf("%d VolumeAttachments, attached: %v; want both, by one VolumeAttachment", server.Count("volumeattachments"), names)
		}
		attached := *server.List("volumeattachments")[0].(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName
		podOfOther := map[string]string{"v": "q", "w": "p"}[attached] // the pod of the volume without a VolumeAttachment
		now := int64(0)
		if err := client.CoreV1().Pods("default").Delete(ctx, podOfOther, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := server.Count("volumeattachments"); n != 0 || len(listed(server)) != 1 {
			t.Errorf("%d VolumeAttachments, attached: %v; want the VolumeAttachment of the volume in use to be deleted", n, listed(server))
		}
	})
}

// secondVolume returns another volume on the node, with its claim and its pod.
func secondVolume() []runtime.Object {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "w"}}
	volume.Spec.Capacity, volume.Spec.AccessModes = size, modes
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "d", UID: "uid-of-d"}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver[1:], VolumeHandle: "vd"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "default", UID: "uid-of-d"}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, "w"
	claim.Status.Phase = corev1.ClaimBound
	return []runtime.Object{volume, claim, pod("q", corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "d"},
	})}
}

func pod(name string, source corev1.VolumeSource) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	p.Spec.NodeName, p.Spec.Containers = "n", []corev1.Container{{Name: "c", Image: "i"}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}}
	return p
}

// TestUpstreamAttachesInlineVolumes has a pod with an inline in-tree volume. Upstream translates it
// as ours does: the same name, whether or not a CSINode lists the migration, and the same
// VolumeAttachment.
func TestUpstreamAttachesInlineVolumes(t *testing.T) {
	world := func(ctx context.Context, server *fake.Server) error {
		if err := createObjects(ctx, server); err != nil {
			return err
		}
		return server.Add(pod("q", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}))
	}
	runController(t, world, func(_ context.Context, server *fake.Server, _ kubernetes.Interface) {
		if names := listed(server); !slices.Contains(names, "kubernetes.io/csi/ebs.csi.aws.com^vol-1") {
			t.Errorf("attached: %v", names)
		}
		object, found := server.Get("volumeattachments", "", csi.AttachmentName("vol-1", "ebs.csi.aws.com", "n"))
		if !found || object.(*storagev1.VolumeAttachment).Spec.Source.InlineVolumeSpec == nil {
			t.Errorf("VolumeAttachment: %v", object)
		}
	})
}

// TestUpstreamKeepsInlineVolumesOfDeletedPods starts upstream's controller after a pod with an
// inline volume was deleted. The volume stays attached. Ours detaches it; attachdetach:
// TestRecoveryOfMigratedVolumes.
func TestUpstreamKeepsInlineVolumesOfDeletedPods(t *testing.T) {
	mode := corev1.PersistentVolumeFilesystem
	attachment := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: csi.AttachmentName("vol-1", "ebs.csi.aws.com", types.NodeName("n"))},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "ebs.csi.aws.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{
			InlineVolumeSpec: &corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, VolumeMode: &mode,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com", VolumeHandle: "vol-1"},
				},
			},
		}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true},
	}
	world := func(ctx context.Context, server *fake.Server) error {
		if err := createObjects(ctx, server); err != nil {
			return err
		}
		return server.Add(attachment)
	}
	runController(t, world, func(_ context.Context, server *fake.Server, _ kubernetes.Interface) {
		time.Sleep(10 * time.Minute)
		if _, exists := server.Get("volumeattachments", "", attachment.Name); !exists {
			t.Error("upstream detached the volume; want it attached")
		}
	})
}
