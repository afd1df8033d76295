package conformance_test

import (
	"net/http"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/admission"
)

// scriptWebhooks are the webhooks of the scripts about admission.
var scriptWebhooks = map[types.NamespacedName]http.Handler{
	{Namespace: "hooks", Name: "labels"}: admission.Handler(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		patch := `[{"op":"add","path":"/metadata/labels","value":{"by":"webhook"}}]`
		if strings.Contains(string(r.Object.Raw), `"labels"`) {
			patch = `[{"op":"add","path":"/metadata/labels/by","value":"webhook"}]`
		}
		return &admissionv1.AdmissionResponse{Allowed: true, PatchType: ptr.To(admissionv1.PatchTypeJSONPatch), Patch: []byte(patch)}
	}),
	{Namespace: "hooks", Name: "names"}: admission.Handler(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		refuse := func(why string) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: why}}
		}
		switch {
		case r.Operation == admissionv1.Delete:
		case r.Name == "bad":
			return refuse("the name is bad")
		case strings.HasPrefix(r.Name, "odd"):
			return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{"the name is odd"}}
		case r.Operation == admissionv1.Update && r.Name == "settings" && strings.Contains(string(r.Object.Raw), "forbidden"):
			return refuse("the label is forbidden")
		}
		return &admissionv1.AdmissionResponse{Allowed: true}
	}),
}
