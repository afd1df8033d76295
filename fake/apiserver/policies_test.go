package apiserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/testcheck"
)

// TestMutatingPoliciesInAllVersions writes a mutating policy in each version and reads it in all, in JSON and protobuf. The
// Go types of both versions are the same.
func TestMutatingPoliciesInAllVersions(t *testing.T) {
	const (
		v1, v1beta1 = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", "/apis/admissionregistration.k8s.io/v1beta1/mutatingadmissionpolicies"
		body        = `{"apiVersion":"admissionregistration.k8s.io/VERSION","kind":"MutatingAdmissionPolicy","metadata":{"name":"NAME"},"spec":{
			"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pods"]}]},
			"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}]}}`
	)
	s := newServer()
	h := newHandler(s)
	of := func(version, name string) string {
		return strings.NewReplacer("VERSION", version, "NAME", name).Replace(body)
	}
	for version, path := range map[string]string{"v1": v1, "v1beta1": v1beta1} {
		name := "by-" + version
		if got := ask(t.Context(), h, "POST", path, of(version, name)); got.code != 201 || !strings.Contains(got.body, `"apiVersion":"admissionregistration.k8s.io/`+version+`"`) {
			t.Fatalf("%s: %d %s", path, got.code, got.body)
		}
		if got := ask(t.Context(), h, "POST", path, of("v2", "other")); got.code != 400 {
			t.Errorf("%s: another version: %d %s", path, got.code, got.body)
		}
		for shown, path := range map[string]string{"v1": v1, "v1beta1": v1beta1} {
			got := ask(t.Context(), h, "GET", path+"/"+name, "")
			var obj struct {
				metav1.TypeMeta
				Spec struct{ FailurePolicy string }
			}
			testcheck.NoError(t, json.Unmarshal([]byte(got.body), &obj))
			if obj.APIVersion != "admissionregistration.k8s.io/"+shown || obj.Kind != "MutatingAdmissionPolicy" || obj.Spec.FailurePolicy != "Fail" {
				t.Errorf("%s in %s: %s", name, shown, got.body)
			}
			got = ask(t.Context(), h, "GET", path+"/"+name, "", "Accept", "application/vnd.kubernetes.protobuf")
			if got.code != 200 || !strings.Contains(got.body, "admissionregistration.k8s.io/"+shown) {
				t.Errorf("%s in %s, protobuf: %d %q", name, shown, got.code, got.body)
			}
			sent := got.body
			if got := ask(t.Context(), h, "PUT", path+"/"+name, sent, "Content-Type", "application/vnd.kubernetes.protobuf"); got.code != 200 {
				t.Errorf("%s in %s, protobuf: %d %s", name, shown, got.code, got.body)
			}
			got = ask(t.Context(), h, "PATCH", path+"/"+name, `{"spec":{"reinvocationPolicy":"IfNeeded"}}`, "Content-Type", "application/strategic-merge-patch+json")
			if got.code != 200 || !strings.Contains(got.body, `"IfNeeded"`) {
				t.Errorf("%s in %s, patch: %d %s", name, shown, got.code, got.body)
			}
			got = ask(t.Context(), h, "PATCH", path+"/"+name+"?fieldManager=me&force=true", of(shown, name), "Content-Type", "application/apply-patch+yaml")
			if got.code != 200 || !strings.Contains(got.body, `"manager":"me"`) || !strings.Contains(got.body, `"apiVersion":"admissionregistration.k8s.io/`+shown+`"`) {
				t.Errorf("%s in %s, apply: %d %s", name, shown, got.code, got.body)
			}
		}
	}
	for shown, path := range map[string]string{"v1": v1, "v1beta1": v1beta1} {
		got := ask(t.Context(), h, "GET", path, "")
		if got.code != 200 || !strings.HasPrefix(got.body, `{"kind":"MutatingAdmissionPolicyList","apiVersion":"admissionregistration.k8s.io/`+shown) || strings.Count(got.body, `"name":"by-`) != 2 {
			t.Errorf("list in %s: %d %s", shown, got.code, got.body)
		}
	}
}
