package pvcontroller

import (
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/sim"
)

// A memory says which parts of the controller's memory a step uses, so that an exhaustive search knows
// which steps of the two workers depend on each other. The rest is sim.MemoryPart: operations, and what is
// known of volumes without a PersistentVolume.
//
// The memory of no process, as in tests, says nothing.
type memory struct{ process *sim.Process }

// The parts, each followed by a key or a name.
const (
	partClaim    = "claim "             // the stored version
	partVolume   = "volume "            // the stored version
	partBoundTo  = "claims of volume "  // see claimCache.byVolume
	partUnbound  = "unbound claims of " // a class
	partIdle     = "idle claims of "    // a class
	partOffers   = "offers to claim "
	partReserved = "volumes for claim "
	partFree     = "free volumes of " // a class
	partModes    = "modes of volumes" // how many there are; without a key
	partMatched  = "matched volume"   // which nothing changes; without a key
	partOffered  = "offered version of "
	partGone     = "missing claim of "  // a volume
	partSent     = "last messages for " // a UID
)

// touch says that the running step uses a part.
func (m memory) touch(kind sim.AccessKind, part, key string) {
	if m.process != nil && m.process.IsObserved() {
		m.process.Touch(kind, part+key)
	}
}

// keeps says that the running step reads an object of a resourceVersion from a part, "" if there is none, and
// keeps it while it waits for a call.
func (m memory) keeps(part, key, version string) {
	if m.process != nil && m.process.IsObserved() {
		m.process.TouchVersion(part+key, version)
	}
}

// keepsFact is keeps for a fact that is not about an object.
func (m memory) keepsFact(fact string, holds bool) {
	m.keeps(fact, ": "+strconv.FormatBool(holds), "")
}

func (m memory) read(part, key string)  { m.touch(sim.AccessRead, part, key) }
func (m memory) write(part, key string) { m.touch(sim.AccessWrite, part, key) }

// add says that an element of a set is added or removed.
func (m memory) add(part, key string) { m.touch(sim.AccessAdd, part, key) }

// readRest and writeRest are about what has no part of its own.
func (m memory) readRest()  { m.touch(sim.AccessRead, sim.MemoryPart, "") }
func (m memory) writeRest() { m.touch(sim.AccessWrite, sim.MemoryPart, "") }

// keyOf is keyOf if something observes the parts, and "" otherwise.
func (m memory) keyOf(obj metav1.Object) string {
	if m.process != nil && m.process.IsObserved() {
		return keyOf(obj)
	}
	return ""
}
