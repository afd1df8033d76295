package clusterroleaggregation_test

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/controllers/clusterroleaggregation"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// A world has the controller and a server with upstream's roles.
type world struct {
	t      *testing.T
	host   *sim.Stepped
	server *fake.Server
	client *fake.Clientset
}

func newWorld(t *testing.T) *world {
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000})
	server := fake.NewServer(fake.Config{Now: host.Now, RBAC: true})
	process := host.Process("clusterroleaggregation")
	clusterroleaggregation.New(clusterroleaggregation.Config{Process: process, Client: server.Client(process), Informers: server.Informers(process)})
	return &world{t, host, server, server.Client(host.ExternalCaller())}
}

// run lets the world come to rest, and returns how many writes there were.
func (w *world) run() int64 {
	w.t.Helper()
	before := w.server.Revision()
	testcheck.NoError(w.t, w.host.Run())
	return w.server.Revision() - before
}

// resources are the resources of a role's rules.
func (w *world) resources(name string) string {
	obj, _ := w.server.Get("clusterroles", "", name)
	var all []string
	for _, rule := range obj.(*rbacv1.ClusterRole).Rules {
		all = append(all, rule.Resources...)
	}
	return strings.Join(all, ",")
}

func role(name, resource string, labels map[string]string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}},
	}
}

// TestAggregation: a role has the rules of the roles that it selects, each once and by name, and through other
// aggregated roles. The roles from the start are as they should be.
func TestAggregation(t *testing.T) {
	w := newWorld(t)
	testcheck.Equal(t, "writes for the roles from the start", int64(0), w.run())
	ctx, roles := context.Background(), w.client.RbacV1().ClusterRoles()
	selects := func(name, label string, labels map[string]string) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{
			ObjectMeta:      metav1.ObjectMeta{Name: name, Labels: labels},
			AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{label: "yes"}}}},
		}
	}
	in := map[string]string{"inner": "yes"}
	for _, r := range []*rbacv1.ClusterRole{
		selects("outer", "outer", nil), selects("middle", "inner", map[string]string{"outer": "yes"}),
		role("b", "pods", in), role("a", "nodes", in), role("c", "pods", in), role("d", "secrets", nil),
	} {
		testcheck.Must(roles.Create(ctx, r, metav1.CreateOptions{}))
	}
	w.run()
	testcheck.Equal(t, "rules", "nodes,pods", w.resources("outer"))
	testcheck.NoError(t, roles.Delete(ctx, "a", metav1.DeleteOptions{}))
	w.run()
	testcheck.Equal(t, "rules without a role", "pods", w.resources("outer"))
	testcheck.Equal(t, "writes at rest", int64(0), w.run())
}
