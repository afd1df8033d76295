package fake_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applyautoscalingv1 "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
)

// owners formats an object's managed fields: a line for each entry.
func owners(obj metav1.Object) string {
	var b strings.Builder
	for _, e := range obj.GetManagedFields() {
		via := ""
		if e.Subresource != "" {
			via = "/" + e.Subresource
		}
		fmt.Fprintf(&b, "%s %s%s %s\n", e.Manager, e.Operation, via, e.FieldsV1)
	}
	return b.String()
}

// configMaps returns the untyped client of the config maps of the namespace default.
func (w *world) configMaps() fake.ResourceClient {
	return w.resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
}

func (w *world) resource(r schema.GroupVersionResource) fake.ResourceClient {
	w.Helper()
	c, ok := w.User.Resource(r, "default")
	if !ok {
		w.Fatal("not served: ", r)
	}
	return c
}

// applyData applies a config map with data, written like "x=1 y=2".
func (w *world) applyData(manager, data string, opts metav1.ApplyOptions) (*corev1.ConfigMap, error) {
	config := applycorev1.ConfigMap("a", "default")
	for _, pair := range strings.Fields(data) {
		k, v, _ := strings.Cut(pair, "=")
		config.WithData(map[string]string{k: v})
	}
	opts.FieldManager = manager
	return w.User.CoreV1().ConfigMaps("default").Apply(w.Context(), config, opts)
}

func TestApply(t *testing.T) {
	type step struct{ manager, data string }
	force := step{"!b", "x=2 y=3"} // with force
	for _, test := range []struct {
		name  string
		steps []step
		want  string // data and owners
		says  string // of the last step
	}{
		{
			name: "creates", steps: []step{{"a", "x=1"}},
			want: "map[x:1]\n" + `a Apply {"f:data":{"f:x":{}}}` + "\n",
		},
		{
			name: "removes what is no longer applied", steps: []step{{"a", "x=1 y=2"}, {"a", "y=2"}},
			want: "map[y:2]\n" + `a Apply {"f:data":{"f:y":{}}}` + "\n",
		},
		{
			// The manager of fields from before the first apply has no time, and comes first.
			name: "keeps what another manager applies", steps: []step{{"a", "x=1 y=2"}, {"b", "x=1"}, {"a", "y=2"}},
			want: "map[x:1 y:2]\n" + `b Apply {"f:data":{"f:x":{}}}` + "\n" + `a Apply {"f:data":{"f:y":{}}}` + "\n",
		},
		{
			name: "conflicts", steps: []step{{"a", "x=1"}, {"b", "x=2 y=3"}},
			says: `Apply failed with 1 conflict: conflict with "a": .data.x`,
		},
		{
			name: "conflicts twice", steps: []step{{"a", "x=1 y=2"}, {"b", "x=2 y=3"}},
			says: "Apply failed with 2 conflicts: conflicts with \"a\":\n- .data.x\n- .data.y",
		},
		{
			name: "takes with force", steps: []step{{"a", "x=1"}, force},
			want: "map[x:2 y:3]\n" + `b Apply {"f:data":{"f:x":{},"f:y":{}}}` + "\n",
		},
		{name: "removes all", steps: []step{{"a", "x=1"}, {"a", ""}}, want: "map[]\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			var c *corev1.ConfigMap
			var err error
			for i, s := range test.steps {
				manager, force := strings.CutPrefix(s.manager, "!")
				c, err = w.applyData(manager, s.data, metav1.ApplyOptions{Force: force})
				if err != nil && (test.says == "" || i < len(test.steps)-1) {
					t.Fatal(err)
				}
			}
			if test.says != "" {
				expectError(t, err, apierrors.IsConflict, test.says)
				return
			}
			expect(t, fmt.Sprintln(c.Data)+owners(c), test.want)
		})
	}
}

func TestApplyConflictsHaveCauses(t *testing.T) {
	w := newWorld(t)
	testcheck.Must(w.applyData("a", "x=1", metav1.ApplyOptions{}))
	_, err := w.applyData("b", "x=2", metav1.ApplyOptions{})
	want := []metav1.StatusCause{{
		Type: metav1.CauseTypeFieldManagerConflict, Message: `conflict with "a"`,
		Field: ".data.x",
	}}
	expect(t, err.(apierrors.APIStatus).Status().Details.Causes, want)
}

func TestRepeatedApplyWritesNothing(t *testing.T) {
	w := newWorld(t)
	first := testcheck.Must(w.applyData("a", "x=1", metav1.ApplyOptions{}))
	again := testcheck.Must(w.applyData("a", "x=1", metav1.ApplyOptions{}))
	expect(t, again, first)
	dry := testcheck.Must(w.applyData("a", "x=2", metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}))
	expect(t, dry.Data["x"], "2")
	expect(t, testcheck.Must(w.User.CoreV1().ConfigMaps("default").Get(w.Context(), "a",
		metav1.GetOptions{})), first)
}

func TestApplyReportsCreation(t *testing.T) {
	w := newWorld(t)
	body := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n")
	for i, want := range []bool{true, true, false} {
		opts := metav1.PatchOptions{FieldManager: "m"}
		if i == 0 {
			opts.DryRun = []string{metav1.DryRunAll}
		}
		done := testcheck.Must(w.configMaps().Patch(w.Context(), "a", types.ApplyYAMLPatchType, body, opts))
		expect(t, done.Created, want)
	}
}

// The errors are those of the real server.
func TestApplyErrors(t *testing.T) {
	for _, test := range []struct {
		name    string
		object  string // default: a, which exists
		config  string // appended to apiVersion and kind; the whole if it does not begin with a comma
		options metav1.PatchOptions
		code    int32
		want    string
	}{
		{
			name: "no manager", options: metav1.PatchOptions{FieldManager: "-"}, config: `x: y`, code: http.StatusUnprocessableEntity,
			want: `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`,
		},
		{
			name: "no name", object: "b", config: `,"metadata":{}`, code: http.StatusBadRequest,
			want: `the name of the object (b based on URL) was undeterminable: name must be provided`,
		},
		{
			name: "another name", config: `,"metadata":{"name":"c"}`, code: http.StatusBadRequest,
			want: `the name of the object (c) does not match the name on the URL (a)`,
		},
		{
			name: "another namespace", config: `,"metadata":{"namespace":"c"}`, code: http.StatusBadRequest,
			want: `the namespace of the provided object does not match the namespace sent on the request`,
		},
		{
			name: "a UID of a missing object", object: "b", config: `,"metadata":{"name":"b","uid":"4"}`, code: http.StatusConflict,
			want: `Operation cannot be fulfilled on configmaps "b": uid mismatch: the provided object specified uid 4, and no existing object was found`,
		},
		{
			name: "another UID", config: `,"metadata":{"name":"a","uid":"4"}`, code: http.StatusUnprocessableEntity,
			want: `ConfigMap "a" is invalid: metadata.uid: Invalid value: "4": field is immutable`,
		},
		{
			name: "a stale resourceVersion", config: `,"metadata":{"name":"a","resourceVersion":"4"}`, code: http.StatusConflict,
			want: `Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the latest version and try again`,
		},
		{
			name: "managed fields", config: `,"metadata":{"name":"a","managedFields":[]}`, code: http.StatusBadRequest,
			want: `metadata.managedFields must be nil`,
		},
		{
			name: "an unknown field", config: `,"foo":{}`, code: http.StatusInternalServerError,
			want: `failed to create typed patch object (/; /v1, Kind=ConfigMap): .foo: field not declared in schema`,
		},
		{
			name: "a wrong type", config: `,"data":{"z":7}`, code: http.StatusInternalServerError,
			want: `failed to create typed patch object (/; /v1, Kind=ConfigMap): .data.z: expected string, got &value.valueUnstructured{Value:7}`,
		},
		{
			name: "another version", config: `{"apiVersion":"v2","kind":"ConfigMap"}`, code: http.StatusBadRequest,
			want: `invalid object type: /v2, Kind=ConfigMap`,
		},
		{name: "nothing", config: ` `, code: http.StatusBadRequest, want: `invalid object type: /, Kind=`},
		{
			name: "invalid YAML", config: `a: b: c`, code: http.StatusBadRequest,
			want: `error decoding YAML: error converting YAML to JSON: yaml: mapping values are not allowed in this context`,
		},
		{
			name: "a list", config: `[]`, code: http.StatusBadRequest,
			want: `error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal array into Go value of type map[string]interface {}`,
		},
		{
			name: "a duplicate field", config: `,"data":{"z":"7","z":"8"}`, options: metav1.PatchOptions{FieldValidation: "Strict"}, code: http.StatusBadRequest,
			want: "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"z\" already set in map",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			testcheck.Must(w.applyData("m", "x=1", metav1.ApplyOptions{}))
			before := w.Server.Revision()
			config, object, opts := test.config, cmpOr(test.object, "a"), test.options
			if config[0] == ',' {
				config = `{"apiVersion":"v1","kind":"ConfigMap"` + config + `}`
			}
			opts.FieldManager = strings.TrimPrefix(cmpOr(opts.FieldManager, "m"), "-")
			_, err := w.configMaps().Patch(w.Context(), object, types.ApplyYAMLPatchType, []byte(config), opts)
			expectStatus(t, err, test.code, test.want)
			expect(t, w.Server.Revision(), before)
		})
	}
}

func cmpOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// expectStatus checks an error's code and message. If the message contains a patched object, only
// the text after it is compared.
func expectStatus(t testing.TB, err error, code int32, message string) {
	t.Helper()
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got error %v; want a status", err)
	}
	got := status.Status().Message
	if _, after, ok := strings.Cut(got, `}": `); ok {
		got = after
	}
	expect(t, fmt.Sprint(status.Status().Code, " ", got), fmt.Sprint(code, " ", message))
}

func TestApplyWarnsOfDuplicateFields(t *testing.T) {
	w := newWorld(t)
	done := testcheck.Must(w.configMaps().Patch(w.Context(), "a", types.ApplyYAMLPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"z":"7","z":"8"}}`), metav1.PatchOptions{FieldManager: "m"}))
	expect(t, done.Warnings, []string{`line 1: key "z" already set in map`})
}

func TestApplyWithoutClientGo(t *testing.T) {
	w := newWorld(t)
	_, err := w.claims.Apply(w.Context(), nil, metav1.ApplyOptions{FieldManager: "m"})
	expect(t, err.Error(), "object provided to Apply must not be nil")
	_, err = w.claims.ApplyStatus(w.Context(), &applycorev1.PersistentVolumeClaimApplyConfiguration{},
		metav1.ApplyOptions{FieldManager: "m"})
	expect(t, err.Error(), "obj.Name must be provided to Apply")
	_, err = w.User.AppsV1().StatefulSets("default").ApplyScale(w.Context(), "s", nil,
		metav1.ApplyOptions{FieldManager: "m"})
	expect(t, err.Error(), "scale provided to ApplyScale must not be nil")
}

func TestApplyStatus(t *testing.T) {
	w := newWorld(t)
	w.create("p")
	config := applycorev1.PersistentVolumeClaim("p", "default").
		WithSpec(applycorev1.PersistentVolumeClaimSpec().WithVolumeName("v")).
		WithStatus(applycorev1.PersistentVolumeClaimStatus().WithPhase(corev1.ClaimBound))
	c := testcheck.Must(w.claims.ApplyStatus(w.Context(), config,
		metav1.ApplyOptions{FieldManager: "s", Force: true}))
	expect(t, string(c.Status.Phase)+c.Spec.VolumeName, "Bound")
	expect(t, strings.HasPrefix(owners(c), `s Apply/status {"f:status":{"f:phase":{}}}`+"\n"), true)

	_, err := w.claims.ApplyStatus(w.Context(), applycorev1.PersistentVolumeClaim("q", "default"),
		metav1.ApplyOptions{FieldManager: "s"})
	expectError(t, err, apierrors.IsNotFound, `persistentvolumeclaims "q" not found`)
}

func TestApplyScale(t *testing.T) {
	w := newWorldWith(t, fake.Config{TrackManagedFields: true})
	sets := w.User.As("me/1.0").AppsV1().StatefulSets("default")
	testcheck.Must(sets.Create(w.Context(), newStatefulSet("s"), metav1.CreateOptions{}))
	config := applyautoscalingv1.Scale().WithName("s").WithNamespace("default").WithSpec(applyautoscalingv1.ScaleSpec().WithReplicas(3))
	_, err := sets.ApplyScale(w.Context(), "s", config, metav1.ApplyOptions{FieldManager: "h"})
	expectError(t, err, apierrors.IsConflict, `Apply failed with 1 conflict: conflict with "me" using autoscaling/v1: .spec.replicas`)
	scale := testcheck.Must(sets.ApplyScale(w.Context(), "s", config,
		metav1.ApplyOptions{FieldManager: "h", Force: true}))
	expect(t, scale.Spec.Replicas, 3)
	expect(t, len(scale.ManagedFields), 0)

	set := testcheck.Must(sets.Get(w.Context(), "s", metav1.GetOptions{}))
	expect(t, strings.HasPrefix(owners(set), `h Apply/scale {"f:spec":{"f:replicas":{}}}`+"\n"), true)
	_, err = sets.Apply(w.Context(), applyappsv1.StatefulSet("s",
		"default").WithSpec(applyappsv1.StatefulSetSpec().WithReplicas(4)),
		metav1.ApplyOptions{FieldManager: "d"})
	expectError(t, err, apierrors.IsConflict, `Apply failed with 1 conflict: conflict with "h" with subresource "scale": .spec.replicas`)
}

// newStatefulSet returns a set as users write it, with a pod that has all defaults.
func newStatefulSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "c", Image: "i:1", ImagePullPolicy: corev1.PullIfNotPresent,
					TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				}},
				RestartPolicy: corev1.RestartPolicyAlways, DNSPolicy: corev1.DNSClusterFirst, SchedulerName: "default-scheduler",
				SecurityContext: &corev1.PodSecurityContext{}, TerminationGracePeriodSeconds: ptr.To[int64](30),
			}},
		},
	}
}

// Every built-in kind has a schema for apply.
func TestEveryKindCanBeApplied(t *testing.T) {
	w := newWorld(t)
	for _, r := range w.Server.Resources() {
		if !slices.Contains(r.Verbs, "patch") {
			continue
		}
		t.Run(r.Group+" "+r.Name, func(t *testing.T) {
			gvr := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Name}
			namespace := ""
			if r.Namespaced {
				namespace = "default"
			}
			c, _ := w.User.Resource(gvr, namespace)
			config := fmt.Sprintf("{apiVersion: %s, kind: %s, metadata: {name: a, labels: {x: z}}}",
				gvr.GroupVersion(), r.Kind)
			done, err := c.Patch(w.Context(), "a", types.ApplyYAMLPatchType, []byte(config),
				metav1.PatchOptions{FieldManager: "m"})
			if apierrors.IsInvalid(err) {
				return // it needs more than a name, but the merge succeeded
			}
			expect(t, err, nil)
			expect(t, owners(done.Object), `m Apply {"f:metadata":{"f:labels":{"f:x":{}}}}`+"\n")
		})
	}
}
