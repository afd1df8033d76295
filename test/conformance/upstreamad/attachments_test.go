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

// controlled has upstream's controller live for a while over a world, with an attacher.
func controlled(t *testing.T, objects func(ctx context.Context, server *fake.Server) error, then func(ctx context.Context, server *fake.Server, client kubernetes.Interface)) {
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
		then(ctx, server, client)
		cancel()
		wait()
	})
}

// TestUpstreamTakesAnothersAttachmentForItsOwn has two volumes whose VolumeAttachments have the same name, being handle,
// driver and node one behind the other (I21). Ours has the second wait; attachdetach: TestVolumesWithOneAttachmentName.
func TestUpstreamTakesAnothersAttachmentForItsOwn(t *testing.T) {
	const ours, others = "disk.example.com^v", "isk.example.com^vd"
	if csi.AttachmentName("v", driver, "n") != csi.AttachmentName("vd", driver[1:], "n") {
		t.Fatal("the names are not the same")
	}
	world := func(ctx context.Context, server *fake.Server) error {
		if err := furnish(ctx, server); err != nil {
			return err
		}
		return server.Add(second()...)
	}
	controlled(t, world, func(ctx context.Context, server *fake.Server, client kubernetes.Interface) {
		names := listed(server)
		slices.Sort(names)
		want := []corev1.UniqueVolumeName{"kubernetes.io/csi/" + ours, "kubernetes.io/csi/" + others}
		if !slices.Equal(names, want) || server.Count("volumeattachments") != 1 {
			t.Fatalf("%d VolumeAttachments, attached: %v; upstream should say both are, by one", server.Count("volumeattachments"), names)
		}
		attached := *server.List("volumeattachments")[0].(*storagev1.VolumeAttachment).Spec.Source.PersistentVolumeName
		leaving := map[string]string{"v": "q", "w": "p"}[attached] // the pod of the volume that is not
		now := int64(0)
		if err := client.CoreV1().Pods("default").Delete(ctx, leaving, metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if n := server.Count("volumeattachments"); n != 0 || len(listed(server)) != 1 {
			t.Errorf("%d VolumeAttachments, attached: %v; upstream should have deleted the one of the volume that is still used", n, listed(server))
		}
	})
}

// second is another volume on the node, with its claim and its pod.
func second() []runtime.Object {
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

// TestUpstreamAttachesWhatAPodWritesOut has an in-tree volume in a pod, translated as ours does it: the same name, whether or
// not a CSINode tells of the migration, and the same VolumeAttachment.
func TestUpstreamAttachesWhatAPodWritesOut(t *testing.T) {
	world := func(ctx context.Context, server *fake.Server) error {
		if err := furnish(ctx, server); err != nil {
			return err
		}
		return server.Add(pod("q", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}))
	}
	controlled(t, world, func(_ context.Context, server *fake.Server, _ kubernetes.Interface) {
		if names := listed(server); !slices.Contains(names, "kubernetes.io/csi/ebs.csi.aws.com^vol-1") {
			t.Errorf("attached: %v", names)
		}
		object, found := server.Get("volumeattachments", "", csi.AttachmentName("vol-1", "ebs.csi.aws.com", "n"))
		if !found || object.(*storagev1.VolumeAttachment).Spec.Source.InlineVolumeSpec == nil {
			t.Errorf("its VolumeAttachment: %v", object)
		}
	})
}

// TestUpstreamLeavesWhatAPodWroteOut starts upstream's controller when a pod that wrote a volume out is gone: what was
// attached for it stays so. Ours detaches it; attachdetach: TestRecoveryOfMigratedVolumes.
func TestUpstreamLeavesWhatAPodWroteOut(t *testing.T) {
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
		if err := furnish(ctx, server); err != nil {
			return err
		}
		return server.Add(attachment)
	}
	controlled(t, world, func(_ context.Context, server *fake.Server, _ kubernetes.Interface) {
		time.Sleep(10 * time.Minute)
		if _, there := server.Get("volumeattachments", "", attachment.Name); !there {
			t.Error("upstream detached it: then it is no difference any more")
		}
	})
}
