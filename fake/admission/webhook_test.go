package admission_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func TestMutatingWebhookChangesWhatIsStored(t *testing.T) {
	r := newRig(t, map[string]answer{"a": label("a", "1")})
	r.mutating("hooks", "", hook("a", about(rule("", "v1", "persistentvolumeclaims", registrationv1.Create, registrationv1.Update))))
	claims := r.admin.CoreV1().PersistentVolumeClaims("default")
	c, err := claims.Create(r.Context(), claim("data"), metav1.CreateOptions{FieldManager: "me"})
	r.noError(err)
	if c.Labels["a"] != "1" || c.Labels["app"] != "x" || c.Kind != "" {
		t.Errorf("created: %v %q", c.Labels, c.Kind)
	}
	q := r.asked[0]
	var seen corev1.PersistentVolumeClaim
	r.noError(json.Unmarshal(q.Object.Raw, &seen))
	if seen.Kind != "PersistentVolumeClaim" || seen.APIVersion != "v1" || seen.UID != "" || !seen.CreationTimestamp.IsZero() ||
		!slices.Contains(seen.Finalizers, "kubernetes.io/pvc-protection") || *seen.Spec.VolumeMode != corev1.PersistentVolumeFilesystem {
		t.Errorf("the webhook saw %s", q.Object.Raw)
	}
	if got := string(q.Options.Raw); !strings.Contains(got, `"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"`) || !strings.Contains(got, `"fieldManager":"me"`) {
		t.Errorf("options %s", got)
	}
	if q.UserInfo.Username != "system:admin" || q.Resource.Resource != "persistentvolumeclaims" || q.RequestKind.Kind != "PersistentVolumeClaim" || *q.DryRun {
		t.Errorf("request %+v", q)
	}
	delete(c.Labels, "a")
	c, err = claims.Update(r.Context(), c, metav1.UpdateOptions{})
	r.noError(err)
	if c.Labels["a"] != "1" {
		t.Errorf("updated: %v", c.Labels)
	}
	_, err = claims.Patch(r.Context(), "data", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"0"}}}`), metav1.PatchOptions{})
	r.noError(err)
	c, err = claims.Get(r.Context(), "data", metav1.GetOptions{})
	r.noError(err)
	if c.Labels["a"] != "1" {
		t.Errorf("patched: %v", c.Labels)
	}
	c.Status.Phase = corev1.ClaimPending
	_, err = claims.UpdateStatus(r.Context(), c, metav1.UpdateOptions{})
	r.noError(err) // is another resource
	r.expectLog("a CREATE PersistentVolumeClaim data", "a UPDATE PersistentVolumeClaim data", "a UPDATE PersistentVolumeClaim data")
	if got := string(r.asked[2].Options.Raw); !strings.Contains(got, "UpdateOptions") {
		t.Errorf("options of a patch %s", got)
	}
}

func TestValidatingWebhookSeesWhatWillBeStored(t *testing.T) {
	r := newRig(t, map[string]answer{"a": allow})
	r.validating("hooks", hook("a"))
	claims := r.admin.CoreV1().PersistentVolumeClaims("default")
	c := claim("")
	c.GenerateName = "data-"
	c, err := claims.Create(r.Context(), c, metav1.CreateOptions{})
	r.noError(err)
	var seen corev1.PersistentVolumeClaim
	r.noError(json.Unmarshal(r.asked[0].Object.Raw, &seen))
	if seen.Name != c.Name || seen.UID != c.UID || seen.Status.Phase != corev1.ClaimPending || r.asked[0].Name != c.Name {
		t.Errorf("saw %s", r.asked[0].Object.Raw)
	}
	r.noError(claims.Delete(r.Context(), c.Name, metav1.DeleteOptions{}))
	if q := r.asked[1]; q.Object.Raw != nil && string(q.Object.Raw) != "null" || !strings.Contains(string(q.OldObject.Raw), c.Name) || q.Name != c.Name {
		t.Errorf("a deletion: object %s, old %s", q.Object.Raw, q.OldObject.Raw)
	}
	_, err = claims.Create(r.Context(), claim("two"), metav1.CreateOptions{})
	r.noError(err)
	r.log = nil
	r.noError(claims.DeleteCollection(r.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app=x"}))
	r.expectLog("a DELETE PersistentVolumeClaim", "a DELETE PersistentVolumeClaim")
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer answer
		change func(*registrationv1.ValidatingWebhook)
		want   string // "" for no error
		code   int32
	}{
		{"with a message", deny("no"), nil, `admission webhook "a.example.com" denied the request: no`, 403},
		{"without a result", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{}
		}, nil, `admission webhook "a.example.com" denied the request without explanation`, 400},
		{"with a reason", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Result: &metav1.Status{Reason: "Because", Code: 200, Status: metav1.StatusSuccess}}
		}, nil, `admission webhook "a.example.com" denied the request: Because`, 400},
		{"although failures are ignored", deny("no"), ignored, `denied the request: no`, 403},
		{"for another request", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, UID: "other"}
		}, nil, `failed calling webhook "a.example.com": received invalid webhook response: expected response.uid="00000000-0000-4000-8000-000000000001", got "other"`, 500},
		{"for another request, ignored", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
			return &admissionv1.AdmissionResponse{Allowed: true, UID: "other"}
		}, ignored, "", 0},
		{"none", func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse { return nil }, nil, "received invalid webhook response: webhook response was absent", 500},
		{"a patch", label("a", "b"), nil, "validating webhook may not return response.patch", 500},
		{"of an unknown version", allow, func(h *registrationv1.ValidatingWebhook) { h.AdmissionReviewVersions = []string{"v1beta1"} }, "failed to call webhook: the server rejected our request for an unknown reason", 500},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, map[string]answer{"a": test.answer})
			h := hook("a")
			if test.change != nil {
				test.change(&h)
			}
			r.validating("hooks", h)
			_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
			if test.want == "" {
				r.noError(err)
				return
			}
			r.expectError(err, test.want)
			if s := apierrors.APIStatus(nil); err != nil {
				s, _ = err.(apierrors.APIStatus)
				if s.Status().Code != test.code {
					t.Errorf("code %d, want %d", s.Status().Code, test.code)
				}
			}
			if _, ok := r.server.Get("persistentvolumeclaims", "default", "data"); ok {
				t.Error("a refused claim was stored")
			}
		})
	}
}

func TestBadPatches(t *testing.T) {
	for _, test := range []struct{ name, patch, want string }{
		{"no JSON", `[`, `received undecodable patch in webhook response`},
		{"of a missing field", `[{"op":"remove","path":"/spec/none"}]`, "Internal error occurred: error in remove for path: '/spec/none'"},
		{"of another type", `[{"op":"replace","path":"/kind","value":"Pod"}]`, "Internal error occurred"},
		{"that makes it invalid", `[{"op":"replace","path":"/spec/accessModes","value":[]}]`, `spec.accessModes: Required value`},
		{"empty", `[]`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, map[string]answer{"a": patch("%s", test.patch)})
			r.mutating("hooks", "", hook("a"))
			_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
			if test.want == "" {
				r.noError(err)
				return
			}
			r.expectError(err, test.want)
		})
	}
}

func TestHandlersThatAreNotWebhooks(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"garbage", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprint(w, "<html>")
		}, `failed calling webhook "a.example.com": failed to call webhook: `},
		{"an error", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusInternalServerError)
		}, "failed to call webhook: an error on the server"},
		{"not found", http.NotFound, "failed to call webhook: the server could not find the requested resource"},
		{"a redirect", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/other", http.StatusFound)
		}, "failed to call webhook: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := (&rig{T: t}).serve(map[string]http.Handler{"a": test.handler})
			r.validating("hooks", hook("a"))
			_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
			r.expectError(err, test.want)
		})
	}
}

func TestOrderAndReinvocation(t *testing.T) {
	r := newRig(t, map[string]answer{"a": label("a", "1"), "b": label("b", "1"), "c": allow})
	r.mutating("2", "", hook("b"))
	r.mutating("1", "a", hook("a"))
	r.mutating("3", "c", hook("c"))
	claims := r.admin.CoreV1().PersistentVolumeClaims("default")
	_, err := claims.Create(r.Context(), claim("data"), metav1.CreateOptions{})
	r.noError(err)
	// b changed the object after a, which asks to be called again; nothing changed it after c.
	r.expectLog("a CREATE PersistentVolumeClaim data", "b CREATE PersistentVolumeClaim data", "c CREATE PersistentVolumeClaim data", "a CREATE PersistentVolumeClaim data")
	_, err = claims.Create(r.Context(), claim("three", "a=1", "b=1"), metav1.CreateOptions{})
	r.noError(err) // neither changes anything
	r.expectLog("a CREATE PersistentVolumeClaim three", "b CREATE PersistentVolumeClaim three", "c CREATE PersistentVolumeClaim three")
}

func TestSelectors(t *testing.T) {
	onlyGold := func(h *registrationv1.ValidatingWebhook) {
		h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "gold"}}
	}
	inProd := func(h *registrationv1.ValidatingWebhook) {
		h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}
	condition := func(expression string) func(*registrationv1.ValidatingWebhook) {
		return func(h *registrationv1.ValidatingWebhook) {
			h.MatchConditions = []registrationv1.MatchCondition{{Name: "c", Expression: expression}}
		}
	}
	for _, test := range []struct {
		name   string
		change func(*registrationv1.ValidatingWebhook)
		labels []string
		env    string
		called bool
		err    string
	}{
		{name: "labels of the object", change: onlyGold, labels: []string{"tier=gold"}, called: true},
		{name: "other labels", change: onlyGold},
		{name: "labels of the namespace", change: inProd, env: "prod", called: true},
		{name: "another namespace", change: inProd, env: "test"},
		{name: "a condition", change: condition("object.metadata.name == 'data'"), called: true},
		{name: "a condition that does not hold", change: condition("request.userInfo.username == 'alice'")},
		{name: "a condition about access", change: condition("authorizer.group('').resource('secrets').check('get').allowed()"), called: true},
		{name: "a condition about the reason", change: condition("authorizer.group('').resource('secrets').check('get').reason() == ''"), called: true},
		{name: "a condition that fails", change: condition("object.metadata.labels.none == 'x'"), err: `no such key: none`},
		{name: "a condition that fails, ignored", change: func(h *registrationv1.ValidatingWebhook) {
			condition("object.metadata.labels.none == 'x'")(h)
			ignored(h)
		}},
		{name: "another operation", change: about(rule("", "v1", "persistentvolumeclaims", registrationv1.Delete))},
		{name: "all resources", change: about(rule("*", "*", "*", registrationv1.Create)), called: true},
		{name: "subresources only", change: about(rule("*", "*", "*/status", registrationv1.OperationAll))},
		{name: "cluster scope only", change: func(h *registrationv1.ValidatingWebhook) {
			h.Rules[0].Scope = ptr.To(registrationv1.ClusterScope)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, map[string]answer{"a": allow})
			ns, err := r.admin.CoreV1().Namespaces().Get(r.Context(), "default", metav1.GetOptions{})
			r.noError(err)
			ns.Labels["env"] = test.env
			_, err = r.admin.CoreV1().Namespaces().Update(r.Context(), ns, metav1.UpdateOptions{})
			r.noError(err)
			r.validating("hooks", hook("a", test.change))
			_, err = r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data", test.labels...), metav1.CreateOptions{})
			if test.err != "" {
				r.expectError(err, test.err)
				return
			}
			r.noError(err)
			if called := len(r.asked) > 0; called != test.called {
				t.Errorf("called: %v", called)
			}
		})
	}
}

func TestNamespacesAreSelectedByTheirOwnLabels(t *testing.T) {
	r := newRig(t, map[string]answer{"a": deny("no")})
	r.validating("hooks", hook("a", about(rule("", "v1", "namespaces", registrationv1.OperationAll)), func(h *registrationv1.ValidatingWebhook) {
		h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	}))
	namespaces := r.admin.CoreV1().Namespaces()
	_, err := namespaces.Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"env": "prod"}}}, metav1.CreateOptions{})
	r.expectError(err, "denied the request: no")
	_, err = namespaces.Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "b"}}, metav1.CreateOptions{})
	r.noError(err)
	if got := r.asked[0].Namespace; got != "a" {
		t.Errorf("namespace %q", got)
	}
}

func TestDryRunAndWarnings(t *testing.T) {
	r := newRig(t, map[string]answer{"a": func(q *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Allowed: true, Warnings: []string{fmt.Sprintf("dry run %v", *q.DryRun)}}
	}})
	r.validating("hooks", hook("a", func(h *registrationv1.ValidatingWebhook) {
		h.SideEffects = ptr.To(registrationv1.SideEffectClassNoneOnDryRun)
	}))
	claims, _ := r.admin.Resource(corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), "default")
	done, err := claims.Create(r.Context(), claim("data"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	r.noError(err)
	if want := []string{"dry run true"}; !slices.Equal(done.Warnings, want) {
		t.Errorf("warnings %q, want %q", done.Warnings, want)
	}
	if _, ok := r.server.Get("persistentvolumeclaims", "default", "data"); ok {
		t.Error("a dry run stored something")
	}
}

func TestSubresources(t *testing.T) {
	r := newRig(t, map[string]answer{"a": allow})
	r.validating("hooks", hook("a", about(
		rule("", "v1", "pods/*", registrationv1.OperationAll), rule("apps", "v1", "statefulsets/scale", registrationv1.OperationAll),
		rule("", "v1", "serviceaccounts/token", registrationv1.OperationAll), rule("", "v1", "pods", registrationv1.Delete),
	)))
	pods := r.admin.CoreV1().Pods("default")
	_, err := pods.Create(r.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	r.noError(err)
	r.noError(pods.Bind(r.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{}))
	r.noError(pods.EvictV1(r.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}}))
	r.expectLog("a CREATE Pod p", "a CREATE Binding p", "a CREATE Eviction p") // pods/* is pods, too
	sets := r.admin.AppsV1().StatefulSets("default")
	_, err = sets.Create(r.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: appsv1.StatefulSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}, metav1.CreateOptions{})
	r.noError(err)
	_, err = sets.UpdateScale(r.Context(), "s", &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "default"}, Spec: autoscalingv1.ScaleSpec{Replicas: 2}}, metav1.UpdateOptions{})
	r.noError(err)
	r.expectLog("a UPDATE Scale s")
	q := r.asked[len(r.asked)-1]
	if q.SubResource != "scale" || q.Resource.Resource != "statefulsets" || !strings.Contains(string(q.OldObject.Raw), `"kind":"Scale"`) || !strings.Contains(string(q.Object.Raw), `"replicas":2`) {
		t.Errorf("scale: %+v %s %s", q.Resource, q.OldObject.Raw, q.Object.Raw)
	}
}

// A webhook sees the whole object, whatever part of it is written and in whatever way.
func TestWebhookSeesTheWholeObject(t *testing.T) {
	r := newRig(t, map[string]answer{"a": allow})
	claims := r.admin.CoreV1().PersistentVolumeClaims("default")
	c, err := claims.Create(r.Context(), claim("data"), metav1.CreateOptions{})
	r.noError(err)
	r.mutating("hooks", "", hook("a", about(rule("", "v1", "persistentvolumeclaims", registrationv1.Update), rule("", "v1", "persistentvolumeclaims/status", registrationv1.Update))))
	phase := []byte(`{"status":{"phase":"Lost"}}`)
	for _, pt := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
		_, err = claims.Patch(r.Context(), "data", pt, phase, metav1.PatchOptions{}, "status")
		r.noError(err)
	}
	_, err = claims.Patch(r.Context(), "data", types.JSONPatchType, []byte(`[{"op":"add","path":"/metadata/finalizers/-","value":"example.com/x"}]`), metav1.PatchOptions{})
	r.noError(err)
	c.Status.Phase, c.ResourceVersion = corev1.ClaimPending, ""
	_, err = claims.UpdateStatus(r.Context(), c, metav1.UpdateOptions{})
	r.noError(err)
	_, err = claims.Update(r.Context(), c, metav1.UpdateOptions{})
	r.noError(err)
	if len(r.asked) != 5 {
		t.Fatalf("%d calls", len(r.asked))
	}
	for i, q := range r.asked {
		for _, raw := range [][]byte{q.Object.Raw, q.OldObject.Raw} {
			var seen corev1.PersistentVolumeClaim
			r.noError(json.Unmarshal(raw, &seen))
			if seen.Spec.Resources.Requests.Storage().IsZero() || seen.Status.Phase == "" || seen.UID == "" {
				t.Errorf("call %d: %s", i, raw)
			}
		}
	}
}

// The configurations themselves are exempt, so a webhook that refuses everything can be removed.
func TestConfigurationsAreExempt(t *testing.T) {
	r := newRig(t, map[string]answer{"a": deny("no")})
	r.validating("hooks", hook("a", about(rule("*", "*", "*", registrationv1.OperationAll))))
	r.noError(r.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(r.Context(), "hooks", metav1.DeleteOptions{}))
	_, err := r.admin.CoreV1().PersistentVolumeClaims("default").Create(r.Context(), claim("data"), metav1.CreateOptions{})
	r.noError(err)
}
