package pvcontroller

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

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
	if c.operations != nil {
		c.operations.writeState(w)
		for _, uid := range slices.Sorted(maps.Keys(c.dataDeleted)) {
			w.Text("data deleted " + string(uid))
		}
	}
	writeUnsaved(w, "unsaved", c.unsaved)
	writeUnsaved(w, "uncertain", c.uncertain)
	if len(c.recyclerMessages) > 0 {
		w.Unknown()
	}
}

// writeUnsaved writes volumes that have no PersistentVolume.
func writeUnsaved(w sim.StateWriter, what string, all map[types.UID]*unsaved) {
	for _, uid := range slices.Sorted(maps.Keys(all)) {
		u := all[uid]
		w.Version(what+" "+keyOf(u.claim), u.claim.ResourceVersion)
		w.Text(fmt.Sprint(u.tries, u.deleting, u.due.Sub(sim.Epoch), u.options.ReclaimPolicy, u.options.MountOptions,
			u.options.Parameters, u.options.AllowedTopologies, u.plugin.Name()))
		if u.options.SelectedNode != nil {
			w.Version("node", u.options.SelectedNode.ResourceVersion)
		}
		if u.volume == nil {
			continue
		}
		volume := u.volume.DeepCopy()
		if ref := volume.Spec.ClaimRef; ref != nil {
			ref.ResourceVersion = "" // the claim's
		}
		text, err := json.Marshal(volume)
		if err != nil {
			w.Unknown()
		}
		w.Text(string(text))
	}
}

// writeState writes what the operations remember. Failures are not written, since they have times.
func (o *operations) writeState(w sim.StateWriter) {
	for _, name := range slices.Sorted(maps.Keys(o.running)) {
		r := o.running[name]
		w.Text("operation " + string(name) + " " + r.item.key + " " + strconv.FormatBool(r.missed))
		for _, used := range r.uses {
			w.Version("operation "+string(name)+" "+keyOf(used), used.GetResourceVersion())
		}
		for _, item := range r.waiting {
			w.Text("waits " + item.key)
		}
	}
	failed := len(o.waiting) > 0
	for line := range strings.Lines(o.executor.String()) {
		failed = failed || !strings.HasSuffix(line, " 0 failures before\n")
	}
	if failed {
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
