package pvcontroller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"github.com/google/go-cmp/cmp"

	"github.com/volsim/volsim/plugins"
)

type (
	claimOption  func(*corev1.PersistentVolumeClaim)
	volumeOption func(*corev1.PersistentVolume)
)

// claimOf1Gi makes the claim "default/c" with UID "u" for 1Gi, ReadWriteOnce.
func claimOf1Gi(options ...claimOption) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u"}}
	claim.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim.Status.Phase = corev1.ClaimPending
	for _, option := range options {
		option(claim)
	}
	return claim
}

// volumeOf1Gi makes the volume "v" with 1Gi, ReadWriteOnce, available.
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

func naming(volume string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = volume }
}

func annotated(names ...string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) {
		for _, name := range names {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, name, "yes")
		}
	}
}

func ofClass(name string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = &name }
}

func reservedFor(claim string, uid types.UID) volumeOption {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: claim, UID: uid}
	}
}

func marked(name, value string) volumeOption {
	return func(v *corev1.PersistentVolume) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, name, value) }
}

func policy(p corev1.PersistentVolumeReclaimPolicy) volumeOption {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func block(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }

func class(name, provisioner string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode,
	}
}

const (
	byController  = storagehelpers.AnnBoundByController
	bindCompleted = storagehelpers.AnnBindCompleted
	immediate     = storagev1.VolumeBindingImmediate
	wait          = storagev1.VolumeBindingWaitForFirstConsumer
)

// TestDecideClaim has the ids of upstream's binder_test.go and provision_test.go.
func TestDecideClaim(t *testing.T) {
	bound := annotated(byController, bindCompleted)
	selecting := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"foo": "true"}}
	}
	beta := func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.BetaStorageClassAnnotation, "")
	}
	attributed := func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") }
	shared := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	}
	ofGold := func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold" }
	withGold := func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") }
	small := func(v *corev1.PersistentVolume) {
		v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Mi")
	}
	deleting := func(v *corev1.PersistentVolume) { v.DeletionTimestamp = &metav1.Time{} }
	external := class("gold", "vendor.com/my-volume", immediate)
	delayed := class("gold", "vendor.com/my-volume", wait)

	tests := []struct {
		name string
		view claimView
		want claimPlan // volume and class are those of the view
	}{
		{"1-1 match", claimView{claim: claimOf1Gi(), match: volumeOf1Gi()}, claimPlan{action: claimBind}},
		{"1-2 no match", claimView{claim: claimOf1Gi()}, claimPlan{action: claimPend, message: msgNoVolumes}},
		{
			"1-13 delayed",
			claimView{claim: claimOf1Gi(ofClass("gold")), class: delayed},
			claimPlan{action: claimPend, message: msgFirstConsumer},
		},
		{
			"delayed, pods wait",
			claimView{claim: claimOf1Gi(ofClass("gold")), class: delayed, unscheduled: []string{"a", "b"}},
			claimPlan{action: claimPend, message: msgDelayed([]string{"a", "b"})},
		},
		{"2-1, 2-2 names a volume that is not there", claimView{claim: claimOf1Gi(naming("v"))}, claimPlan{action: claimPend}},
		{"2-3 names a free volume", claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi()}, claimPlan{action: claimBind}},
		{
			"2-4 reserved by name",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(reservedFor("c", ""))},
			claimPlan{action: claimBind},
		},
		{
			"2-5 reserved by UID",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(reservedFor("c", "u"))},
			claimPlan{action: claimBind},
		},
		{
			"2-6 another's",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(reservedFor("d", "x"))},
			claimPlan{action: claimPend, message: msgTaken("v")},
		},
		{"2-7 another's, by the controller", claimView{
			claim: claimOf1Gi(naming("v"), annotated(byController)), volume: volumeOf1Gi(reservedFor("d", "x")),
		}, claimPlan{action: claimTell, message: msgTaken("v")}},
		{
			"2-8 the selector does not count",
			claimView{claim: claimOf1Gi(naming("v"), selecting), volume: volumeOf1Gi()},
			claimPlan{action: claimBind},
		},
		{
			"2-9 too small",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(small)},
			claimPlan{action: claimPend, message: msgUnsuitable("v", "requested PV is too small")},
		},
		{
			"2-10 other class",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(ofGold)},
			claimPlan{action: claimPend, message: msgUnsuitable("v", "storageClassName does not match")},
		},
		{
			"2-11 other attributes",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(withGold)},
			claimPlan{action: claimPend, message: msgUnsuitable("v", "volumeAttributesClassName does not match")},
		},
		{
			"2-12 same attributes",
			claimView{claim: claimOf1Gi(naming("v"), attributed), volume: volumeOf1Gi(withGold)},
			claimPlan{action: claimBind},
		},
		{
			"1-16 other access modes",
			claimView{claim: claimOf1Gi(naming("v"), shared), volume: volumeOf1Gi()},
			claimPlan{action: claimPend, message: msgUnsuitable("v", "incompatible accessMode")},
		},
		{
			"14-8 other volume mode",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(block)},
			claimPlan{action: claimPend, message: msgUnsuitable("v", "incompatible volumeMode")},
		},
		{
			"names a volume that is being deleted",
			claimView{claim: claimOf1Gi(naming("v")), volume: volumeOf1Gi(deleting)},
			claimPlan{action: claimPend, message: msgUnsuitable("v", `the volume is marked for deletion "v"`)},
		},

		{"3-1 lost its volumeName", claimView{claim: claimOf1Gi(bound)}, claimPlan{action: claimLose, message: msgLostReference}},
		{
			"3-2 lost its volume",
			claimView{claim: claimOf1Gi(bound, naming("v"))},
			claimPlan{action: claimLose, message: msgLostVolume},
		},
		{
			"3-3, 3-7 volume is nobody's",
			claimView{claim: claimOf1Gi(bound, naming("v"), selecting), volume: volumeOf1Gi()},
			claimPlan{action: claimBind},
		},
		{"3-4 volume of another UID", claimView{
			claim: claimOf1Gi(bound, naming("v")), volume: volumeOf1Gi(reservedFor("c", "x")),
		}, claimPlan{action: claimLose, message: msgMisbound}},
		{
			"3-5 all is well",
			claimView{claim: claimOf1Gi(bound, naming("v")), volume: volumeOf1Gi(reservedFor("c", "u"))},
			claimPlan{action: claimBind},
		},
		{"3-6 volume of another claim", claimView{
			claim: claimOf1Gi(bound, naming("v")), volume: volumeOf1Gi(reservedFor("d", "x")),
		}, claimPlan{action: claimLose, message: msgMisbound}},

		{
			"11-14 class is not there",
			claimView{claim: claimOf1Gi(ofClass("gold"))},
			claimPlan{action: claimTell, message: msgProvisioning(`storageclass.storage.k8s.io "gold" not found`)},
		},
		{
			"11-15 class is none",
			claimView{claim: claimOf1Gi(ofClass("")), defaultClass: external},
			claimPlan{action: claimPend, message: msgNoVolumes},
		},
		{"11-16 class is nil, no default", claimView{claim: claimOf1Gi()}, claimPlan{action: claimPend, message: msgNoVolumes}},
		{
			"class is nil, a default",
			claimView{claim: claimOf1Gi(), defaultClass: external},
			claimPlan{action: claimClassify, class: external},
		},
		{
			"class is annotated, a default",
			claimView{claim: claimOf1Gi(beta), defaultClass: external},
			claimPlan{action: claimPend, message: msgNoVolumes},
		},
		{
			"11-17 external provisioner",
			claimView{claim: claimOf1Gi(ofClass("gold")), class: external},
			claimPlan{action: claimRequest, message: msgExternal("vendor.com/my-volume")},
		},
		{"11-18 unknown internal provisioner", claimView{
			claim: claimOf1Gi(ofClass("gold")), class: class("gold", storagehelpers.NotSupportedProvisioner, immediate),
		}, claimPlan{action: claimTell, message: msgProvisioning("no volume plugin matched name: kubernetes.io/no-provisioner")}},
		{"11-24, 12-3 delayed, node selected", claimView{
			claim: claimOf1Gi(ofClass("gold"), annotated(storagehelpers.AnnSelectedNode)), class: delayed,
		}, claimPlan{action: claimRequest, message: msgExternal("vendor.com/my-volume")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if name := ptr.Deref(tt.view.claim.Spec.StorageClassName, ""); name != "" {
				tt.view.maker = makerOf(name, tt.view.class, &plugins.Manager{}, plugins.Migrated())
			}
			got := decideClaim(tt.view)
			if tt.want.action == claimRequest {
				tt.want.maker = tt.view.maker
			}
			if tt.want.action == claimBind {
				tt.want.volume = tt.view.volume
				if tt.view.match != nil {
					tt.want.volume = tt.view.match
				}
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestDecideVolume has the ids of upstream's binder_test.go and delete_test.go.
func TestDecideVolume(t *testing.T) {
	dynamic := marked(storagehelpers.AnnDynamicallyProvisioned, "vendor.com/my-volume")
	tests := []struct {
		name   string
		volume *corev1.PersistentVolume
		claim  *corev1.PersistentVolumeClaim
		want   volumeAction
	}{
		{"4-1 nobody's", volumeOf1Gi(), nil, volumeOffer},
		{"4-2 reserved by name", volumeOf1Gi(reservedFor("c", "")), nil, volumeOffer},
		{"4-3, 4-4 its claim is gone", volumeOf1Gi(reservedFor("c", "u")), nil, volumeRelease},
		{"4-5 its claim is not bound", volumeOf1Gi(reservedFor("c", "u")), claimOf1Gi(), volumeAwait},
		{"4-6, 4-9, 4-11, 4-12 bound", volumeOf1Gi(reservedFor("c", "u")), claimOf1Gi(naming("v")), volumeConfirm},
		{
			"4-7 its claim is bound elsewhere, by controller", volumeOf1Gi(reservedFor("c", "u"), marked(byController, "yes")),
			claimOf1Gi(naming("w")), volumeUnbind,
		},
		{"4-8 its claim is bound elsewhere, by user", volumeOf1Gi(reservedFor("c", "u")), claimOf1Gi(naming("w")), volumeUnbind},
		{
			"8-11, 8-12 made for a claim bound elsewhere",
			volumeOf1Gi(reservedFor("c", "u"), dynamic, policy(corev1.PersistentVolumeReclaimDelete)),
			claimOf1Gi(naming("w")), volumeRelease,
		},
		{
			"made for a claim bound elsewhere, to be kept", volumeOf1Gi(reservedFor("c", "u"), dynamic),
			claimOf1Gi(naming("w")), volumeUnbind,
		},
		{"14-13 its claim wants another mode", volumeOf1Gi(reservedFor("c", "u"), block), claimOf1Gi(), volumeMismatch},
		{"14-14 its claim wants that mode", volumeOf1Gi(reservedFor("c", "u")), claimOf1Gi(), volumeAwait},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideVolume(tt.volume, tt.claim); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestDecideReclaim has the ids of upstream's delete_test.go and recycle_test.go.
func TestDecideReclaim(t *testing.T) {
	toDelete, toRecycle := policy(corev1.PersistentVolumeReclaimDelete), policy(corev1.PersistentVolumeReclaimRecycle)
	csi := func(v *corev1.PersistentVolume) { v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "d"} }
	dynamic := func(by string) volumeOption { return marked(storagehelpers.AnnDynamicallyProvisioned, by) }
	noDeleter := `error getting deleter volume plugin for volume "v": no volume plugin matched`
	tests := []struct {
		name   string
		volume *corev1.PersistentVolume
		pods   []string
		want   reclaimPlan
	}{
		{"retain", volumeOf1Gi(), nil, reclaimPlan{}},
		{
			"4-10, 8-3 no deleter", volumeOf1Gi(toDelete), nil,
			reclaimPlan{fail: true, message: warning("VolumeFailedDelete", noDeleter)},
		},
		{"8-10-1 external, dynamic", volumeOf1Gi(toDelete, dynamic("vendor.com/d")), nil, reclaimPlan{}},
		{"8-10-2 external, static", volumeOf1Gi(toDelete, csi), nil, reclaimPlan{}},
		{
			"8-10-3 migrated", volumeOf1Gi(toDelete, dynamic("kubernetes.io/gce-pd"), marked(storagehelpers.AnnMigratedTo, "d")),
			nil,
			reclaimPlan{},
		},
		{"in-tree without its plugin", volumeOf1Gi(toDelete, dynamic("kubernetes.io/gce-pd")), nil, reclaimPlan{
			fail: true, message: warning("VolumeFailedDelete", "no volume plugin matched name: kubernetes.io/gce-pd"),
		}},
		{"6-3 no recycler", volumeOf1Gi(toRecycle), nil, reclaimPlan{fail: true, message: msgNoRecycler}},
		{"6-10 unknown policy", volumeOf1Gi(policy("Unknown")), nil, reclaimPlan{fail: true, message: msgUnknownPolicy}},
		{
			"6-11, 6-12 used by a pod", volumeOf1Gi(toRecycle),
			[]string{"default/p", "default/q"},
			reclaimPlan{message: normal("VolumeFailedRecycle", "Volume is used by pods: default/p,default/q")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := decideReclaim(tt.volume, tt.pods, &plugins.Manager{}); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
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
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("1Gi"), CurrentVolumeAttributesClassName: gold,
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
		{"was bound: size and attributes are others' business", old, corev1.ClaimBound, volumeOf1Gi(), old},
		{
			"was lost: attributes are left",
			corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimLost},
			corev1.ClaimBound,
			volumeOf1Gi(attributed),
			corev1.PersistentVolumeClaimStatus{
				Phase: corev1.ClaimBound, AccessModes: rwo, Capacity: capacity("1Gi"),
			},
		},
		{"1-3 back to pending", old, corev1.ClaimPending, nil, corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}},
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
