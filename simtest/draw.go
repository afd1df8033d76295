package simtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/scenario"
)

// Draw draws a parameter of a component or a script of the draft, and records it in the text of the
// scenario: "drawn: LABEL JSON". A saved failure is replayed with the recorded values, so the
// parameters of what [Draft.Component] and [Draft.Script] add must come from Draw. The value is what
// its JSON says: fields that JSON omits are zero. A label is one word, and names one value.
func Draw[V any](rt *rapid.T, d *Draft, gen *rapid.Generator[V], label string) V {
	if label == "" || strings.ContainsAny(label, " \t\r\n") {
		panic(fmt.Sprintf("simtest: label %q: want one word", label))
	}
	if slices.ContainsFunc(d.world.Drawn, func(drawn string) bool { return labelOf(drawn) == label }) {
		panic(fmt.Sprintf("simtest: %q is drawn twice", label))
	}
	text, recorded := d.recorded[label]
	if d.recorded == nil {
		var err error
		if text, err = encode(gen.Draw(rt, label)); err != nil {
			panic(fmt.Sprintf("simtest: drawn %s: %v", label, err))
		}
	} else if !recorded {
		d.missing = append(d.missing, label)
		return gen.Draw(rt, label)
	}
	var v V
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		panic(fmt.Sprintf("simtest: drawn %s %s: %v", label, text, err))
	}
	d.world.Drawn = append(slices.Clone(d.world.Drawn), label+" "+text)
	return v
}

// encode returns a value as JSON in one line.
func encode(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// labelOf returns the label of a recorded value.
func labelOf(drawn string) string {
	label, _, _ := strings.Cut(drawn, " ")
	return label
}

// Component adds a component besides the control plane, such as an operator. Its parameters must
// come from Draw. A workload may consist of it alone: a world without users begins with the start of
// its components.
func (d *Draft) Component(c cluster.Component) {
	d.world.Extra = append(slices.Clone(d.world.Extra), c)
	d.inGo = true
}

// Script adds a user in Go; see scenario.User. What it does depends on nothing but values of Draw.
func (d *Draft) Script(user string, script func(ctx context.Context, c *cluster.Cluster) error) {
	d.users = append(d.users, scenario.User{Name: user, Script: script})
	d.inGo = true
}

// Component draws the parameters of a component, such as an operator, and adds it. The text of the
// scenario has them as "drawn: NAME JSON".
func Component[V any](name string, gen *rapid.Generator[V], build func(parameters V) cluster.Component) Workload {
	return func(rt *rapid.T, d *Draft) { d.Component(build(Draw(rt, d, gen, name))) }
}

// Script draws the arguments of a user in Go and adds the user; see scenario.User. The text of the
// scenario has them as "drawn: USER JSON".
func Script[V any](
	user string, gen *rapid.Generator[V], script func(ctx context.Context, c *cluster.Cluster, arguments V) error,
) Workload {
	return func(rt *rapid.T, d *Draft) {
		arguments := Draw(rt, d, gen, user)
		d.Script(user, func(ctx context.Context, c *cluster.Cluster) error { return script(ctx, c, arguments) })
	}
}

// withDrawn returns a scenario with the components and scripts that the workloads make of its
// recorded values, in a world. What else the workloads draw is ignored.
func withDrawn(s *scenario.Scenario, world scenario.Scenario, workloads []Workload) (made *scenario.Scenario, err error) {
	recorded := map[string]string{}
	for _, drawn := range s.Drawn {
		label, text, _ := strings.Cut(drawn, " ")
		recorded[label] = text
	}
	world.Drawn = nil
	world.Users = slices.DeleteFunc(slices.Clone(world.Users), func(u scenario.User) bool { return u.Script == nil })
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the workloads cannot be made again: %v", r)
		}
	}()
	var d *Draft
	rapid.Custom(func(rt *rapid.T) bool {
		d = &Draft{world: world, recorded: recorded}
		for _, w := range workloads {
			w(rt, d)
		}
		return rapid.Bool().Draw(rt, "") // rapid wants at least one draw
	}).Example(0)
	if len(d.missing) > 0 {
		return nil, fmt.Errorf("no recorded value of %s", strings.Join(d.missing, ", "))
	}
	for _, drawn := range s.Drawn {
		if !slices.Contains(d.world.Drawn, drawn) {
			return nil, fmt.Errorf("no workload draws %s", labelOf(drawn))
		}
	}
	return s.WithGo(d.scenario()), nil
}
