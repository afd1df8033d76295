package upstreamad_test

import (
	"context"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/upstreamad"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // one of them sleeps until a time of another bubble
	os.Exit(m.Run())
}

const driver = "disk.example.com"

// createObjects creates a ready node, a bound volume "v" and a pod "p" on the node that uses it.
func createObjects(ctx context.Context, server *fake.Server) error {
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	volume.Spec.Capacity, volume.Spec.AccessModes = size, modes
	volume.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "c", UID: "uid-of-c"}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "v"}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default", UID: "uid-of-c"}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests, claim.Spec.VolumeName = modes, size, "v"
	claim.Status.Phase = corev1.ClaimBound
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}
	pod.Spec.NodeName, pod.Spec.Containers = "n", []corev1.Container{{Name: "c", Image: "i"}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"},
	}}}
	return server.Add(node, volume, claim, pod)
}

// attacher answers each VolumeAttachment at once, until ctx ends.
func attacher(ctx context.Context, client kubernetes.Interface) error {
	attachments := client.StorageV1().VolumeAttachments()
	events, err := attachments.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	go func() {
		defer events.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-events.ResultChan():
				va := e.Object.(*storagev1.VolumeAttachment).DeepCopy()
				if e.Type == watch.Added {
					va.Status.Attached = true
					_, _ = attachments.UpdateStatus(ctx, va, metav1.UpdateOptions{})
				}
			}
		}
	}()
	return nil
}

// listed returns the names in node.status.volumesAttached.
func listed(server *fake.Server) (names []corev1.UniqueVolumeName) {
	node, _ := server.Get("nodes", "", "n")
	for _, v := range node.(*corev1.Node).Status.VolumesAttached {
		names = append(names, v.Name)
	}
	return names
}

func TestUpstreamAttachesAndDetachesOnOurServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		server := fake.NewServer(fake.Config{Now: time.Now})
		client := server.Client(sim.DirectCaller())
		if err := createObjects(ctx, server); err != nil {
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
		if n, names := server.Count("volumeattachments"), listed(server); n != 1 || len(names) != 1 || names[0] != "kubernetes.io/csi/"+driver+"^v" {
			t.Errorf("%d VolumeAttachments, attached: %v; want v to be attached", n, names)
		}
		now := int64(0)
		if err := client.CoreV1().Pods("default").Delete(ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			t.Fatal(err)
		}
		// Upstream treats a new attachment as in use until the node's status is written next, by
		// its kubelet or, as here, by the controller.
		time.Sleep(2 * time.Second)
		if n, names := server.Count("volumeattachments"), listed(server); n != 0 || len(names) != 0 {
			t.Errorf("%d VolumeAttachments, attached: %v; want none", n, names)
		}
		cancel()
		wait()
	})
}
