package pvdiff

import (
	"slices"
	"strings"
)

// deliberate lists the allowed differences. A history ends at the first one, because the worlds
// differ from there on. Except for ties, each is documented with "Differs:" in our controller.
var deliberate = []struct {
	name    string
	applies func(d delta) bool
}{
	// Upstream's maps do not yield every order, so that one of several choices may occur only
	// together with another.
	{"tie: exchanged", isExchange},
	// If several claims may have a volume, the order decides whether the others receive an event,
	// and whether before or after the binding.
	{"tie: event about a volume that another claim got", func(d delta) bool {
		return sameObjects(d) && all(d.Lines(), func(line string) bool {
			_, rest, ok := strings.Cut(line, "Cannot bind to requested volume \"")
			if !ok {
				_, rest, ok = strings.Cut(line, "FailedBinding: volume \"")
			}
			name, _, _ := strings.Cut(rest, `"`)
			claim, _, _ := strings.Cut(strings.TrimPrefix(line, "event about PersistentVolumeClaim "), ":")
			return ok && slices.ContainsFunc(volumes(d, func(v string) bool { return field(v, "name") == name }), func(v string) bool {
				return strings.Contains(v, `"claimRef"`) && !strings.Contains(v, claim)
			})
		})
	}},
	// pvcontroller/anneal.go finalizersOf: upstream can do nothing more for such a volume. It first
	// tries to restore the finalizer, which the API server refuses.
	{"deliberate: a volume of the plugin is being deleted without the finalizer", func(d delta) bool {
		return isAbout(d, func(v string) bool {
			return isBeingDeleted(v) && strings.Contains(v, `"pv.kubernetes.io/provisioned-by":"kubernetes.io/`) &&
				strings.Contains(v, `"persistentVolumeReclaimPolicy":"Delete"`)
		})
	}},
	// pvcontroller/delete.go erase, reclaim.go startReclaiming: upstream lets the plugin delete, or
	// recycle, a deleted volume again and again until the volume does not exist, and records the
	// results as events.
	{"deliberate: data is deleted once", func(d delta) bool {
		return isAbout(d, func(v string) bool {
			return isBeingDeleted(v) && slices.Contains(d.Ours, "storage erased "+field(v, "uid"))
		})
	}},
	// pvcontroller/wake.go: ours reconciles a claim as soon as its volume changes. It sees that the
	// volume is bound to another claim before it sees that the volume is deleted. Upstream
	// reconciles the claim only at the next resync.
	{"deliberate: a claim is reconciled when its volume changes", func(d delta) bool {
		return sameObjects(d) && all(d.Ours.Without(d.Upstream), func(line string) bool {
			return strings.Contains(line, "Warning ClaimMisbound:")
		}) && all(d.Upstream.Without(d.Ours), func(line string) bool {
			claim, _, ok := strings.Cut(line, " Warning ClaimLost:")
			return ok && slices.ContainsFunc(d.Ours, func(other string) bool { return strings.HasPrefix(other, claim+" Warning ClaimMisbound:") })
		})
	}},
	// pvcontroller/save.go clean: upstream has deleted the data, finds no PersistentVolume from
	// which to remove the finalizer, and reports that the data is not deleted.
	{"deliberate: data of an unsaved volume is deleted without an event", func(d delta) bool {
		return all(d.Lines(), func(line string) bool {
			return strings.Contains(line, "ProvisioningCleanupFailed: ") && strings.Contains(line, `" not found. Please delete manually.`)
		})
	}},
}

// excuse returns the name of the deliberate difference of two states, or "".
func excuse(d delta) string {
	for _, one := range deliberate {
		if one.applies(d) {
			return one.name
		}
	}
	return ""
}

// volumes returns the volumes in upstream's state for which is holds.
func volumes(d delta, is func(volume string) bool) []string {
	return slices.DeleteFunc(slices.Clone(d.Upstream), func(line string) bool {
		return !strings.HasPrefix(line, "volume ") || !is(line)
	})
}

// isAbout reports whether each line that only one state has is about a volume for which is holds.
func isAbout(d delta, is func(volume string) bool) bool {
	volumes := volumes(d, is)
	return all(d.Lines(), func(line string) bool {
		return slices.ContainsFunc(volumes, func(v string) bool {
			return strings.Contains(line, `"`+field(v, "name")+`"`) || strings.Contains(line, field(v, "uid")) ||
				line == "storage holds "+field(v, "name")
		})
	})
}

// isBeingDeleted reports whether a volume is being deleted without a finalizer of the controller.
func isBeingDeleted(volume string) bool {
	return strings.Contains(volume, `"(being deleted)"`) && !strings.Contains(volume, `"kubernetes.io/pv-controller"`)
}

// field returns the first value of that name in a line.
func field(line, name string) string {
	_, rest, _ := strings.Cut(line, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func all(lines []string, is func(line string) bool) bool {
	return !slices.ContainsFunc(lines, func(line string) bool { return !is(line) })
}
