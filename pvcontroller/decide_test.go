package pvcontroller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"
)

type volumeOption func(*corev1.PersistentVolume)

// claimOf1Gi returns the claim "default/c" with UID "u" for 1Gi, ReadWriteOnce.
func claimOf1Gi() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Status.Phase = corev1.ClaimPending
	return claim
}

// volumeOf1Gi returns the volume "v" with 1Gi, ReadWriteOnce, Available.
func volumeOf1Gi(options ...volumeOption) *corev1.PersistentVolume {
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v", UID: "uv"}}
	volume.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	volume.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	volume.Status.Phase = corev1.VolumeAvailable
	for _, option := range options {
		option(volume)
	}
	return volume
}

func marked(name, value string) volumeOption {
	return func(v *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, name, value) }
}

func TestClaimStatus(t *testing.T) {
	capacity := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	rwo := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	gold := ptr.To("gold")
	attributed := func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = gold }
	old := corev1.PersistentVolumeClaimStatus{
		Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("2Gi"), CurrentVolumeAttributesClassName: gold,
	}
	tests := []struct {
		name   string
		status corev1.PersistentVolumeClaimStatus
		phase  corev1.PersistentVolumeClaimPhase
		volume *corev1.PersistentVolume
		want   corev1.PersistentVolumeClaimStatus
	}{
		{
			"1-1 becomes bound",
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
			corev1.ClaimBound,
			volumeOf1Gi(attributed),
			corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("1Gi"),
				CurrentVolumeAttributesClassName: gold,
			},
		},
		{
			"5-2-3 file system not grown yet",
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
			corev1.ClaimBound,
			volumeOf1Gi(marked(annPreResizeCapacity, "512Mi")),
			corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("512Mi"),
			},
		},
		{
			"file system of unreadable size",
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
			corev1.ClaimBound,
			volumeOf1Gi(marked(annPreResizeCapacity, "much")),
			corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("1Gi"),
			},
		},
		{"was bound: size and attributes stay", old, corev1.ClaimBound, volumeOf1Gi(), old},
		{
			"was Lost: attributes stay",
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost},
			corev1.ClaimBound,
			volumeOf1Gi(attributed),
			corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("1Gi"),
			},
		},
		{
			"1-3 back to pending", old, corev1.ClaimPending, nil,
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claim := claimOf1Gi()
			claim.Status = tt.status
			got, err := claimStatus(claim, tt.phase, tt.volume)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	empty := volumeOf1Gi(func(v *corev1.PersistentVolume) { v.Spec.Capacity = nil })
	if _, err := claimStatus(claimOf1Gi(), corev1.ClaimBound, empty); err == nil {
		t.Error("no error for a volume without capacity")
	}
}

func TestDefaultClass(t *testing.T) {
	made := func(name, annotation, value string, second int64) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{
			Name: name, Annotations: map[string]string{annotation: value},
			CreationTimestamp: metav1.NewTime(time.Unix(second, 0)),
		}}
	}
	plain := made("a", annDefaultClass, "false", 9)
	first, second := made("c", annDefaultClass, "true", 1), made("d", annDefaultClassBeta, "true", 2)
	twin := made("b", annDefaultClass, "true", 2)
	tests := []struct {
		name    string
		classes []*storagev1.StorageClass
		want    *storagev1.StorageClass
	}{
		{"none", nil, nil},
		{"none marked", []*storagev1.StorageClass{plain}, nil},
		{"the only one", []*storagev1.StorageClass{plain, first}, first},
		{"the newest", []*storagev1.StorageClass{first, second, plain}, second},
		{"the first by name of the newest", []*storagev1.StorageClass{second, twin, first}, twin},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := defaultClass(tt.classes); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
