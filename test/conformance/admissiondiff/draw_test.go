package admissiondiff

import (
	"fmt"

	reviewv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

type (
	m = map[string]any
	l = []any
)

func chance(t *rapid.T, of int, label string) bool { return rapid.IntRange(0, of).Draw(t, label) == 0 }

func pick[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

func several(t *rapid.T, label string, least int, of ...string) l {
	var out l
	for _, s := range rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, 3, rapid.ID).Draw(t, label) {
		out = append(out, s)
	}
	return out
}

// alone is several, but "*" is alone.
func alone(t *rapid.T, label string, of ...string) l {
	if !chance(t, 2, label+" some") {
		return l{"*"}
	}
	return several(t, label, 1, of...)
}

func drawRule(t *rapid.T, mutates bool) m {
	operations := []string{"CREATE", "UPDATE", "DELETE"}
	if mutates {
		operations = operations[:2]
	}
	r := m{
		"operations": alone(t, "operations", operations...), "apiGroups": alone(t, "groups", "", "apps", "example.com"),
		"apiVersions": alone(t, "versions", "v1", "v1beta1"), "resources": alone(t, "resources", "configmaps", "deployments", "things", "namespaces"),
	}
	if chance(t, 4, "names") {
		r["resourceNames"] = several(t, "resource names", 1, "a", "b")
	}
	if chance(t, 4, "scope") {
		r["scope"] = pick(t, "scope", "*", "Namespaced", "Cluster")
	}
	return r
}

func drawSelector(t *rapid.T) m {
	switch rapid.IntRange(0, 3).Draw(t, "selector") {
	case 0:
		return m{"matchLabels": m{"tier": pick(t, "tier", "web", "db")}}
	case 1:
		return m{"matchExpressions": l{m{"key": "tier", "operator": pick(t, "operator", "Exists", "DoesNotExist")}}}
	case 2:
		return m{"matchLabels": m{"kubernetes.io/metadata.name": pick(t, "namespace", "default", "other")}}
	}
	return m{}
}

func drawMatch(t *rapid.T, mutates bool) m {
	out := m{"resourceRules": l{drawRule(t, mutates)}}
	if chance(t, 2, "two rules") {
		out["resourceRules"] = l{drawRule(t, mutates), drawRule(t, mutates)}
	}
	if chance(t, 3, "excluded") {
		out["excludeResourceRules"] = l{drawRule(t, false)}
	}
	if chance(t, 2, "matchPolicy") {
		out["matchPolicy"] = pick(t, "matchPolicy", "Exact", "Equivalent")
	}
	if chance(t, 3, "object selector") {
		out["objectSelector"] = drawSelector(t)
	}
	if chance(t, 3, "namespace selector") {
		out["namespaceSelector"] = drawSelector(t)
	}
	return out
}

// Expressions: some are true, some false, some fail.
var conditions = []string{
	"true", "false", "object != null", "oldObject == null", "request.operation == 'CREATE'", "has(object.data)",
	"object.data.size == '3'", "object.metadata.name == 'a'", "int(object.data.size) < 3", "request.userInfo.username == 'ann'",
	"authorizer.group('').resource('configmaps').namespace('default').check('get').allowed()",
	"authorizer.requestResource.check('create').allowed()", "namespaceObject != null && namespaceObject.metadata.name == 'default'",
	"request.resource.resource == 'deployments'", "object.spec.replicas > 1", "variables.size > 2", "variables.missing == 1",
	"params == null", "params.data.max == '2'", "params.spec.max > 1", "params.kind == 'ConfigMap'", "params.metadata.name == 'two'",
}

func drawConditions(t *rapid.T) l {
	out := l{}
	for i := range rapid.IntRange(0, 2).Draw(t, "conditions") {
		out = append(out, m{"name": fmt.Sprint("c", i), "expression": pick(t, "condition", "true", "true", "false", "object != null",
			"object.data.size == '3'", "object.metadata.name == 'a'", "request.userInfo.username == 'ann'")})
	}
	return out
}

func drawVariables(t *rapid.T) l {
	out := l{m{"name": "size", "expression": pick(t, "size", "int(object.data.size)", "3", "size(object.metadata.name)")}}
	return append(out, m{"name": "missing", "expression": pick(t, "missing", "1", "object.data.none", "variables.size + 1")})
}

// drawParamKind returns a kind of parameters, or nil, and a reference to some.
func drawParams(t *rapid.T, spec m) m {
	ref := m{"parameterNotFoundAction": pick(t, "not found", "Allow", "Deny")}
	switch rapid.IntRange(0, 4).Draw(t, "param kind") {
	case 0, 1:
		spec["paramKind"] = m{"apiVersion": "v1", "kind": "ConfigMap"}
	case 2:
		spec["paramKind"] = m{"apiVersion": "example.com/v1", "kind": "Thing"}
	case 3:
		spec["paramKind"] = m{"apiVersion": "v1", "kind": "Namespace"}
	default:
		spec["paramKind"] = m{"apiVersion": "example.com/v1", "kind": "None"}
	}
	if chance(t, 3, "no reference") {
		return nil
	}
	if chance(t, 1, "by selector") {
		// of the parameters only: the objects of requests are stored for us, but not for upstream
		ref["selector"] = pick(t, "selector", m{"matchLabels": m{"of": "two"}}, m{"matchLabels": m{"of": "none"}},
			m{"matchExpressions": l{m{"key": "of", "operator": "Exists"}}})
	} else {
		ref["name"] = pick(t, "param", "two", "five", "none", "default")
	}
	if chance(t, 2, "param namespace") {
		ref["namespace"] = pick(t, "param namespace", "default", "other")
	}
	return ref
}

func object(kind, name string, spec m) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: m{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": m{"name": name}, "spec": spec,
	}}
}

// drawWorld returns the parameters, at most one validating policy and at most one mutating one: upstream has no order.
func drawWorld(t *rapid.T) []*unstructured.Unstructured {
	param := func(apiVersion, kind, namespace, name string, content m) *unstructured.Unstructured {
		out := m{"apiVersion": apiVersion, "kind": kind, "metadata": m{"name": name, "namespace": namespace, "labels": m{"tier": "web", "of": name}}}
		for k, v := range content {
			out[k] = v
		}
		return &unstructured.Unstructured{Object: out}
	}
	all := []*unstructured.Unstructured{
		param("v1", "ConfigMap", "default", "two", m{"data": m{"max": "2"}}),
		param("v1", "ConfigMap", "other", "five", m{"data": m{"max": "5"}}),
		param("example.com/v1", "Thing", "default", "two", m{"spec": m{"max": int64(2)}}),
	}
	if !chance(t, 4, "no validating policy") {
		spec := m{"matchConstraints": drawMatch(t, false), "variables": drawVariables(t), "matchConditions": drawConditions(t)}
		var checks l
		hasParams := chance(t, 1, "params")
		usable := conditions
		if !hasParams {
			usable = conditions[:len(conditions)-5]
		}
		for range rapid.IntRange(1, 3).Draw(t, "validations") {
			v := m{"expression": rapid.SampledFrom(usable).Draw(t, "expression")}
			if chance(t, 2, "message") {
				v["message"] = "a message"
			}
			if chance(t, 2, "message expression") {
				v["messageExpression"] = pick(t, "message expression", "'name ' + object.metadata.name", "string(object.data.none)", "''", "'two\\nlines'", "string(variables.size)")
			}
			if chance(t, 2, "reason") {
				v["reason"] = pick(t, "reason", "Invalid", "Forbidden", "RequestEntityTooLarge")
			}
			checks = append(checks, v)
		}
		spec["validations"] = checks
		if chance(t, 1, "audit") {
			spec["auditAnnotations"] = l{m{"key": "k", "valueExpression": pick(t, "value", "'v'", "null", "string(object.data.size)", "string(variables.size)")}}
		}
		if chance(t, 2, "failure policy") {
			spec["failurePolicy"] = pick(t, "failure policy", "Fail", "Ignore")
		}
		binding := m{"policyName": "p", "validationActions": pick(t, "actions", l{"Deny"}, l{"Warn"}, l{"Audit"}, l{"Deny", "Audit"}, l{"Warn", "Audit"})}
		if hasParams {
			if ref := drawParams(t, spec); ref != nil {
				binding["paramRef"] = ref
			}
		}
		if chance(t, 2, "binding matches") {
			binding["matchResources"] = drawMatch(t, false)
		}
		all = append(all, object("ValidatingAdmissionPolicy", "p", spec), object("ValidatingAdmissionPolicyBinding", "b", binding))
	}
	if !chance(t, 3, "no mutating policy") {
		all = append(all, drawMutating(t)...)
	}
	return all
}

var mutations = []m{
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{metadata: Object.metadata{labels: {"seen": request.operation}}}`}},
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{data: {"size": object.data.size + "!"}}`}},
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{spec: Object.spec{replicas: 7}}`}},
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{data: {"n": string(variables.size)}}`}},
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{metadata: Object.metadata{finalizers: ["example.com/a"]}}`}},
	{"patchType": "ApplyConfiguration", "applyConfiguration": m{"expression": `Object{metadata: Object.metadata{ownerReferences: [Object.metadata.ownerReferences{uid: "u"}]}}`}},
	{"patchType": "JSONPatch", "jsonPatch": m{"expression": `[JSONPatch{op: "add", path: "/data/new", value: object.metadata.name}]`}},
	{"patchType": "JSONPatch", "jsonPatch": m{"expression": `[JSONPatch{op: "remove", path: "/data/none"}]`}},
	{"patchType": "JSONPatch", "jsonPatch": m{"expression": `[JSONPatch{op: "test", path: "/data/size", value: "3"}, JSONPatch{op: "replace", path: "/data/size", value: "4"}]`}},
	{"patchType": "JSONPatch", "jsonPatch": m{"expression": `[JSONPatch{op: "add", path: "/colour", value: "red"}]`}},
	{"patchType": "JSONPatch", "jsonPatch": m{"expression": `[JSONPatch{op: "add", path: "/metadata/labels", value: {"only": "one"}}]`}},
}

func drawMutating(t *rapid.T) []*unstructured.Unstructured {
	spec := m{
		"matchConstraints": drawMatch(t, true), "variables": drawVariables(t), "matchConditions": drawConditions(t),
		"reinvocationPolicy": pick(t, "reinvocation", "Never", "IfNeeded"),
	}
	var all l
	for range rapid.IntRange(1, 2).Draw(t, "mutations") {
		all = append(all, rapid.SampledFrom(mutations).Draw(t, "mutation"))
	}
	spec["mutations"] = all
	if chance(t, 1, "failure policy") {
		spec["failurePolicy"] = "Ignore"
	}
	binding := m{"policyName": "m"}
	if chance(t, 2, "params") {
		if ref := drawParams(t, spec); ref != nil {
			binding["paramRef"] = ref
		}
	}
	if chance(t, 3, "binding matches") {
		binding["matchResources"] = drawMatch(t, true)
	}
	return []*unstructured.Unstructured{object("MutatingAdmissionPolicy", "m", spec), object("MutatingAdmissionPolicyBinding", "mb", binding)}
}

// drawQuestion returns a request about one of the kinds.
func drawQuestion(t *rapid.T, i int) question {
	meta := m{"name": pick(t, "name", "a", "b", "c"), "namespace": pick(t, "namespace", "default", "other")}
	if chance(t, 1, "labelled") {
		meta["labels"] = m{"tier": pick(t, "tier", "web", "db")}
	}
	q := question{user: authenticationv1.UserInfo{Username: pick(t, "user", "ann", "bob"), Groups: []string{"system:authenticated"}}}
	if chance(t, 2, "superuser") {
		q.user.Groups = append(q.user.Groups, "system:masters")
	}
	content := m{"metadata": meta}
	switch i % 4 {
	case 0, 1:
		q.gvk, q.gvr = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
		content["data"] = m{"size": pick(t, "data", "1", "3", "many")}
	case 2:
		q.gvk, q.gvr = thingGVK, thingGVR
		content["data"], content["spec"] = m{"size": pick(t, "data", "1", "3")}, m{"replicas": int64(2)}
	default:
		if chance(t, 2, "namespace object") {
			q.gvk, q.gvr = schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
			delete(meta, "namespace")
			break
		}
		q.gvk = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
		q.gvr = q.gvk.GroupVersion().WithResource("deployments")
		labels := m{"app": "a"}
		content["spec"] = m{
			"replicas": int64(rapid.IntRange(0, 3).Draw(t, "replicas")), "selector": m{"matchLabels": labels},
			"template": m{"metadata": m{"labels": labels}, "spec": m{"containers": l{m{"name": "main", "image": "nginx"}}}},
		}
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(q.gvk)
	q.operation = pick(t, "operation", reviewv1.Create, reviewv1.Create, reviewv1.Update, reviewv1.Delete)
	if q.gvk.Kind == "Namespace" { // upstream's plugins know the stored ones only
		q.operation = reviewv1.Create
	}
	switch q.operation {
	case reviewv1.Create:
		q.object = u
	case reviewv1.Delete:
		q.old = u
	default:
		q.object, q.old = u, u.DeepCopy()
		q.old.SetAnnotations(map[string]string{"was": "old"})
	}
	return q
}
