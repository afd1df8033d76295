package pvdiff

import (
	"slices"
	"strings"
)

// deliberates are the differences that may be. A history ends where it meets one, since the two worlds are not the same from
// there on. All but the ties are there on purpose: each is written down, with "Differs:", where our controller has it.
var deliberates = []struct {
	what    string
	applies func(d delta) bool
}{
	// Upstream's maps do not yield every order, so that one of several choices may go with one of another only.
	{"tie: exchanged", delta.isExchange},
	// Of several claims that may have a volume one comes first, and whether the others are told before or after, or not at all,
	// is a matter of order.
	{"tie: told of a volume that another claim got", func(d delta) bool {
		return d.sameObjects() && all(d.lines(), func(line string) bool {
			_, rest, ok := strings.Cut(line, "Cannot bind to requested volume \"")
			if !ok {
				_, rest, ok = strings.Cut(line, "FailedBinding: volume \"")
			}
			name, _, _ := strings.Cut(rest, `"`)
			claim, _, _ := strings.Cut(strings.TrimPrefix(line, "event about PersistentVolumeClaim "), ":")
			return ok && slices.ContainsFunc(d.volumes(func(v string) bool { return field(v, "name") == name }), func(v string) bool {
				return strings.Contains(v, `"claimRef"`) && !strings.Contains(v, claim)
			})
		})
	}},
	// pvcontroller/anneal.go finalizersOf: upstream cannot do anything more for such a volume, as it tries to put the finalizer
	// back first, which the API server refuses.
	{"deliberate: a volume of the plugin's is on its way out without the finalizer", func(d delta) bool {
		return d.isAbout(func(v string) bool {
			return isLeaving(v) && strings.Contains(v, `"pv.kubernetes.io/provisioned-by":"kubernetes.io/`) &&
				strings.Contains(v, `"persistentVolumeReclaimPolicy":"Delete"`)
		})
	}},
	// pvcontroller/delete.go erase, reclaim.go startReclaiming: upstream has the plugin delete, or recycle, again and again what
	// is deleted, until the volume is gone, and tells what comes of it.
	{"deliberate: data is deleted once", func(d delta) bool {
		return d.isAbout(func(v string) bool {
			return isLeaving(v) && slices.Contains(d.ours, "storage erased "+field(v, "uid"))
		})
	}},
	// pvcontroller/wake.go: ours looks at a claim as soon as its volume changes, and so sees that the volume is another's before
	// it sees that the volume is gone; upstream only looks at the next resync.
	{"deliberate: a claim is looked at when its volume changes", func(d delta) bool {
		return d.sameObjects() && all(onlyIn(d.ours, d.upstream), func(line string) bool {
			return strings.Contains(line, "Warning ClaimMisbound:")
		}) && all(onlyIn(d.upstream, d.ours), func(line string) bool {
			claim, _, ok := strings.Cut(line, " Warning ClaimLost:")
			return ok && slices.ContainsFunc(d.ours, func(other string) bool { return strings.HasPrefix(other, claim+" Warning ClaimMisbound:") })
		})
	}},
	// pvcontroller/save.go clean: upstream has deleted the data, finds no PersistentVolume to take the finalizer off, and says
	// that the data is not deleted.
	{"deliberate: what could not be saved is deleted in silence", func(d delta) bool {
		return all(d.lines(), func(line string) bool {
			return strings.Contains(line, "ProvisioningCleanupFailed: ") && strings.Contains(line, `" not found. Please delete manually.`)
		})
	}},
}

// deliberate is the difference that may be which two states show; "" is none.
func deliberate(upstream, ours []string) string {
	for _, d := range deliberates {
		if d.applies(delta{upstream, ours}) {
			return d.what
		}
	}
	return ""
}

// delta is two states after the same history.
type delta struct{ upstream, ours []string }

// lines are those that only one of the states has.
func (d delta) lines() []string {
	return append(onlyIn(d.upstream, d.ours), onlyIn(d.ours, d.upstream)...)
}

func (d delta) sameObjects() bool { return slices.Equal(objects(d.upstream), objects(d.ours)) }

// volumes are the volumes of a kind in upstream's state.
func (d delta) volumes(kind func(volume string) bool) []string {
	return slices.DeleteFunc(slices.Clone(d.upstream), func(line string) bool {
		return !strings.HasPrefix(line, "volume ") || !kind(line)
	})
}

// isAbout tells whether each line that only one state has is about a volume of a kind.
func (d delta) isAbout(kind func(volume string) bool) bool {
	volumes := d.volumes(kind)
	return all(d.lines(), func(line string) bool {
		return slices.ContainsFunc(volumes, func(v string) bool {
			return strings.Contains(line, `"`+field(v, "name")+`"`) || strings.Contains(line, field(v, "uid")) ||
				line == "storage holds "+field(v, "name")
		})
	})
}

// isLeaving tells whether a volume is being deleted, and the controller has nothing against it.
func isLeaving(volume string) bool {
	return strings.Contains(volume, `"(being deleted)"`) && !strings.Contains(volume, `"kubernetes.io/pv-controller"`)
}

// field is the first value of that name in a line.
func field(line, name string) string {
	_, rest, _ := strings.Cut(line, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func all(lines []string, is func(line string) bool) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !is(line) })
}
