package clusterroleaggregation

import (
	"context"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applyrbacv1 "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/rbac"
	"github.com/volsim/volsim/sim"
)

// fieldManager is the manager of the rules of aggregated roles.
const fieldManager = "clusterrole-aggregation-controller"

// Config configures New.
type Config struct {
	Process   *sim.Process
	Client    kubernetes.Interface
	Informers informers.SharedInformerFactory
}

// controller is the ClusterRole aggregation controller.
//
// Upstream: pkg/controller/clusterroleaggregation ClusterRoleAggregationController.
type controller struct {
	client kubernetes.Interface
	roles  rbaclisters.ClusterRoleLister
	queue  *sim.Queue[string] // of aggregated roles
}

// New adds the controller to its process. It registers with the informers, and adds a queue with one
// worker to the process. It must be called before the host starts.
func New(cfg Config) {
	roles := cfg.Informers.Rbac().V1().ClusterRoles()
	c := &controller{
		client: cfg.Client, roles: roles.Lister(),
		queue: sim.NewQueue[string](cfg.Process, sim.QueueConfig{Name: "clusterroleaggregation"}),
	}
	eventhandler.Add(roles.Informer(), func(_, _ *rbacv1.ClusterRole) { c.enqueue() }, func(*rbacv1.ClusterRole) { c.enqueue() })
	cfg.Process.GateWorkers(roles.Informer().HasSynced)
	c.queue.Work(c.sync)
}

// enqueue adds all aggregated roles.
func (c *controller) enqueue() {
	for _, role := range c.all() {
		if role.AggregationRule != nil {
			c.queue.Add(role.Name)
		}
	}
}

// all returns the roles, sorted by name.
func (c *controller) all() []*rbacv1.ClusterRole {
	all, _ := c.roles.List(labels.Everything()) // a lister does not fail
	slices.SortFunc(all, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (c *controller) sync(ctx context.Context, name string) error {
	role, err := c.roles.Get(name)
	if err != nil || role.AggregationRule == nil {
		return nil // a lister fails with NotFound only
	}
	rules, err := rbac.Aggregate(role, c.all())
	if err != nil || equality.Semantic.DeepEqual(rules, role.Rules) {
		return err
	}
	apply := applyrbacv1.ClusterRole(name)
	for _, r := range rules {
		apply.WithRules(applyrbacv1.PolicyRule().WithVerbs(r.Verbs...).WithAPIGroups(r.APIGroups...).
			WithResources(r.Resources...).WithResourceNames(r.ResourceNames...).WithNonResourceURLs(r.NonResourceURLs...))
	}
	_, err = c.client.RbacV1().ClusterRoles().Apply(ctx, apply, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	return err
}
