package explore_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/explore/scenario"
)

// Headers of the scenarios in this file.
const (
	nodeComponents  = "components: pvcontroller, provisioner, attachdetach, attacher, kubelet\n"
	growComponents  = "components: pvcontroller, provisioner, resizer, scheduler, attachdetach, attacher, kubelet\n"
	bindComponents  = "components: pvcontroller\n"
	placeComponents = "components: pvcontroller, provisioner, scheduler, attachdetach, attacher, kubelet\n"
)

// runs is a pod that runs and is deleted.
const runs = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  delete pod web
  wait pod web gone
`

// moves is a pod that runs, followed by one on the other node.
const moves = runs + "  create pod next data on=node-2\n  wait pod next Running\n"

// comesBack is a pod that runs, followed by one on the same node.
const comesBack = runs + "  create pod next data on=node-1\n  wait pod next Running\n"

// nodeMutants are defects of attaching, mounting and scheduling.
var nodeMutants = []mutant{
	{
		name: "the driver does not detach, and attaches to two nodes", rule: "I15", history: "#96142, PR #40148",
		scenario: nodeComponents + moves, between: driver("attacher", attachesTwice), config: holds, within: 1,
	},
	{
		name: "the node is read in a stale version that does not use the volume", rule: "I16",
		history: "#106710, PR #110721",
		scenario: nodeComponents + once("attachdetach", "crash") +
			removed, between: client("attachdetach", readsOldNodes),
		config: restarts, within: 100,
	},
	{
		name: "a second controller attaches without checking other nodes", rule: "I16b", history: "#71276, PR #120595",
		scenario: nodeComponents + "rules: I16b\n" +
			moves, between: none, extra: hurries, config: holds, within: 300, // also violates I21
	},
	{
		name: "a volume is unstaged when the first of its pods is unpublished",
		rule: "I17", history: "#65246, PR #71074",
		scenario: nodeComponents + runs, between: driver("kubelet", unstagesFirst), config: holds, within: 1,
	},
	{
		name: "a volume is staged once for each pod", rule: "I17", history: "#88355, PR #88678",
		scenario: nodeComponents + runs, between: driver("kubelet", stagesTwice), config: holds, within: 1,
	},
	{
		name: "the previous volume is mounted again at the path", rule: "I18", history: "#55074",
		scenario: nodeComponents +
			twoClaimsOfAPod, between: driver("kubelet", mountsTheFirst), config: holds, within: 1,
	},
	knownMutant("a detach begins before the node's status is written", "kubernetes-27836"),
	{
		name: "an older list of attached volumes overwrites a newer one", rule: "I20",
		history:  "#49053, #72181, #88565",
		scenario: nodeComponents + runs, between: client("attachdetach", writesOldLists), config: holds, within: 1,
	},
	{
		name: "the attachments of two volumes have the same name", rule: "I21", scenario: nodeComponents + runs,
		between: client("attachdetach", namesBadly), config: holds, within: 1,
	},
	knownMutant("a detach is repeated after the volume was attached again", "kubernetes-93902"),
	{
		name: "a failed call is retried immediately", rule: "I23", history: "#116886",
		scenario: nodeComponents + once("NodeStageVolume", "driver Unavailable") +
			runs, between: driver("kubelet", repeats),
		config: faults, within: 2,
	},
	{
		name: "failures do not increase the back-off", rule: "I23b", history: "#41307, #75209, PR #75213",
		scenario: nodeComponents + "rules: I23b\n" +
			runs, between: driver("kubelet", failsTwice), config: holds, within: 1,
	},
	knownMutant("an unstage that timed out counts as success", "kubernetes-86360"),
	{
		name: "a stage that timed out counts as a final error", rule: "I24", history: "#120268",
		scenario: nodeComponents + once("NodeStageVolume", "driver DeadlineExceeded") + endsAtOnce,
		between:  driver("kubelet", timeoutsAreFinal), config: faults, within: 2,
	},
	{
		name: "a volume is erased when it is detached", rule: "I25", history: "#27651, #72257",
		scenario: nodeComponents + "rules: I25\n" + writes, between: wipes, config: holds, within: 1,
	},
	{
		name: "a restarted kubelet does not reconstruct a mount", rule: "I26", history: "#60987, #31596, #38498",
		scenario: nodeComponents + "rules: I26\n" +
			restarted, between: driver("kubelet", mountsElsewhere), config: holds, within: 1,
	},
	knownMutant("a mount that fails when repeated is unmounted", "kubernetes-121271"),
	{
		name: "a pod is scheduled to a node that cannot access its volume", rule: "I30", history: "#72013, #56236",
		scenario: "components: pvcontroller, scheduler, kubelet\nrules: I30\n" +
			placed, between: client("scheduler", bindsElsewhere), config: holds, within: 1,
	},
	{
		name: "a node gets more volumes than its limit", rule: "I31", history: "#126502, #95911",
		scenario: "nodes: 1\nvolumes-per-node: 1\n" + placeComponents + crowded,
		between:  client("scheduler", ignoresLimits), config: holds, within: 1,
	},
	{
		name: "a ReadWriteOncePod claim is used by two pods", rule: "I32",
		scenario: placeComponents +
			rivals, between: both(client("scheduler", ignoresRivals), client("kubelet", withoutPodLimit)),
		config: holds, within: 1,
	},
	{
		name: "a file system that was not expanded counts as expanded", rule: "I33", history: "#131495",
		scenario: growComponents + grows, between: driver("kubelet", growsNothing), config: holds, within: 1,
	},
	{
		name: "a node expands a volume before its backend is expanded", rule: "I33", history: "#131907",
		scenario: growComponents + grows, between: driver("kubelet", growsTwice), config: holds, within: 1,
	},
	{
		name: "the capacity of an expanding claim decreases", rule: "I33", history: "#108693",
		scenario: growComponents + grows, between: client("kubelet", shrinks), config: holds, within: 1,
	},
	{
		name: "a claim's capacity exceeds its volume's", rule: "I33", history: "#117871, PR #123055",
		scenario: bindComponents + binds,
		between:  client("pvcontroller", doublesClaims), config: holds, within: 1,
	},
	{
		name: "a volume's capacity exceeds the size from the driver", rule: "I33", history: "#131381",
		scenario: "components: pvcontroller, provisioner\nuser alice\n  create claim data 1Gi\n",
		between:  client("provisioner", doublesVolumes), config: holds, within: 1,
	},
	{
		name: "a stale server answers when a watch is restarted", rule: "I34", history: "#59848, PR #83520",
		scenario: bindComponents + binds, between: none, extra: reconnects, config: holds, within: 1,
	},
	{
		name: "the report of volumes in use is not written", rule: "I35", history: "#27836",
		scenario: nodeComponents + runs, between: client("kubelet", reportsNothing), config: holds, within: 1,
	},
	{
		name: "a mounted volume is no longer reported in use", rule: "I36",
		scenario: nodeComponents + runs, between: client("kubelet", forgetsUse), config: holds, within: 1,
	},
	{
		name: "a volume is mounted at another path, too", rule: "I37",
		scenario: nodeComponents + runs, between: driver("kubelet", mountsBelow), config: holds, within: 1,
	},
	{
		name: "a provisioned volume is not saved", rule: "L3", history: "#73263, #73305",
		scenario: placeComponents + "rules: L3\n" +
			late, between: client("provisioner", writesNoVolume), config: holds, within: 1,
	},
	{
		name: "a volume is never detached", rule: "L7", history: "#34242, #77324, PR #96617, #141151",
		scenario: nodeComponents + runs, between: client("attachdetach", forgetsDetach), config: holds, within: 1,
	},
	{
		name: "a volume is reported in use indefinitely", rule: "L4", history: "#45191",
		scenario: nodeComponents + runs, between: client("kubelet", reportsUse), config: holds, within: 1,
	},
	{
		name: "the driver reports a detach without detaching", rule: "L5", history: "#45191",
		scenario: nodeComponents + runs, between: driver("attacher", detachesNothing), config: holds, within: 1,
	},
	{
		name: "a second mount of a pod is leaked", rule: "L6", history: "#60987, PR #102576",
		scenario: nodeComponents + neighbours, between: driver("kubelet", mountsElsewhere), config: holds, within: 1,
	},
	{
		name: "a failed mount counts as success", rule: "L7", history: "#31272",
		scenario: nodeComponents + once("NodePublishVolume", "driver-lost Internal") +
			staysThere, between: driver("kubelet", failuresSucceed),
		config: faults, within: 2,
	},
	{
		name: "two writers revert each other's list indefinitely", rule: "L7",
		scenario: nodeComponents + staysThere, between: client("attachdetach", undoesLists), config: holds, within: 1,
	},
	{
		name: "a component panics", rule: "L7", history: "#102651, #69137",
		scenario: nodeComponents + staysThere, between: driver("kubelet", panics), config: holds, within: 1,
	},
	{
		name: "claims are read at each resync", rule: "L8", history: "#118545, PR #140672",
		scenario: bindComponents + binds, between: none, extra: reads, config: holds, within: 1,
	},
	{
		name: "an event is recorded ten times a second", rule: "L9",
		scenario: bindComponents + binds, between: none, extra: records, config: holds, within: 1,
	},
}

// Further scenarios.
const (
	binds = `
user alice
  create volume disk 1Gi
  create claim data 1Gi class=
`
	// removed is a pod that is deleted from the API before its kubelet has stopped it.
	removed = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  delete pod web now=true
`
	// endsAtOnce is a pod that is deleted as soon as the world is at rest.
	endsAtOnce = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  delete pod web
`
	twoClaimsOfAPod = `
user alice
  create claim data 1Gi
  create claim logs 1Gi
  create pod web data logs on=node-1
  wait pod web Running
  delete pod web
`
	staysThere = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
`
	neighbours = `
user alice
  create claim data 1Gi
  create pod other data on=node-1
  wait pod other Running
  create pod web data on=node-1
  wait pod web Running
  delete pod web
`
	writes = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  write pod web data
  delete pod web
  wait pod web gone
  create pod next data on=node-2
`
	restarted = `
user alice
  create claim data 1Gi
  create pod other data on=node-1
  create pod web data on=node-1
  wait pod other Running
  wait pod web Running
  let crash kubelet(node-1)
  wait pod web Running
  delete pod web
`
	republished = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  let crash kubelet(node-1)
`
	placed = `
user alice
  create volume disk 1Gi node=node-2
  create claim data 1Gi class=
  wait claim data Bound
  create pod web data
`
	rivals = `
user alice
  create claim data 1Gi modes=ReadWriteOncePod
  wait claim data Bound
  create pod web data
  wait pod web Running
  create pod rival data
`
	grows = `
user alice
  create claim data 1Gi
  wait claim data Bound
  create pod web data
  wait pod web Running
  set claim data size=2Gi
  wait claim data 2Gi
`
	crowded = `
user alice
  create claim data 1Gi
  create claim more 1Gi
  wait claim data Bound
  wait claim more Bound
  create pod web data
  wait pod web Running
  create pod next more
  delete pod web
  wait pod next Running
`
	late = `
user alice
  create class late binding=WaitForFirstConsumer
  create claim data 1Gi class=late
  create pod web data
`
)

// restarts is the search for mutants that require a restart.
var restarts = explore.Config{Strategy: explore.Restarts}

// TestFailuresOfLivelocksAndPanics checks that the failure of a livelock shows its cycle, and that
// of a panic its value.
func TestFailuresOfLivelocksAndPanics(t *testing.T) {
	find := func(name string) error {
		i := slices.IndexFunc(nodeMutants, func(m mutant) bool { return m.name == name })
		return nodeMutants[i].hunt(t, nodeMutants[i].scene(t, true, ""), 1).Result.Failure
	}
	var livelock *scenario.Livelock
	if err := find("two writers revert each other's list indefinitely"); !errors.As(err, &livelock) {
		t.Errorf("the failure is a %T, want a livelock", err)
	} else if text := livelock.Error(); len(livelock.Cycle) == 0 ||
		strings.Count(text, "patch/status nodes/node-1") < 2 {
		t.Errorf("the cycle does not show both writes: %s", text)
	}
	var panicked *scenario.Panic
	if err := find("a component panics"); !errors.As(err, &panicked) {
		t.Errorf("the failure is a %T, want a panic", err)
	} else if text, is := panicked.Value.(string); !is ||
		!strings.HasPrefix(text, "volumemanager: nothing is known of ") {
		t.Errorf("panicked with %v, want the component's value", panicked.Value)
	}
}
