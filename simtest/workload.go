package simtest

import (
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/cluster"
)

const (
	once = string(corev1.ReadWriteOnce)
	many = string(corev1.ReadWriteMany)
)

// rapid shrinks to the first element of each table, and draws repeated elements more often.
var (
	sizes = []string{"1Gi", "2Gi"}
	// numbers are references to other objects; 0: none.
	numbers = []int{0, 0, 0, 0, 1, 2}
	lives   = []lifecycle{stays, stays, goes, again}
)

// Claims draws low to high claims c1, c2, …: their size, class, access mode and an optional volume.
// The owner of each creates it, may delete it, and may create it again. In a world without
// pvcprotection no claim is deleted, as it would never be removed.
func Claims(low, high int) Workload {
	return func(rt *rapid.T, d *Draft) {
		lives := lives
		if !d.Has("pvcprotection") {
			lives = lives[:1]
		}
		classes := d.classNames()
		d.claims = append(d.claims, rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) claim {
			return claim{
				Size:   rapid.SampledFrom(sizes).Draw(rt, "size"),
				Class:  rapid.SampledFrom(classes).Draw(rt, "class"),
				Modes:  rapid.SampledFrom([]string{once, once, many}).Draw(rt, "modes"),
				Volume: rapid.SampledFrom(numbers).Draw(rt, "volume"),
				Life:   rapid.SampledFrom(lives).Draw(rt, "life"),
			}
		}), low, high).Draw(rt, "claims")...)
	}
}

// Volumes draws low to high volumes v1, v2, …: their size, class, access modes and an optional
// claim. The admin of each creates it and may delete it, though not in a world without
// pvprotection.
func Volumes(low, high int) Workload {
	return func(rt *rapid.T, d *Draft) {
		lives := []lifecycle{stays, stays, goes}
		if !d.Has("pvprotection") {
			lives = lives[:1]
		}
		classes := d.classNames()
		d.volumes = append(d.volumes, rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) volume {
			return volume{
				Size:  rapid.SampledFrom(sizes).Draw(rt, "size"),
				Class: rapid.SampledFrom(classes).Draw(rt, "class"),
				Modes: rapid.SampledFrom([]string{once, many, once + "," + many}).Draw(rt, "modes"),
				For:   rapid.SampledFrom(numbers).Draw(rt, "for"),
				Life:  rapid.SampledFrom(lives).Draw(rt, "life"),
			}
		}), low, high).Draw(rt, "volumes")...)
	}
}

// Classes draws low to high storage classes late1, late2, … of the world's driver that bind a claim
// when a pod needs it. The admin of each creates it and may delete it. Claims and volumes drawn
// after them may have these classes.
func Classes(low, high int) Workload {
	return func(rt *rapid.T, d *Draft) {
		d.classes = append(d.classes, rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) class {
			return class{Life: rapid.SampledFrom([]lifecycle{stays, stays, goes}).Draw(rt, "life")}
		}), low, high).Draw(rt, "classes")...)
	}
}

// Pods draws low to high pods p1, p2, … that use one or two claims. The tenant of each creates it,
// may delete it, and may create it again. In a world without a scheduler their nodes are drawn.
func Pods(low, high int) Workload {
	return func(rt *rapid.T, d *Draft) {
		nodes := []int{0}
		if !d.Has("scheduler") {
			nodes = []int{1, 2}[:min(2, max(1, d.world.Nodes))]
		}
		lives := lives
		if !d.Has("kubelet") {
			lives = lives[:3]
		}
		d.pods = append(d.pods, rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) pod {
			return pod{
				Claims: rapid.SliceOfN(rapid.IntRange(1, max(1, len(d.claims))), 1, 2).Draw(rt, "claims"),
				Node:   rapid.SampledFrom(nodes).Draw(rt, "node"),
				Life:   rapid.SampledFrom(lives).Draw(rt, "life"),
			}
		}), low, high).Draw(rt, "pods")...)
	}
}

// Acts adds a user with the given acts; see scenario.Act. Nothing is drawn.
func Acts(user string, acts ...string) Workload {
	return func(_ *rapid.T, d *Draft) { d.User(user, acts...) }
}

// classNames returns the possible classes of a claim or a volume: first none, then the world's own
// if it has a provisioner.
func (d *Draft) classNames() []string {
	names := []string{""}
	if d.Has("provisioner") {
		names = append(names, cluster.ClassName)
	}
	for i := range d.classes {
		names = append(names, className(i))
	}
	return names
}
