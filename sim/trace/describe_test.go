package trace_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/sim/trace"
)

// changed returns a changed copy of an object.
func candidate[T runtime.Object](obj T, change func(T)) T {
	c := obj.DeepCopyObject().(T)
	change(c)
	return c
}

var (
	gi = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

	newClaim = &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", Finalizers: []string{"kubernetes.io/pvc-protection"}},
		Spec:       corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: gi}},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}
	askedClaim = candidate(newClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Annotations = map[string]string{"volume.kubernetes.io/storage-provisioner": "csi.example.com"}
	})
	placedClaim = candidate(askedClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Annotations["volume.kubernetes.io/selected-node"] = "node-1"
	})
	namedClaim = candidate(askedClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = "pv"
		c.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
		c.Annotations["pv.kubernetes.io/bound-by-controller"] = "yes"
	})
	boundClaim = candidate(namedClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, gi
	})
	endingClaim = candidate(boundClaim, func(c *corev1.PersistentVolumeClaim) { c.DeletionTimestamp = &metav1.Time{} })
	freedClaim  = candidate(endingClaim, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })

	requestingClaim = candidate(boundClaim, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeAttributesClassName = ptr.To("gold") })
	modifyingClaim  = candidate(requestingClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{
			Status: corev1.PersistentVolumeClaimModifyVolumeInProgress, TargetVolumeAttributesClassName: "gold",
		}
	})
	modifiedClaim = candidate(requestingClaim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.CurrentVolumeAttributesClassName = ptr.To("gold")
	})

	freeVolume = &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{Capacity: gi},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumePending},
	}
	reservedVolume = candidate(freeVolume, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "1"}
		v.Annotations = map[string]string{"pv.kubernetes.io/bound-by-controller": "yes"}
	})
	promisedVolume = candidate(reservedVolume, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" })
	boundVolume    = candidate(reservedVolume, func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound })
	modifiedVolume = candidate(boundVolume, func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") })
	keptVolume     = candidate(boundVolume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	})
	lostVolume = candidate(keptVolume, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	})
	protectedVolume = candidate(boundVolume, func(v *corev1.PersistentVolume) {
		v.Finalizers = []string{"kubernetes.io/pv-protection", "external-attacher/csi"}
	})

	pod          = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
	nominatedPod = candidate(pod, func(p *corev1.Pod) { p.Status.NominatedNodeName = "node-1" })
	placedPod    = candidate(pod, func(p *corev1.Pod) { p.Spec.NodeName = "node-1" })
	runningPod   = candidate(placedPod, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	endingPod    = candidate(runningPod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} })

	node         = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	attachedNode = candidate(node, func(n *corev1.Node) {
		n.Status.VolumesAttached = []corev1.AttachedVolume{
			{Name: "kubernetes.io/csi/csi.example.com^vol-2"}, {Name: "kubernetes.io/csi/csi.example.com^vol-1"},
		}
	})
	usingNode = candidate(attachedNode, func(n *corev1.Node) {
		n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/csi.example.com^vol-1"}
	})
	cordonedNode = candidate(node, func(n *corev1.Node) { n.Spec.Unschedulable = true })

	pv         = "pv"
	attachment = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-1", Finalizers: []string{"external-attacher/csi"}},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: "node-1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}
	attached  = candidate(attachment, func(a *storagev1.VolumeAttachment) { a.Status.Attached = true })
	failing   = candidate(attachment, func(a *storagev1.VolumeAttachment) { a.Status.AttachError = &storagev1.VolumeError{Message: "busy"} })
	sticking  = candidate(attached, func(a *storagev1.VolumeAttachment) { a.Status.DetachError = &storagev1.VolumeError{Message: "stuck"} })
	detaching = candidate(attached, func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &metav1.Time{} })
	detached  = candidate(detaching, func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })

	class     = &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "csi.example.com"}
	emptyNode = &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	oneDriver = candidate(emptyNode, func(n *storagev1.CSINode) { n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "b"}} })
	twoDriver = candidate(emptyNode, func(n *storagev1.CSINode) { n.Spec.Drivers = []storagev1.CSINodeDriver{{Name: "a"}, {Name: "b"}} })

	event = &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "data.1"}, Reason: "FailedMount", Message: "no \"disk\"", Count: 1}
)

func TestChanges(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		before, after runtime.Object
		want          []string
	}{
		{"nothing", nil, nil, nil},
		{"gone without its last state", newClaim, nil, nil},
		{"no change", boundClaim, boundClaim, nil},
		{"claim made", nil, newClaim, []string{"phase=Pending", "finalizers=[kubernetes.io/pvc-protection]"}},
		{"provisioning", newClaim, askedClaim, []string{"provisioner=csi.example.com"}},
		{"placed", askedClaim, placedClaim, []string{"selected-node=node-1"}},
		{"placement taken back", placedClaim, askedClaim, []string{"selected-node cleared"}},
		{"claim named", askedClaim, namedClaim, []string{"volume=pv", "bind-completed=yes", "bound-by-controller=yes"}},
		{"claim bound", namedClaim, boundClaim, []string{"phase=Bound", "capacity=1Gi"}},
		{"claim ends", boundClaim, endingClaim, []string{"deleting=yes"}},
		{"claim is modified", requestingClaim, modifyingClaim, []string{"modification=InProgress gold"}},
		{"claim was modified", modifyingClaim, modifiedClaim, []string{"attributes=gold", "modification cleared"}},
		{"volume was modified", boundVolume, modifiedVolume, []string{"attributes=gold"}},
		{"claim freed", endingClaim, freedClaim, []string{"finalizers cleared"}},
		{"volume made", nil, freeVolume, []string{"phase=Pending"}},
		{"volume promised", freeVolume, promisedVolume, []string{"claim=default/data (no uid)", "bound-by-controller=yes"}},
		{"volume reserved", promisedVolume, reservedVolume, []string{"claim=default/data"}},
		{"volume released", reservedVolume, freeVolume, []string{"claim cleared", "bound-by-controller cleared"}},
		{"finalizers are sorted", boundVolume, protectedVolume, []string{"finalizers=[external-attacher/csi kubernetes.io/pv-protection]"}},
		{"pod placed", pod, placedPod, []string{"node=node-1"}},
		{"pod runs", placedPod, runningPod, []string{"phase=Running"}},
		{"pod ends", runningPod, endingPod, []string{"deleting=yes"}},
		{"node made", nil, node, nil},
		{
			"attached lists are sorted", node, attachedNode,
			[]string{"volumesAttached=[kubernetes.io/csi/csi.example.com^vol-1 kubernetes.io/csi/csi.example.com^vol-2]"},
		},
		{"in use", attachedNode, usingNode, []string{"volumesInUse=[kubernetes.io/csi/csi.example.com^vol-1]"}},
		{"nothing on the node", usingNode, node, []string{"volumesAttached cleared", "volumesInUse cleared"}},
		{"attachment made", nil, attachment, []string{"volume=pv", "node=node-1", "finalizers=[external-attacher/csi]"}},
		{"attached", attachment, attached, []string{"attached=true"}},
		{"attach fails", attachment, failing, []string{`attachError="busy"`}},
		{"detach fails", attached, sticking, []string{`detachError="stuck"`}},
		{"event", nil, event, []string{"reason=FailedMount", `message="no \"disk\""`, "count=1"}},
		{"event again", event, candidate(event, func(e *corev1.Event) { e.Count = 2 }), []string{"count=2"}},
		{"class", nil, class, nil},
		{"not an object with metadata", nil, &metav1.Status{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, trace.Changes(tt.before, tt.after)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescribeWrites(t *testing.T) {
	t.Parallel()
	write := func(verb string, before, after runtime.Object) trace.Record {
		r := trace.Record{Action: trace.Action{Kind: trace.KindAPI, Verb: verb, Object: "x"}}
		r.Before, r.After = before, after
		return r
	}
	gone := func(verb string, before, after runtime.Object) trace.Record {
		r := write(verb, before, after)
		r.Gone = true
		return r
	}
	const silent = ""
	tests := []struct {
		name   string
		record trace.Record
		want   string
	}{
		{"claim made", write("create", nil, newClaim), "creates claim default/data of 1Gi"},
		{"provisioning", write("update", newClaim, askedClaim), "requests provisioning of claim default/data by csi.example.com"},
		{"provisioning no more", write("update", askedClaim, newClaim), silent},
		{"placed", write("update", askedClaim, placedClaim), "selects node-1 for claim default/data"},
		{"placement taken back", write("update", placedClaim, askedClaim), silent},
		{"claim named", write("update", askedClaim, namedClaim), "binds claim default/data to volume pv"},
		{"claim not named any more", write("update", namedClaim, askedClaim), silent},
		{"claim bound", write("update/status", namedClaim, boundClaim), "marks claim default/data Bound"},
		{"claim to end", write("delete", boundClaim, endingClaim), "deletes claim default/data, which remains until its finalizers [kubernetes.io/pvc-protection] are removed"},
		{"claim freed and gone", gone("update", endingClaim, freedClaim), "removes the last finalizer from claim default/data"},
		{
			"class requested", write("patch", boundClaim, requestingClaim),
			"changes the VolumeAttributesClass that claim default/data requests from none to gold",
		},
		{
			"modification begun", write("patch/status", requestingClaim, modifyingClaim),
			"marks the modification of claim default/data InProgress to gold",
		},
		{
			"modification ended", write("patch/status", modifyingClaim, modifiedClaim),
			"reports the volume of claim default/data modified from none to gold",
		},
		{"volume modified", write("patch", boundVolume, modifiedVolume), "changes the VolumeAttributesClass of volume pv from none to gold"},
		{"volume without a claim", write("create", nil, freeVolume), "creates volume pv of 1Gi"},
		{"volume for a claim", write("create", nil, reservedVolume), "creates volume pv of 1Gi for claim default/data"},
		{"volume reserved", write("update", freeVolume, reservedVolume), "reserves volume pv for claim default/data"},
		{"volume not to be kept", write("patch", keptVolume, lostVolume), "changes the reclaim policy of volume pv from Retain to Delete"},
		{"volume bound", write("update/status", reservedVolume, boundVolume), "marks volume pv Bound"},
		{"volume protected", write("update", boundVolume, protectedVolume), "adds finalizer [external-attacher/csi] to volume pv"},
		{"volume let go", write("update", protectedVolume, boundVolume), "removes its finalizer from volume pv (remaining: none)"},
		{"volume deleted and gone", gone("delete", boundVolume, boundVolume), "deletes volume pv"},
		{"pod made", write("create", nil, pod), "creates pod default/a"},
		{"pod nominated", write("patch/status", pod, nominatedPod), "nominates node-1 for pod default/a"},
		{"pod not nominated any more", write("patch/status", nominatedPod, pod), "removes the nomination of pod default/a"},
		{"pod placed", write("create/binding", pod, placedPod), "binds pod default/a to node-1"},
		{"pod runs", write("patch/status", placedPod, runningPod), "reports pod default/a Running"},
		{"pod to end", write("delete", runningPod, endingPod), "deletes pod default/a with a grace period"},
		{"pod gone", gone("delete", endingPod, endingPod), "deletes pod default/a"},
		{"pod written as it is", write("update", pod, pod), silent},
		{"node made", write("create", nil, node), "registers node-1"},
		{"node cordoned", write("patch", node, cordonedNode), "cordons node-1"},
		{"node uncordoned", write("patch", cordonedNode, node), "uncordons node-1"},
		{"attached to the node", write("patch/status", node, attachedNode), "lists vol-2, vol-1 as attached to node-1"},
		{"attached no more", write("patch/status", attachedNode, node), "no longer lists vol-2, vol-1 as attached to node-1"},
		{"in use", write("patch/status", attachedNode, usingNode), "reports vol-1 in use on node-1"},
		{"in use no more", write("patch/status", usingNode, attachedNode), "reports vol-1 no longer in use on node-1"},
		{"node deleted", gone("delete", node, node), silent},
		{"attachment made", write("create", nil, attachment), "requests attachment of volume pv to node-1"},
		{"attached", write("patch/status", attachment, attached), "reports volume pv attached to node-1"},
		{"attach fails", write("patch/status", attachment, failing), "cannot attach volume pv: busy"},
		{"attach fails in the same way", write("patch/status", failing, failing), silent},
		{"detach fails", write("patch/status", attached, sticking), "cannot detach volume pv: stuck"},
		{"to be detached", write("delete", attached, detaching), "deletes the attachment to node-1, which remains until its finalizers [external-attacher/csi] are removed"},
		{"detached", gone("update", detaching, detached), "reports the volume detached from node-1 and removes the attachment to node-1"},
		{"class made", write("create", nil, class), "creates storage class fast, served by csi.example.com"},
		{"class changed", write("update", class, class), silent},
		{"CSI node made", write("create", nil, emptyNode), silent},
		{"driver registered", write("update", emptyNode, oneDriver), "registers driver b on node-1"},
		{"another driver registered", write("update", oneDriver, twoDriver), "registers driver a on node-1"},
		{"driver registered again", write("update", twoDriver, twoDriver), silent},
		{"driver gone", write("update", twoDriver, oneDriver), silent},
		{"event", write("create", nil, event), silent},
		{"nothing committed", write("update", nil, nil), silent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectDescription(t, tt.record, tt.want)
		})
	}
}

func TestDescribeRefusalsAndCalls(t *testing.T) {
	t.Parallel()
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	patched := func(err error) trace.Record {
		r := trace.Record{Action: trace.Action{Kind: trace.KindAPI, Verb: "patch", Object: "persistentvolumeclaims/default/data"}}
		r.Err = err
		return r
	}
	refused := func(err error) trace.Record {
		r := trace.Record{Action: trace.Action{Kind: trace.KindAPI, Verb: "update", Object: "persistentvolumeclaims/default/data"}}
		r.Err, r.After = err, newClaim
		return r
	}
	call := func(verb, object, detail string, err error) trace.Record {
		return trace.Record{
			Action:  trace.Action{Kind: trace.KindDriver, Verb: verb, Object: object},
			Outcome: trace.Outcome{Detail: detail, Err: err},
		}
	}
	const silent = ""
	tests := []struct {
		name   string
		record trace.Record
		want   string
	}{
		{"not found", refused(apierrors.NewNotFound(claims, "data")), silent},
		{"exists already", refused(apierrors.NewAlreadyExists(claims, "data")), silent},
		{
			"conflict", refused(apierrors.NewConflict(claims, "data", errors.New("stale"))),
			"gets a conflict for its update of claim default/data and will retry",
		},
		{
			"JSON patch of an object that has changed", patched(apierrors.NewGenericServerResponse(
				http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", "test failed", 0, false)),
			"gets an error for its patch of claim default/data, since the JSON patch does not apply to the current object, and will retry",
		},
		{"invalid patch", patched(apierrors.NewInvalid(schema.GroupKind{Kind: "X"}, "x", nil)), `gets an error for its patch of claim default/data: X "x" is invalid`},
		{"refused", refused(errors.New("no")), "gets an error for its update of claim default/data: no"},
		{"call with particulars", call("NodeStageVolume", "csi.example.com/vol-1", "path=/x", nil), "has the driver stage the volume: path=/x"},
		{
			"call of a plugin", call("Recycle", "kubernetes.io/host-path/v", "node=node-1 path=/data", nil),
			"scrubs the volume, as the recycler pod would: node=node-1 path=/data",
		},
		{
			"call of a plugin that fails", call("Delete", "kubernetes.io/host-path/v", "path=/tmp/v", errors.New("busy")),
			"calls Delete of kubernetes.io/host-path/v, which fails: busy",
		},
		{"call", call("DeleteVolume", "csi.example.com/vol-1", "", nil), "has the driver delete the volume vol-1"},
		{"unimportant call", call("NodeGetInfo", "csi.example.com", "", nil), silent},
		{"any call that fails", call("NodeGetInfo", "csi.example.com", "", errors.New("no")), "calls NodeGetInfo of csi.example.com, which fails: no"},
		{"delivery", trace.Record{Action: trace.Action{Kind: trace.KindDeliver, Verb: "ADDED"}, Outcome: trace.Outcome{After: newClaim}}, silent},
		{"work", trace.Record{Action: trace.Action{Kind: trace.KindWork, Verb: "sync"}}, silent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			expectDescription(t, tt.record, tt.want)
		})
	}
}

// expectDescription checks the description of a record; "" means none.
func expectDescription(t *testing.T, r trace.Record, want string) {
	t.Helper()
	got, ok := trace.Describe(r)
	if ok != (want != "") {
		t.Errorf("described: %v (%q), want %v", ok, got, want != "")
	}
	if diff := cmp.Diff(want, got); ok && diff != "" {
		t.Errorf("sentence (-want +got):\n%s", diff)
	}
}
