package provisioner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDecideClaim(t *testing.T) {
	immediate := &storagev1.StorageClass{Provisioner: "d"}
	late := &storagev1.StorageClass{Provisioner: "d", VolumeBindingMode: new(storagev1.VolumeBindingMode)}
	*late.VolumeBindingMode = storagev1.VolumeBindingWaitForFirstConsumer
	const ga, beta, node = "volume.kubernetes.io/storage-provisioner", provisionerBetaAnnotation, "volume.kubernetes.io/selected-node"
	tests := []struct {
		name        string
		annotations map[string]string
		volume      string
		class       *storagev1.StorageClass
		want        verdict
	}{
		{name: "no annotation", class: immediate, want: ignore},
		{name: "another driver", annotations: map[string]string{ga: "e"}, class: immediate, want: ignore},
		{name: "beta annotation", annotations: map[string]string{beta: "d"}, class: immediate, want: provision},
		{name: "the newer annotation counts", annotations: map[string]string{ga: "e", beta: "d"}, class: immediate, want: ignore},
		{name: "bound", annotations: map[string]string{ga: "d"}, volume: "v", class: immediate, want: ignore},
		{name: "immediate", annotations: map[string]string{ga: "d"}, class: immediate, want: provision},
		{name: "no class", annotations: map[string]string{ga: "d"}, want: waitForClass},
		{name: "class of another driver", annotations: map[string]string{ga: "d"}, class: &storagev1.StorageClass{Provisioner: "e"}, want: ignore},
		{name: "no node", annotations: map[string]string{ga: "d"}, class: late, want: waitForNode},
		{name: "a node", annotations: map[string]string{ga: "d", node: "n"}, class: late, want: provision},
	}
	for _, test := range tests {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}}
		claim.Spec.VolumeName = test.volume
		if got := decideClaim(claim, test.class, "d"); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestDecideVolume(t *testing.T) {
	const retain, remains = corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete
	tests := []struct {
		name      string
		policy    corev1.PersistentVolumeReclaimPolicy
		phase     corev1.PersistentVolumePhase
		finalizer bool
		deleting  bool
		want      volumeAction
	}{
		{"bound", remains, corev1.VolumeBound, true, false, leave},
		{"bound, ready-made", remains, corev1.VolumeBound, false, false, addFinalizer},
		{"bound, ready-made, deleting", remains, corev1.VolumeBound, false, true, leave},
		{"available", remains, corev1.VolumeAvailable, false, false, leave},
		{"bound, now Retain", retain, corev1.VolumeBound, true, false, dropFinalizer},
		{"released, now Retain", retain, corev1.VolumeReleased, true, true, dropFinalizer},
		{"released, Retain", retain, corev1.VolumeReleased, false, false, leave},
		{"released", remains, corev1.VolumeReleased, true, false, remove},
		{"released, ready-made", remains, corev1.VolumeReleased, false, false, remove},
		{"released, deleted before", remains, corev1.VolumeReleased, true, true, remove},
		{"released, done", remains, corev1.VolumeReleased, false, true, leave},
		{"failed", remains, corev1.VolumeFailed, true, false, leave},
	}
	for _, test := range tests {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: test.policy}}
		volume.Status.Phase = test.phase
		if test.finalizer {
			volume.Finalizers = []string{provisionedFinalizer}
		}
		if test.deleting {
			volume.DeletionTimestamp = &metav1.Time{}
		}
		if got := decideVolume(volume); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestOwns(t *testing.T) {
	of := func(provisionedBy, driver string) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{}
		if provisionedBy != "" {
			v.Annotations = map[string]string{"pv.kubernetes.io/provisioned-by": provisionedBy}
		}
		if driver != "" {
			v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver}
		}
		return v
	}
	for _, test := range []struct {
		volume *corev1.PersistentVolume
		want   bool
	}{{of("d", "d"), true}, {of("e", "d"), false}, {of("", "d"), true}, {of("", "e"), false}, {of("", ""), false}} {
		if got := owns("d", test.volume); got != test.want {
			t.Errorf("owns(%v) = %v", test.volume, got)
		}
	}
}

func TestClassify(t *testing.T) {
	for code, want := range map[codes.Code]outcome{
		codes.Canceled: background, codes.DeadlineExceeded: background, codes.Unavailable: background, codes.Aborted: background,
		codes.ResourceExhausted: exhausted, codes.InvalidArgument: infeasible,
		codes.Internal: finished, codes.AlreadyExists: finished, codes.OutOfRange: finished, codes.Unimplemented: finished,
		codes.Unknown: finished, codes.FailedPrecondition: finished, codes.NotFound: finished, codes.PermissionDenied: finished,
	} {
		if got := classify(status.Error(code, "")); got != want {
			t.Errorf("%s: %v, want %v", code, got, want)
		}
	}
	if got := classify(errors.New("connection lost")); got != background {
		t.Errorf("an error that is not gRPC's: %v, want %v", got, background)
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name    string
		from    map[string]string
		want    parameters
		wantErr bool
	}{
		{name: "nothing", want: parameters{"ext4", map[string]string{}}},
		{
			name: "the driver's", from: map[string]string{"tier": "gold"},
			want: parameters{"ext4", map[string]string{"tier": "gold"}},
		},
		{name: "fstype", from: map[string]string{fsTypeKey: "xfs"}, want: parameters{"xfs", map[string]string{}}},
		{
			name: "the old fstype stays", from: map[string]string{"fsType": "xfs"},
			want: parameters{"xfs", map[string]string{"fsType": "xfs"}},
		},
		{name: "two fstypes", from: map[string]string{"fsType": "xfs", fsTypeKey: "xfs"}, wantErr: true},
		{name: "unknown", from: map[string]string{reservedPrefix + "colour": "red"}, wantErr: true},
		{
			name: "secrets", from: map[string]string{
				reservedPrefix + "node-stage-secret-name": "s", reservedPrefix + "secret-namespace": "n",
			},
			want: parameters{"ext4", map[string]string{}},
		},
	}
	for _, test := range tests {
		got, err := parse(&storagev1.StorageClass{Parameters: test.from})
		if (err != nil) != test.wantErr {
			t.Errorf("%s: error %v", test.name, err)
		}
		if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(parameters{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}
