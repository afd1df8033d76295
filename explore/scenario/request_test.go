package scenario_test

import (
	"strings"
	"testing"

	"github.com/volsim/volsim/explore/scenario"
)

const requests = `nodes: 1
user alice
  request POST /api/v1/namespaces/default/persistentvolumeclaims?fieldManager=kubectl-create as=kubectl ` +
	`{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"64Mi"}}}}
  wait claim data Bound
  request PATCH /api/v1/namespaces/default/persistentvolumeclaims/data type=merge {"metadata":{"labels":{"a":"two  words"}}}
  request PATCH /api/v1/namespaces/default/configmaps/c?fieldManager=me&force=true type=apply ` +
	`"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
  request DELETE /api/v1/namespaces/default/persistentvolumeclaims/none
user bob
  wait claim data Bound
  request DELETE /api/v1/namespaces/default/persistentvolumeclaims/data
`

func TestRequestsAreActs(t *testing.T) {
	s, err := scenario.Parse("requests", requests)
	if err != nil {
		t.Fatal(err)
	}
	if s.String() != requests {
		t.Errorf("written again:\n%s\nwant\n%s", s, requests)
	}
	r, err := s.Run(t.Context(), scenario.Options{})
	if err != nil || r.Failure != nil {
		t.Fatal(err, r.Failure)
	}
	for _, want := range []string{
		"alice api create persistentvolumeclaims/default/data", "alice api patch persistentvolumeclaims/default/data",
		"alice api patch configmaps/default/c", "bob api delete persistentvolumeclaims/default/data", "alice api delete persistentvolumeclaims/default/none",
	} {
		if !strings.Contains(strings.ReplaceAll(r.Trace.Text(), "\t", " "), want) {
			t.Errorf("%q is not in\n%s", want, r.Trace.Text())
		}
	}
	if got := r.Outcome.String(); got != "empty" {
		t.Errorf("ended with %s", got)
	}
}

// A request that no server would understand is an error of its user.
func TestUnknownResourceIsAnErrorOfTheUser(t *testing.T) {
	for act, want := range map[string]string{
		"request DELETE /api/v1/namespaces/default/cats/tom":                            "answered 404: the server could not find the requested resource",
		"request POST /api/v1/namespaces/default/configmaps \"\"":                       "answered 400",
		"request POST /api/v1/namespaces/default/pods/web/exec?command=ls":              "answered",
		"request PATCH /api/v1/namespaces/default/configmaps/c type=application/x-x {}": "answered 415",
	} {
		s, err := scenario.Parse("one", "components: none\nuser alice\n  "+act+"\n")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), scenario.Options{})
		if err != nil || r.Failure == nil || !strings.Contains(r.Failure.Error(), want) || scenario.RuleID(r.Failure) != "user" {
			t.Errorf("%s: %v, %v; want %q", act, err, r.Failure, want)
		}
	}
}
