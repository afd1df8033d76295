package simtest

import (
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/volsim/volsim/explore/scenario"
)

// A Workload draws acts of users into a draft. It draws all values first and interprets them
// afterwards. The number and meaning of draws should not depend on earlier draws, so that rapid can
// drop them.
type Workload func(rt *rapid.T, d *Draft)

// A Draft is a scenario whose users are being drawn. One workload at a time uses it.
type Draft struct {
	world   scenario.Scenario
	classes []class
	volumes []volume
	claims  []claim
	pods    []pod
	users   []scenario.User // with acts of their own

	recorded map[string]string // values of Draw to be repeated, as JSON by label; nil: Draw draws
	missing  []string          // labels that recorded lacks
	inGo     bool              // it has components or scripts that a workload added
}

// lifecycle is what happens to an object after its creation.
type lifecycle string

const (
	stays lifecycle = "stays" // it is not deleted
	goes  lifecycle = "goes"  // it is deleted
	again lifecycle = "again" // it is deleted and created again under the same name
)

type class struct {
	Life lifecycle
}

type volume struct {
	Size  string
	Class string // "": none
	Modes string
	For   int // the number of the claim for which it is reserved; 0: none
	Life  lifecycle
}

type claim struct {
	Size   string
	Class  string // "": none
	Modes  string
	Volume int // the number of the volume that it requests; 0: any
	Life   lifecycle
}

type pod struct {
	Claims []int // the numbers of its claims
	Node   int
	Life   lifecycle
}

// Has reports whether the world has a component of the control plane, such as "kubelet".
func (d *Draft) Has(component string) bool {
	return d.world.Components == nil || slices.ContainsFunc(d.world.Components, func(p string) bool {
		kind, _, _ := strings.Cut(p, "(")
		return p == component || kind == component
	})
}

// User adds a user with the given acts; see scenario.Act. Schedules may then end in different
// states. It panics on an invalid act.
func (d *Draft) User(name string, acts ...string) {
	u := scenario.User{Name: name}
	for _, text := range acts {
		act, err := scenario.ParseAct(text)
		if err != nil {
			panic("simtest: " + err.Error())
		}
		u.Acts = append(u.Acts, act)
	}
	d.users = append(d.users, u)
}

// scenario returns the scenario of the draft. Each object has a user of its own.
func (d *Draft) scenario() *scenario.Scenario {
	s := d.world
	s.OutcomesDiffer = s.OutcomesDiffer || d.outcomesDiffer()
	own := d.users
	d.users = nil
	for i, c := range d.classes {
		d.addOwner("admin", className(i), c.Life,
			"create class "+className(i)+" binding=WaitForFirstConsumer", "delete class "+className(i))
	}
	for i, v := range d.volumes {
		name := fmt.Sprintf("v%d", i+1)
		d.addOwner("admin", name, v.Life, d.createVolume(name, v), "delete volume "+name)
	}
	for i, c := range d.claims {
		name := fmt.Sprintf("c%d", i+1)
		d.addOwner("owner", name, c.Life, d.createClaim(name, c), "delete claim "+name)
	}
	for i, p := range d.pods {
		name := fmt.Sprintf("p%d", i+1)
		remove := "delete pod " + name
		if !d.Has("kubelet") {
			remove += " now=true" // no kubelet ends it after its grace period
		}
		d.addOwner("tenant", name, d.podLifecycle(p), d.createPod(name, p), remove)
	}
	s.Users = slices.Concat(s.Users, d.users, own)
	return &s
}

// addOwner adds the user of an object.
func (d *Draft) addOwner(who, name string, l lifecycle, create, remove string) {
	acts := []string{create}
	if l != stays {
		acts = append(acts, remove)
	}
	if l == again {
		acts = append(acts, create)
	}
	d.User(who+"-"+name, acts...)
}

func className(i int) string { return fmt.Sprintf("late%d", i+1) }

func (d *Draft) createVolume(name string, v volume) string {
	act := "create volume " + name + " " + v.Size
	if v.Class != "" {
		act += " class=" + v.Class
	}
	if v.Modes != once {
		act += " modes=" + v.Modes
	}
	if v.For > 0 && v.For <= len(d.claims) {
		act += fmt.Sprintf(" for=c%d", v.For)
	}
	return act
}

func (d *Draft) createClaim(name string, c claim) string {
	act := "create claim " + name + " " + c.Size + " class=" + c.Class
	if c.Modes != once {
		act += " modes=" + c.Modes
	}
	if c.Volume > 0 && c.Volume <= len(d.volumes) {
		act += fmt.Sprintf(" volume=v%d", c.Volume)
	}
	return act
}

func (d *Draft) createPod(name string, p pod) string {
	act := "create pod " + name
	for _, c := range d.used(p) {
		act += fmt.Sprintf(" c%d", c)
	}
	if p.Node > 0 {
		act += fmt.Sprintf(" on=node-%d", p.Node)
	}
	return act
}

// used returns the numbers of the existing claims that a pod uses. If volumes are attached, a pod
// uses no claim that could be bound to a static volume: the storage does not have that volume, and
// attach attempts would never end.
func (d *Draft) used(p pod) []int {
	var claims []int
	for _, c := range p.Claims {
		if c <= len(d.claims) && !slices.Contains(claims, c) && !(d.Has("attachdetach") && d.mayBindStatic(c)) {
			claims = append(claims, c)
		}
	}
	return claims
}

// mayBindStatic reports whether a claim could be bound to a static volume.
func (d *Draft) mayBindStatic(claim int) bool {
	class := d.claims[claim-1].Class
	return class == "" ||
		slices.ContainsFunc(d.volumes, func(v volume) bool { return v.For == claim || v.Class == class })
}

// podLifecycle returns the lifecycle of a pod. A pod ends if its claim will be created again;
// otherwise the owner of the claim would wait indefinitely.
func (d *Draft) podLifecycle(p pod) lifecycle {
	for _, c := range d.used(p) {
		if d.claims[c-1].Life == again {
			return goes
		}
	}
	return p.Life
}

// outcomesDiffer reports whether schedules may legitimately end in different states. They may not
// if all objects of a kind are equal and stay, no pod depends on which claim is bound, and no
// volume would be provisioned for a claim that came before another.
func (d *Draft) outcomesDiffer() bool {
	if len(d.users) > 0 || len(d.world.Users) > 0 || len(d.world.Extra) > 0 || len(d.classes) > 0 || len(d.pods) > 0 {
		return true
	}
	for _, v := range d.volumes {
		if v != d.volumes[0] || v.Life != stays || v.For != 0 || v.Class != "" {
			return true
		}
	}
	for _, c := range d.claims {
		if c != d.claims[0] || c.Life != stays || c.Volume != 0 {
			return true
		}
	}
	return false
}
