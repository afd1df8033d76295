package pvcontroller

import (
	"maps"
	"slices"

	"github.com/volsim/volsim/sim"
)

// writeState writes what the controller remembers. The indices of its caches follow from the objects,
// except which unbound claims are idle.
func (c *Controller) writeState(w sim.StateWriter) {
	writeVersions(w, "persistentvolumeclaims/", c.claims.objects)
	writeVersions(w, "persistentvolumes/", c.volumes.objects)
	for _, key := range c.claims.idle.keys() {
		w.Text("idle " + key)
	}
	for _, name := range slices.Sorted(maps.Keys(c.goneClaims)) {
		w.Text("gone " + name + " " + string(c.goneClaims[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(c.offeredVersions)) {
		w.Version("offered "+name, c.offeredVersions[name])
	}
	for _, key := range slices.Sorted(maps.Keys(c.offers)) {
		for _, name := range c.offers.sorted(key) {
			w.Text("offer " + key + " " + name)
		}
	}
	for _, of := range slices.Sorted(maps.Keys(c.sent)) {
		for _, about := range slices.Sorted(maps.Keys(c.sent[of])) {
			w.Text("sent " + string(of) + " " + string(about) + " " + c.sent[of][about].text)
		}
	}
	if c.operations != nil && c.operations.used {
		w.Unknown()
	}
}

func writeVersions[T object](w sim.StateWriter, resource string, objects map[string]cached[T]) {
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		w.Version(resource+key, objects[key].obj.GetResourceVersion())
	}
}

// keys returns the keys of all claims, sorted.
func (s *claimIndex) keys() []string {
	found := map[string]bool{}
	for _, groups := range s.groups {
		for _, g := range groups {
			g.tree.Scan(func(c indexedClaim) bool {
				found[keyOf(c.claim)] = true
				return true
			})
		}
	}
	return slices.Sorted(maps.Keys(found))
}
