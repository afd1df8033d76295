package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/sim/trace"
)

const (
	convergeCall = "Converge" // the name of the method
	convergeRule = "converge" // the ID of its rule
)

// Converge checks, as Check does, that the state of the operator's objects depends on the spec alone,
// not on how it came about: at rest, the world of drawn changes must be as one in which a single apply
// created the object with its last spec. A failure lists what differs.
//
// Compared are the custom object and all objects that components of world.Extra wrote, without uids,
// versions, generations, times and managed fields. Names that the server generated are compared by
// their prefix. See Ignore.
//
// A spec with which an operator fails (see Failed) is no last spec: the next act returns to the former
// one, which the operator must recover from. The operator then must not fail with Object itself. In
// the default order the world settles before each act; the other schedules of b make changes while
// the operator is at work.
//
// Upstream: Acto (Gu et al., SOSP 2023), the oracles of consistency and of rollback.
func (r CustomResource) Converge(t testing.TB, world scenario.Scenario, b Budget) {
	t.Helper()
	p, err := r.prepare(world.Dir)
	if err == nil {
		_, err = p.tryServe(t.Context(), p.seed)
	}
	if err != nil {
		t.Fatalf("custom resource: %v", err)
	}
	c := &convergence{preparedResource: p, ctx: t.Context(), world: world, references: map[string]*reference{}}
	if ref := c.reference(map[string]any{specField: p.seed.Object[specField]}); ref.failure != "" {
		t.Fatalf("custom resource: the operator fails with the object itself: %s", ref.failure)
	}
	world.OwnRules = append(slices.Clip(world.OwnRules), c.rule())
	world.Definitions = p.addDefinition(world.Definitions)
	defer c.log(t)
	check(t, originOf(t, convergeCall), world, b, func(rt *rapid.T, d *Draft) {
		if d.recorded == nil {
			p.act(rt, d, func(content map[string]any) bool { return c.reference(content).failure != "" })
		}
	})
}

// A convergence compares worlds of one check.
type convergence struct {
	*preparedResource
	ctx        context.Context //nolint:containedctx // of the one check
	world      scenario.Scenario
	references map[string]*reference // by content
}

// A reference is the end of a world in which one apply created the object.
type reference struct {
	state   state
	failure string // why the operator fails; "": it does not
}

// log logs what was drawn.
func (c *convergence) log(t testing.TB) {
	t.Helper()
	failing := 0
	for _, ref := range c.references {
		if ref.failure != "" {
			failing++
		}
	}
	t.Logf("%d changes drawn, %d of them refused by the server; %d specs, the operator fails with %d of them",
		c.drawn, c.refused, len(c.references), failing)
}

// referenceSteps bounds the steps of a reference world. An operator that fails retries indefinitely.
const referenceSteps = 4000

// reference returns the end of the world for a content of the object.
func (c *convergence) reference(content map[string]any) *reference {
	key := jsonText(content)
	if ref := c.references[key]; ref != nil {
		return ref
	}
	object := c.seed.DeepCopy()
	for name, value := range content {
		object.Object[name] = value
		if value == nil {
			delete(object.Object, name) // it has no spec
		}
	}
	w := c.world
	w.Definitions = c.addDefinition(w.Definitions)
	w.Schedule, w.Faults, w.Sometimes, w.Violates = nil, nil, nil, ""
	u := scenario.User{Name: c.userName()}
	for _, text := range c.creation(object) {
		act, err := scenario.ParseAct(text)
		if err != nil {
			panic("simtest: " + err.Error()) // it is an act of this package
		}
		u.Acts = append(u.Acts, act)
	}
	w.Users = append(slices.Clip(w.Users), u)
	ref := &reference{}
	w.OwnRules = []invariant.Rule{{ID: convergeRule, Forbids: "nothing", Begin: func(w invariant.World) invariant.Checks {
		return c.observe(w, func(s state) error {
			ref.state = s
			return nil
		})
	}}}
	w.Rules = []string{}
	result, err := w.Run(c.ctx, scenario.Options{StepsMax: referenceSteps})
	if err != nil {
		panic("simtest: " + err.Error()) // the world of the check is as invalid
	}
	var incomplete *scenario.Incomplete
	var livelock *scenario.Livelock
	switch {
	case errors.As(result.Failure, &incomplete), errors.As(result.Failure, &livelock):
		ref.failure = result.Failure.Error()
	case c.Failed != nil && ref.state.object != nil && c.Failed(ref.state.object.DeepCopy()):
		ref.failure = "its status says so"
	}
	c.references[key] = ref
	return ref
}

// rule returns the rule that a world ends as its reference does.
func (c *convergence) rule() invariant.Rule {
	return invariant.Rule{
		ID: convergeRule, Forbids: "a state that depends on how the spec came about",
		Begin: func(w invariant.World) invariant.Checks { return c.observe(w, c.compare) },
	}
}

// compare compares the state of a world at rest with its reference.
func (c *convergence) compare(got state) error {
	if got.object == nil {
		return nil // it is deleted
	}
	ref := c.reference(map[string]any{specField: got.object.Object[specField]})
	if ref.failure != "" {
		return nil // the world shows the same
	}
	diff := ref.state.diff(got)
	if len(diff) == 0 {
		return nil
	}
	const most = 20
	if more := len(diff) - most; more > 0 {
		diff = append(diff[:most], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("after the changes of %s (got) and after a single apply (want) of %s:\n  %s",
		c.userName(), jsonText(got.object.Object[specField]), strings.Join(diff, "\n  "))
}

// observe returns checks that note which objects the operators write, and take the state at rest.
func (c *convergence) observe(w invariant.World, atRest func(state) error) invariant.Checks {
	written := map[objectKey]bool{}
	var commits []fake.Commit // of the action whose record follows
	return invariant.Checks{
		Commit: func(e fake.Commit) error {
			commits = append(commits, e)
			return nil
		},
		Record: func(r trace.Record) error {
			if r.Kind == trace.KindAPI && c.isOperator(trace.Process(r.Task)) {
				for _, e := range commits {
					written[objectKey{e.Resource, e.After.GetNamespace(), e.After.GetName()}] = true
				}
			}
			commits = commits[:0]
			return nil
		},
		AtRest: func() error { return atRest(c.stateOf(w.API, written)) },
	}
}

// isOperator reports whether a process is one of an operator. Replicas have the names of their components, and
// a number.
func (c *convergence) isOperator(process string) bool {
	name, _, _ := strings.Cut(process, "#")
	return slices.ContainsFunc(c.world.Extra, func(e cluster.Component) bool { return e.Name == name })
}

// custom returns the custom object, nil if it does not exist.
func (c *convergence) custom(api *fake.Server) *unstructured.Unstructured {
	if !api.Serves(c.resource.id) {
		return nil // the definition is deleted
	}
	stored, exists := api.Get(c.resource.id, c.seed.GetNamespace(), c.seed.GetName())
	if !exists {
		return nil
	}
	return toUnstructured(stored)
}
