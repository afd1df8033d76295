package provisioner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/customresource"
	"github.com/volsim/volsim/internal/snapshotapi"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/provisioner"
)

const restoreFinalizer = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"

// newSnapshotWorld is a world with the kinds of snapshots, and a class.
func newSnapshotWorld(t *testing.T, cfg provisioner.Config) *world {
	t.Helper()
	w := newWorldServing(t, nil, cfg, snapshotapi.Definitions(), grantDefinition)
	w.cloning()
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	return w
}

// grantDefinition serves ReferenceGrants.
const grantDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: referencegrants.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/891"}
spec:
  group: gateway.networking.k8s.io
  names: {kind: ReferenceGrant, listKind: ReferenceGrantList, plural: referencegrants, singular: referencegrant}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// A restore is the objects of a claim that is restored from a snapshot, ready unless a test changes them.
type restore struct {
	claim    *corev1.PersistentVolumeClaim
	snapshot *snapshotapi.VolumeSnapshot
	content  *snapshotapi.VolumeSnapshotContent
}

func newRestore() *restore {
	group := snapshotapi.Group
	claim := newClaim("copy", "fast")
	claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "daily"}
	return &restore{
		claim: claim,
		snapshot: &snapshotapi.VolumeSnapshot{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "daily"},
			Spec:       snapshotapi.SnapshotSpec{Source: snapshotapi.SnapshotSource{PersistentVolumeClaimName: ptr("data")}},
			Status: &snapshotapi.SnapshotStatus{
				BoundVolumeSnapshotContentName: ptr("content"), ReadyToUse: ptr(true), RestoreSize: ptr(resource.MustParse("1Gi")),
			},
		},
		content: &snapshotapi.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: "content"},
			Spec: snapshotapi.ContentSpec{
				VolumeSnapshotRef: corev1.ObjectReference{Namespace: "default", Name: "daily"},
				DeletionPolicy:    snapshotapi.Delete, Driver: driverName,
				Source: snapshotapi.ContentSource{VolumeHandle: ptr("volume")},
			},
			Status: &snapshotapi.ContentStatus{SnapshotHandle: ptr("snap"), ReadyToUse: ptr(true)},
		},
	}
}

// snapshotClient is the user's.
func (w *world) snapshotClient() customresource.Client[snapshotapi.VolumeSnapshot, *snapshotapi.VolumeSnapshot] {
	return snapshotapi.Snapshots.Client(w.User.Dynamic())
}

// createSnapshot creates the snapshot and its content, with their statuses. The content refers to the snapshot's UID,
// unless it names another.
func (w *world) createSnapshot(r *restore) {
	w.Helper()
	ctx, contents := context.Background(), snapshotapi.Contents.Client(w.User.Dynamic())
	status := r.snapshot.Status
	made := testcheck.Must(w.snapshotClient().Create(ctx, r.snapshot))
	if made.Status = status; status != nil {
		made = testcheck.Must(w.snapshotClient().UpdateStatus(ctx, made))
	}
	if r.content == nil {
		return
	}
	if r.content.Spec.VolumeSnapshotRef.UID == "" {
		r.content.Spec.VolumeSnapshotRef.UID = made.UID
	}
	content := testcheck.Must(contents.Create(ctx, r.content))
	if content.Status = r.content.Status; content.Status != nil {
		testcheck.Must(contents.UpdateStatus(ctx, content))
	}
}

// snapshot returns the stored snapshot, or nil.
func (w *world) snapshot(name string) *snapshotapi.VolumeSnapshot {
	obj, ok := w.Server.Get(snapshotapi.Snapshots.CommitName(), "default", name)
	if !ok {
		return nil
	}
	return testcheck.Must(snapshotapi.Snapshots.Parse(obj))
}

func TestVolumeIsMadeFromASnapshot(t *testing.T) {
	w := newSnapshotWorld(t, provisioner.Config{Snapshots: true})
	r := newRestore()
	r.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	w.createSnapshot(r)
	w.create(r.claim)
	w.Until("the request", func() bool { return len(w.requests()) == 1 })
	if got := w.snapshot("daily").Finalizers; !slices.Equal(got, []string{restoreFinalizer}) {
		t.Errorf("finalizers while the volume is made: %v", got)
	}
	w.Run()
	if got := w.requests()[0].GetVolumeContentSource().GetSnapshot().GetSnapshotId(); got != "snap" {
		t.Errorf("made from %q, want snap", got)
	}
	if got := w.snapshot("daily").Finalizers; len(got) > 0 || len(w.volumes()) != 1 {
		t.Errorf("%d volumes, and finalizers %v of the snapshot", len(w.volumes()), got)
	}
}

// TestSnapshotIsWaitedFor has no retry: the change of the snapshot is enough.
func TestSnapshotIsWaitedFor(t *testing.T) {
	w := newSnapshotWorld(t, provisioner.Config{Snapshots: true})
	r := newRestore()
	w.create(r.claim)
	w.Run()
	const missing = `ProvisioningFailed: error getting handle for DataSource Type VolumeSnapshot by Name daily: ` +
		`error getting snapshot daily from api server: volumesnapshots.snapshot.storage.k8s.io "daily" not found`
	if !slices.Contains(w.events(), missing) {
		t.Errorf("events %q, want %q", w.events(), missing)
	}
	r.snapshot.Status.ReadyToUse = ptr(false)
	w.createSnapshot(r)
	w.Run()
	const unready = "ProvisioningFailed: error getting handle for DataSource Type VolumeSnapshot by Name daily: snapshot daily is not Ready"
	if !slices.Contains(w.events(), unready) || len(w.volumes()) != 0 {
		t.Errorf("events %q, want %q; %d volumes", w.events(), unready, len(w.volumes()))
	}
	before := w.Host.Now()
	ready := w.snapshot("daily")
	ready.Status.ReadyToUse = ptr(true)
	testcheck.Must(w.snapshotClient().UpdateStatus(context.Background(), ready))
	w.Until("the volume", func() bool { return len(w.volumes()) == 1 })
	if after := w.Host.Now(); after != before {
		t.Errorf("it took %v", after.Sub(before))
	}
	w.Run()
}

// TestSnapshotThatCannotBeASource has the rows of upstream's TestProvisionFromSnapshot without grants.
func TestSnapshotThatCannotBeASource(t *testing.T) {
	const handle = "error getting handle for DataSource Type VolumeSnapshot by Name daily: "
	block, files := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	modes := func(r *restore) { r.content.Spec.SourceVolumeMode, r.claim.Spec.VolumeMode = &files, &block }
	const refused = handle + "requested volume default/copy modifies the mode of the source volume but does not have permission to do so. "
	for _, test := range []struct {
		name   string
		change func(r *restore)
		want   string // "": a volume is made
	}{
		{"a snapshot", func(*restore) {}, ""},
		{"a larger claim", func(r *restore) { r.claim.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi") }, ""},
		{
			"a smaller claim", func(r *restore) { r.snapshot.Status.RestoreSize = ptr(resource.MustParse("2Gi")) },
			handle + "requested volume size 1073741824 is less than the size 2147483648 for the source snapshot daily",
		},
		{"no size", func(r *restore) { r.snapshot.Status.RestoreSize = nil }, ""},
		{
			"another API group", func(r *restore) {
				r.claim.Spec.DataSource, r.claim.Spec.DataSourceRef = nil, &corev1.TypedObjectReference{APIGroup: ptr("example.com"), Kind: "VolumeSnapshot", Name: "daily"}
			},
			"the PVC source does not belong to the right APIGroup. Expected snapshot.storage.k8s.io, Got example.com",
		},
		{"no status", func(r *restore) { r.snapshot.Status = nil }, handle + "snapshot daily not bound"},
		{"no content in the status", func(r *restore) { r.snapshot.Status.BoundVolumeSnapshotContentName = nil }, handle + "snapshot daily not bound"},
		{"no content", func(r *restore) { r.content = nil }, handle + "error getting snapshotcontent content for snapshot daily"},
		{
			"the content of another UID", func(r *restore) { r.content.Spec.VolumeSnapshotRef.UID = "other" },
			handle + "snapshotcontent content for snapshot daily is bound to a different snapshot",
		},
		{
			"the content of another namespace", func(r *restore) { r.content.Spec.VolumeSnapshotRef.Namespace = "other" },
			handle + "snapshotcontent content for snapshot daily is bound to a different snapshot",
		},
		{
			"the content of another name", func(r *restore) { r.content.Spec.VolumeSnapshotRef.Name = "other" },
			handle + "snapshotcontent content for snapshot daily is bound to a different snapshot",
		},
		{
			"another driver", func(r *restore) { r.content.Spec.Driver = "other.example.com" },
			handle + "snapshotcontent content for snapshot daily is not handled by CSI driver of StorageClass fast",
		},
		{"no status of the content", func(r *restore) { r.content.Status = nil }, handle + "snapshot handle daily is not available"},
		{"no handle", func(r *restore) { r.content.Status.SnapshotHandle = nil }, handle + "snapshot handle daily is not available"},
		{"not known to be ready", func(r *restore) { r.snapshot.Status.ReadyToUse = nil }, handle + "snapshot daily is not Ready"},
		{
			"another mode", modes,
			refused + "snapshot.storage.kubernetes.io/allow-volume-mode-change annotation is not present on snapshotcontent content",
		},
		{
			"another mode, with permission", func(r *restore) {
				modes(r)
				r.content.Annotations = map[string]string{"snapshot.storage.kubernetes.io/allow-volume-mode-change": "true"}
			}, "",
		},
		{
			"another mode, without permission", func(r *restore) {
				modes(r)
				r.content.Annotations = map[string]string{"snapshot.storage.kubernetes.io/allow-volume-mode-change": "false"}
			}, refused + "snapshot.storage.kubernetes.io/allow-volume-mode-change is set to false on snapshotcontent content",
		},
		{
			"another mode, a permission that is none", func(r *restore) {
				modes(r)
				r.content.Annotations = map[string]string{"snapshot.storage.kubernetes.io/allow-volume-mode-change": "yes"}
			}, refused + `failed to convert snapshot.storage.kubernetes.io/allow-volume-mode-change annotation value to boolean with error: ` +
				`strconv.ParseBool: parsing "yes": invalid syntax`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSnapshotWorld(t, provisioner.Config{Snapshots: true})
			r := newRestore()
			test.change(r)
			w.createSnapshot(r)
			w.create(r.claim)
			w.Run()
			if test.want == "" {
				if len(w.volumes()) != 1 {
					t.Errorf("%d volumes, events %q", len(w.volumes()), w.events())
				}
				return
			}
			if want := "ProvisioningFailed: " + test.want; !slices.Contains(w.events(), want) || len(w.requests()) > 0 {
				t.Errorf("events %q, want %q; %d requests", w.events(), want, len(w.requests()))
			}
			if s := w.snapshot("daily"); len(s.Finalizers) > 0 {
				t.Errorf("finalizers %v", s.Finalizers)
			}
		})
	}
}

// TestDeletedSnapshot has the rows of upstream's table about snapshots that are being deleted.
func TestDeletedSnapshot(t *testing.T) {
	for _, test := range []struct {
		name, finalizer string
		volumes         int
	}{
		{"that no volume was made from", "example.com/other", 0},
		{"whose restore has begun", restoreFinalizer, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSnapshotWorld(t, provisioner.Config{}) // without the removal of unneeded finalizers
			r := newRestore()
			r.snapshot.Finalizers = []string{test.finalizer}
			w.createSnapshot(r)
			testcheck.NoError(t, w.snapshotClient().Delete(t.Context(), "default", "daily", metav1.DeleteOptions{}))
			w.create(r.claim)
			w.Run()
			const refused = "ProvisioningFailed: error getting handle for DataSource Type VolumeSnapshot by Name daily: snapshot daily is being deleted"
			if got := slices.Contains(w.events(), refused); len(w.volumes()) != test.volumes || got != (test.volumes == 0) {
				t.Errorf("%d volumes, want %d; events %q", len(w.volumes()), test.volumes, w.events())
			}
		})
	}
}

// TestSnapshotStaysWhileItIsRead deletes a snapshot between the request for a volume and its answer.
func TestSnapshotStaysWhileItIsRead(t *testing.T) {
	w := newSnapshotWorld(t, provisioner.Config{Snapshots: true})
	r, second := newRestore(), newRestore()
	second.claim.Name = "second"
	w.conn.Faults = []scripted.Fault{{Method: "CreateVolume", Code: codes.DeadlineExceeded}, {Method: "CreateVolume", Code: codes.DeadlineExceeded}}
	w.createSnapshot(r)
	w.create(r.claim)
	w.create(second.claim)
	w.Until("two requests", func() bool { return len(w.requests()) == 2 })
	testcheck.NoError(t, w.snapshotClient().Delete(t.Context(), "default", "daily", metav1.DeleteOptions{}))
	w.delete("second")
	w.Until("the first volume", func() bool { return len(w.volumes()) >= 1 })
	w.Run()
	if s := w.snapshot("daily"); s != nil {
		t.Errorf("the snapshot stays with finalizers %v", s.Finalizers)
	}
	if n := len(w.array.Volumes()); n != 1 {
		t.Errorf("%d volumes of the driver, want that of the first claim", n)
	}
}

// TestUnneededFinalizerIsRemoved has a snapshot whose restore a crash has interrupted, and then its claim is deleted.
func TestUnneededFinalizerIsRemoved(t *testing.T) {
	w := newSnapshotWorld(t, provisioner.Config{Snapshots: true})
	r := newRestore()
	w.conn.Faults = []scripted.Fault{{Method: "CreateVolume", Code: codes.Internal}}
	w.createSnapshot(r)
	w.create(r.claim)
	w.Until("a request", func() bool { return len(w.requests()) == 1 })
	w.Host.Crash(w.process)
	w.delete("copy")
	w.start()
	w.Run()
	if s := w.snapshot("daily"); len(s.Finalizers) > 0 {
		t.Errorf("finalizers %v", s.Finalizers)
	}
}

// TestSourceInAnotherNamespace has rows of upstream's TestProvisionFromSnapshot and TestProvisionFromPVC.
func TestSourceInAnotherNamespace(t *testing.T) {
	grant := func(text string) func(*world) {
		return func(w *world) {
			w.Helper()
			_, err := w.User.Dynamic().Resource(provisioner.Grants).Namespace("default").
				Patch(context.Background(), "grant", types.ApplyYAMLPatchType,
					[]byte("apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {namespace: default, name: grant}\nspec: "+text),
					metav1.PatchOptions{FieldManager: "test"})
			testcheck.NoError(w, err)
		}
	}
	const allowed = "{from: [{group: '', kind: PersistentVolumeClaim, namespace: apps}], to: [{group: snapshot.storage.k8s.io, kind: VolumeSnapshot}]}"
	for _, test := range []struct {
		name    string
		enabled bool
		before  func(*world)
		want    string // "": a volume is made
	}{
		{"granted", true, grant(allowed), ""},
		{"not granted", true, func(*world) {}, "accessing default/daily of VolumeSnapshot dataSource from apps/copy isn't allowed"},
		{
			"granted to others", true, grant(strings.Replace(allowed, "apps", "others", 1)),
			"accessing default/daily of VolumeSnapshot dataSource from apps/copy isn't allowed",
		},
		{
			"disabled", false, grant(allowed),
			"dataSourceRef namespace specified but the CrossNamespaceVolumeDataSource feature is disabled",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newSnapshotWorld(t, provisioner.Config{Snapshots: true, CrossNamespaceSources: test.enabled})
			testcheck.Must(w.User.CoreV1().Namespaces().Create(t.Context(),
				&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "apps"}}, metav1.CreateOptions{}))
			r := newRestore()
			r.claim.Namespace, r.claim.Spec.DataSource = "apps", nil
			r.claim.Spec.DataSourceRef = &corev1.TypedObjectReference{
				APIGroup: ptr(snapshotapi.Group), Kind: "VolumeSnapshot", Namespace: ptr("default"), Name: "daily",
			}
			w.createSnapshot(r)
			test.before(w)
			testcheck.Must(w.Server.Client(w.Host.ExternalCaller()).CoreV1().PersistentVolumeClaims("apps").
				Create(t.Context(), r.claim, metav1.CreateOptions{}))
			w.Run()
			if test.want == "" {
				if len(w.volumes()) != 1 || len(w.snapshot("daily").Finalizers) > 0 {
					t.Errorf("%d volumes, finalizers %v, events %q", len(w.volumes()), w.snapshot("daily").Finalizers, w.events())
				}
				return
			}
			if want := "ProvisioningFailed: " + test.want; !slices.Contains(w.events(), want) {
				t.Errorf("events %q, want %q", w.events(), want)
			}
			if test.enabled { // a grant that comes later is enough
				grant(allowed)(w)
				if w.Run(); len(w.volumes()) != 1 {
					t.Errorf("%d volumes once it is granted", len(w.volumes()))
				}
			}
		})
	}
}

// TestSecrets follows the secrets of a class to the requests and the PersistentVolume.
func TestSecrets(t *testing.T) {
	w := newWorld(t, nil)
	class := newClass("fast", storagev1.VolumeBindingImmediate)
	class.Parameters = map[string]string{}
	for _, operation := range []string{
		"provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand", "controller-modify",
	} {
		class.Parameters["csi.storage.k8s.io/"+operation+"-secret-name"] = operation + "-${pvc.name}"
		class.Parameters["csi.storage.k8s.io/"+operation+"-secret-namespace"] = "${pvc.namespace}"
	}
	class.ReclaimPolicy = ptr(corev1.PersistentVolumeReclaimDelete)
	w.class(class)
	w.create(newClaim("data", "fast"))
	w.Run()
	const missing = `ProvisioningFailed: error getting secret provisioner-data in namespace default: secrets "provisioner-data" not found`
	if !slices.Contains(w.events(), missing) || len(w.volumes()) != 0 {
		t.Fatalf("events %q, want %q", w.events(), missing)
	}
	testcheck.Must(w.User.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "provisioner-data"}, Data: map[string][]byte{"token": []byte("t0ken")},
	}, metav1.CreateOptions{}))
	w.Until("the volume", func() bool { return len(w.volumes()) == 1 && w.volumes()[0].Status.Phase == corev1.VolumeBound })
	if got := w.requests()[0].GetSecrets()["token"]; got != "t0ken" {
		t.Errorf("secrets of the request: %q", got)
	}
	volume := w.volumes()[0]
	source := volume.Spec.CSI
	for want, ref := range map[string]*corev1.SecretReference{
		"controller-publish-data": source.ControllerPublishSecretRef, "node-stage-data": source.NodeStageSecretRef,
		"node-publish-data": source.NodePublishSecretRef, "controller-expand-data": source.ControllerExpandSecretRef,
		"node-expand-data": source.NodeExpandSecretRef,
		"provisioner-data": {
			Name:      volume.Annotations["volume.kubernetes.io/provisioner-deletion-secret-name"],
			Namespace: volume.Annotations["volume.kubernetes.io/provisioner-deletion-secret-namespace"],
		},
		"controller-modify-data": {
			Name:      volume.Annotations["volume.kubernetes.io/controller-modify-secret-name"],
			Namespace: volume.Annotations["volume.kubernetes.io/controller-modify-secret-namespace"],
		},
	} {
		if ref == nil || ref.Name != want || ref.Namespace != "default" {
			t.Errorf("got secret %v, want %s", ref, want)
		}
	}
	w.delete("data")
	w.Run()
	var deleted *csispec.DeleteVolumeRequest
	for _, call := range w.conn.Calls {
		if request, is := call.Request.(*csispec.DeleteVolumeRequest); is {
			deleted = request
		}
	}
	if deleted.GetSecrets()["token"] != "t0ken" || len(w.volumes()) != 0 {
		t.Errorf("deleted with secrets %v; %d volumes", deleted.GetSecrets(), len(w.volumes()))
	}
}

// TestExtraCreateMetadata passes names to the driver.
func TestExtraCreateMetadata(t *testing.T) {
	w := newWorldWith(t, nil, provisioner.Config{ExtraCreateMetadata: true})
	w.class(newClass("fast", storagev1.VolumeBindingImmediate))
	w.create(newClaim("data", "fast"))
	w.Run()
	got := w.requests()[0].GetParameters()
	if got["csi.storage.k8s.io/pvc/name"] != "data" || got["csi.storage.k8s.io/pvc/namespace"] != "default" ||
		got["csi.storage.k8s.io/pv/name"] != w.volumes()[0].Name {
		t.Errorf("parameters %v", got)
	}
}
