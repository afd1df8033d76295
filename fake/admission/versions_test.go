package admission_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/crd"
)

// disks is a resource in two versions; v1 has a default and prunes.
var disks = fstest.MapFS{"disks.yaml": {Data: []byte(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: disks.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: disks, singular: disk, kind: Disk, listKind: DiskList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.copies, statusReplicasPath: .status.copies}}
    schema: &schema
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {size: {type: string}, copies: {type: integer, default: 1}}}
          status: {type: object, properties: {copies: {type: integer}}}
  - name: v1beta1
    served: true
    storage: false
    schema: *schema
`)}}

func disk(version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": "Disk",
		"metadata": map[string]any{"name": "d", "labels": map[string]any{"app": "x"}}, "spec": map[string]any{"size": "1Gi"},
	}}
	return u
}

func TestEquivalentVersions(t *testing.T) {
	exact := func(h *registrationv1.ValidatingWebhook) { h.MatchPolicy = ptr.To(registrationv1.Exact) }
	for _, test := range []struct {
		sent, rule string
		change     func(*registrationv1.ValidatingWebhook)
		seen       string // "": not called
	}{
		{sent: "v1", rule: "v1", seen: "v1"},
		{sent: "v1beta1", rule: "v1", seen: "v1"},
		{sent: "v1", rule: "v1beta1", seen: "v1beta1"},
		{sent: "v1beta1", rule: "v1", change: exact},
	} {
		name := test.sent + " is seen as " + test.seen
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]answer{"a": patch(`[{"op":"add","path":"/spec/size","value":"2Gi"},{"op":"add","path":"/spec/copies","value":3}]`)})
			r.noError(crd.InstallFS(t.Context(), r.admin, disks))
			h := hook("a", about(rule("example.com", test.rule, "disks", registrationv1.OperationAll)))
			if test.change != nil {
				test.change(&h)
			}
			r.mutating("hooks", "", h)
			client := r.admin.Dynamic().Resource(schema.GroupVersionResource{Group: "example.com", Version: test.sent, Resource: "disks"}).Namespace("default")
			got, err := client.Create(t.Context(), disk(test.sent), metav1.CreateOptions{})
			r.noError(err)
			spec := fmt.Sprint(got.Object["spec"])
			if test.seen == "" {
				if len(r.asked) > 0 || spec != "map[copies:1 size:1Gi]" {
					t.Errorf("%d calls, %s", len(r.asked), spec)
				}
				return
			}
			if spec != "map[copies:3 size:2Gi]" || got.GetAPIVersion() != "example.com/"+test.sent {
				t.Errorf("created %v", got.Object)
			}
			q := r.asked[0]
			var seen unstructured.Unstructured
			r.noError(seen.UnmarshalJSON(q.Object.Raw))
			if seen.GetAPIVersion() != "example.com/"+test.seen || q.Kind.Version != test.seen || q.RequestKind.Version != test.sent || q.Resource.Version != test.seen {
				t.Errorf("asked about %v of %v for %v", seen.GetAPIVersion(), q.Kind, q.RequestKind)
			}
			if !strings.Contains(string(q.Object.Raw), `"copies":1`) {
				t.Errorf("without defaults: %s", q.Object.Raw)
			}
			got.SetLabels(map[string]string{"b": "c"})
			_, err = client.Update(t.Context(), got, metav1.UpdateOptions{})
			r.noError(err)
			if q := r.asked[1]; !strings.Contains(string(q.OldObject.Raw), `"apiVersion":"example.com/`+test.seen+`"`) {
				t.Errorf("old object %s", q.OldObject.Raw)
			}
		})
	}
}

// A scale of a custom resource is asked about as a Scale, and its patch reaches the object.
func TestScaleOfACustomResource(t *testing.T) {
	r := newRig(t, map[string]answer{"a": patch(`[{"op":"replace","path":"/spec/replicas","value":5}]`)})
	r.noError(crd.InstallFS(t.Context(), r.admin, disks))
	r.mutating("hooks", "", hook("a", about(rule("example.com", "v1", "disks/scale", registrationv1.OperationAll))))
	client := r.admin.Dynamic().Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "disks"}).Namespace("default")
	_, err := client.Create(t.Context(), disk("v1"), metav1.CreateOptions{})
	r.noError(err)
	_, err = client.Patch(t.Context(), "d", "application/merge-patch+json", []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}, "scale")
	r.noError(err)
	r.expectLog("a UPDATE Scale d")
	got, err := client.Get(t.Context(), "d", metav1.GetOptions{})
	r.noError(err)
	if copies, _, _ := unstructured.NestedInt64(got.Object, "spec", "copies"); copies != 5 {
		t.Errorf("%d copies, want 5", copies)
	}
}

// An event is stored once, and seen in the version of the rule.
func TestEventsAreEquivalent(t *testing.T) {
	r := newRig(t, map[string]answer{"a": label("seen", "yes")})
	r.mutating("hooks", "", hook("a", about(rule("", "v1", "events", registrationv1.Create))))
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "default", Labels: map[string]string{"app": "x"}},
		EventTime:  metav1.NowMicro(), ReportingController: "example.com/c", ReportingInstance: "i", Action: "Do", Reason: "Done", Type: "Normal", Note: "note",
	}
	got, err := r.admin.EventsV1().Events("default").Create(t.Context(), event, metav1.CreateOptions{})
	r.noError(err)
	var seen map[string]any
	r.noError(json.Unmarshal(r.asked[0].Object.Raw, &seen))
	if got.Labels["seen"] != "yes" || got.Note != "note" || seen["message"] != "note" || seen["apiVersion"] != "v1" {
		t.Errorf("created %v, seen %v", got, seen)
	}
}

// The handler of a webhook may make requests, which may call webhooks.
func TestWebhookThatMakesRequests(t *testing.T) {
	var r *rig
	r = newRig(t, map[string]answer{"a": func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		if q.Name == "data" {
			if _, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim("other"), metav1.CreateOptions{}); err != nil {
				t.Error(err)
			}
		}
		return allow(q)
	}})
	r.validating("hooks", hook("a"))
	_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim("data"), metav1.CreateOptions{})
	r.noError(err)
	r.expectLog("a CREATE PersistentVolumeClaim data", "a CREATE PersistentVolumeClaim other")
}
