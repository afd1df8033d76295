package audit_test

import (
	"encoding/json"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volsim/volsim/fake/audit"
	"github.com/volsim/volsim/internal/testcheck"
)

// policyOf returns a policy with rules, each in a line.
func policyOf(lines ...string) []byte {
	return []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\n" + strings.Join(lines, "\n") + "\n")
}

// events returns the events of a log.
func events(t *testing.T, log string) []auditv1.Event {
	t.Helper()
	var all []auditv1.Event
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var e auditv1.Event
		testcheck.NoError(t, json.Unmarshal([]byte(line), &e))
		all = append(all, e)
	}
	return all
}

// TestPolicy checks which rule decides about a request. Each event is its level and stage.
func TestPolicy(t *testing.T) {
	create := call{name: "create", method: "POST", path: maps, user: "ann", body: `{"metadata":{"name":"a"},"data":{"k":"v"}}`}
	token := call{name: "token", method: "POST", path: accounts + "/default/token", body: `{"spec":{"audiences":["a"]}}`}
	get := call{name: "get", method: "GET", path: maps + "/a", user: "ann"}
	class := call{name: "class", method: "GET", path: "/apis/storage.k8s.io/v1/storageclasses/x"}
	health := call{name: "health", method: "GET", path: "/healthz/ping"}
	both := func(level string) string { return level + " RequestReceived, " + level + " ResponseComplete" }
	for _, tt := range []struct {
		name, level string
		rules       []string
		call        call
		want        string
	}{
		{"no policy", "", nil, create, both("Metadata")},
		{"none", "None", nil, create, ""},
		{"first match", "", []string{"rules: [{level: Request, verbs: [create]}, {level: Metadata}]"}, create, both("Request")},
		{"no match", "", []string{"rules: [{level: Request, verbs: [get]}]"}, create, ""},
		{"no match, a level", "Metadata", []string{"rules: [{level: Request, verbs: [get]}]"}, create, both("Metadata")},
		{"user", "", []string{"rules: [{level: Request, users: [bob]}, {level: RequestResponse, users: [ann]}]"}, create, both("RequestResponse")},
		{"group", "", []string{"rules: [{level: Request, userGroups: [dev]}]"}, create, both("Request")},
		{"other group", "", []string{"rules: [{level: Request, userGroups: ['system:masters']}]"}, create, ""},
		{"namespace", "", []string{"rules: [{level: Request, namespaces: [kube-system]}, {level: Metadata, namespaces: [default]}]"}, create, both("Metadata")},
		{"cluster scope", "", []string{"rules: [{level: Request, namespaces: ['']}]"}, class, both("Request")},
		{"resource name", "", []string{"rules: [{level: Request, resources: [{group: '', resources: [configmaps], resourceNames: [a]}]}]"}, get, both("Request")},
		{"other name", "", []string{"rules: [{level: Request, resources: [{group: '', resources: [configmaps], resourceNames: [b]}]}]"}, get, ""},
		{"resource is not its subresource", "", []string{"rules: [{level: Request, resources: [{group: '', resources: [serviceaccounts]}]}]"}, token, ""},
		{"subresource", "", []string{"rules: [{level: Request, resources: [{group: '', resources: [serviceaccounts/token]}]}]"}, token, both("Request")},
		{"any subresource", "", []string{"rules: [{level: Request, resources: [{group: '', resources: ['*/token']}]}]"}, token, both("Request")},
		{"group of resources", "", []string{"rules: [{level: Request, resources: [{group: storage.k8s.io}]}]"}, class, both("Request")},
		{"any group", "", []string{"rules: [{level: Request, resources: [{group: '*', resources: [storageclasses]}]}]"}, class, both("Request")},
		{"any group, other resource", "", []string{"rules: [{level: Request, resources: [{group: '*', resources: [pods]}]}]"}, class, ""},
		{"path", "", []string{"rules: [{level: Metadata, nonResourceURLs: ['/healthz*']}]"}, health, both("Metadata")},
		{"other path", "", []string{"rules: [{level: Metadata, nonResourceURLs: [/healthz]}]"}, health, ""},
		{"a path is no resource", "", []string{"rules: [{level: Metadata, nonResourceURLs: ['*']}]"}, create, ""},
		{"omitted stage", "", []string{"omitStages: [RequestReceived]", "rules: [{level: Metadata}]"}, create, "Metadata ResponseComplete"},
		{"omitted stages", "", []string{"omitStages: [RequestReceived]", "rules: [{level: Metadata, omitStages: [ResponseComplete]}]"}, create, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := audit.Config{Level: tt.level}
			if tt.rules != nil {
				cfg.Policy = policyOf(tt.rules...)
			}
			var got []string
			for _, e := range events(t, perform(t, cfg, tt.call)) {
				got = append(got, string(e.Level)+" "+string(e.Stage))
			}
			testcheck.Equal(t, "events", tt.want, strings.Join(got, ", "))
		})
	}
}

// TestManagedFieldsAreOmitted: in the objects of request, response and list, if the policy says so.
func TestManagedFieldsAreOmitted(t *testing.T) {
	apply := call{
		name: "apply", method: "PATCH", path: maps + "/b?fieldManager=m", user: "ann", body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"v"}}`,
		header: map[string]string{"Content-Type": "application/apply-patch+yaml"},
	}
	list := call{name: "list", method: "GET", path: maps, user: "ann"}
	for _, tt := range []struct {
		omit string
		want bool
	}{
		{"omitManagedFields: false", true},
		{"omitManagedFields: true", false},
	} {
		got := perform(t, audit.Config{Policy: policyOf(tt.omit, "rules: [{level: RequestResponse}]")}, apply, list)
		testcheck.Equal(t, tt.omit+": managed fields", tt.want, strings.Contains(got, "managedFields"))
	}
}

// TestInvalidPolicies: a policy is refused with upstream's reason.
func TestInvalidPolicies(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  audit.Config
		want string
	}{
		{"level", audit.Config{Level: "All"}, `unknown audit level "All": want None, Metadata, Request, RequestResponse`},
		{"no rules", audit.Config{Policy: policyOf()}, "audit policy: loaded illegal policy with 0 rules"},
		{"rule's level", audit.Config{Policy: policyOf("rules: [{level: All}]")}, `audit policy: rules[0].level: Unsupported value: "All"`},
		{"old version", audit.Config{Policy: []byte("apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]")}, "audit policy: failed decoding: no kind \"Policy\" is registered"},
		{"no version", audit.Config{Policy: []byte("rules: [{level: None}]")}, "audit policy: unknown group version field"},
		{"empty file", audit.Config{Policy: []byte{}}, "audit policy: unknown group version field"},
	} {
		_, err := audit.New(tt.cfg)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestUnknownFieldOfAPolicyIsIgnored: with a warning, as upstream does.
func TestUnknownFieldOfAPolicyIsIgnored(t *testing.T) {
	log := testcheck.Must(audit.New(audit.Config{Policy: policyOf("rules: [{level: Metadata, user: [ann]}]")}))
	testcheck.Equal(t, "warning", `unknown field "user"`, log.PolicyWarning())
	log = testcheck.Must(audit.New(audit.Config{Policy: policyOf("rules: [{level: Metadata, users: [ann]}]")}))
	testcheck.Equal(t, "warning", "", log.PolicyWarning())
}
