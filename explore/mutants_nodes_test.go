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
	nodeParts  = "components: pvcontroller, provisioner, attachdetach, attacher, kubelet\n"
	growParts  = "components: pvcontroller, provisioner, resizer, scheduler, attachdetach, attacher, kubelet\n"
	bindParts  = "components: pvcontroller\n"
	placeParts = "components: pvcontroller, provisioner, scheduler, attachdetach, attacher, kubelet\n"
)

// runs is a pod that runs, goes, and comes no more.
const runs = `
user alice
  create claim data 1Gi
  create pod web data on=node-1
  wait pod web Running
  delete pod web
  wait pod web gone
`

// moves is a pod that runs, and after it one on the other node.
const moves = runs + "  create pod next data on=node-2\n  wait pod next Running\n"

// comesBack is a pod that runs, and after it one on the same node.
const comesBack = runs + "  create pod next data on=node-1\n  wait pod next Running\n"

// nodeMutants are about attaching, mounting, and where pods go.
var nodeMutants = []mutant{
	{
		name: "the driver detaches nothing, and attaches to two nodes", rule: "I15", history: "#96142, PR #40148",
		scenario: nodeParts + moves, between: driver("attacher", attachesTwice), config: holds, within: 1,
	},
	{
		name: "the node is read as it was before it used the volume", rule: "I16", history: "#106710, PR #110721",
		scenario: nodeParts + once("attachdetach", "crash") + removed, between: client("attachdetach", readsOldNodes),
		config: restarts, within: 100,
	},
	{
		name: "a second controller attaches without a look", rule: "I16b", history: "#71276, PR #120595",
		scenario: nodeParts + "rules: I16b\n" + moves, between: none, extra: hurries, config: holds, within: 300, // its name is bad, too: I21
	},
	{
		name: "a volume is unstaged when the first pod lets it go", rule: "I17", history: "#65246, PR #71074",
		scenario: nodeParts + runs, between: driver("kubelet", unstagesFirst), config: holds, within: 1,
	},
	{
		name: "a volume is staged for each of its pods", rule: "I17", history: "#88355, PR #88678",
		scenario: nodeParts + runs, between: driver("kubelet", stagesTwice), config: holds, within: 1,
	},
	{
		name: "what is mounted is what lay there before", rule: "I18", history: "#55074",
		scenario: nodeParts + twoClaimsOfAPod, between: driver("kubelet", mountsTheFirst), config: holds, within: 1,
	},
	{
		name: "a detach begins before the node is told", rule: "I19", history: "#27836",
		scenario: nodeParts + runs, between: client("attachdetach", neverWithdraws), config: holds, within: 1,
	},
	{
		name: "an older list of what is attached overtakes a newer one", rule: "I20", history: "#49053, #72181, #88565",
		scenario: nodeParts + runs, between: client("attachdetach", writesOldLists), config: holds, within: 1,
	},
	{
		name: "attachments of two volumes have one name", rule: "I21", scenario: nodeParts + runs,
		between: client("attachdetach", namesBadly), config: holds, within: 1,
	},
	{
		name: "a detach is made a second time", rule: "I22", history: "#93902, PR #94599",
		scenario: nodeParts + comesBack, between: detachesAgain, config: holds, within: 1,
	},
	{
		name: "a call that failed is made again at once", rule: "I23", history: "#116886",
		scenario: nodeParts + once("NodeStageVolume", "driver Unavailable") + runs, between: driver("kubelet", repeats),
		config: faults, within: 2,
	},
	{
		name: "failures do not count", rule: "I23b", history: "#41307, #75209, PR #75213",
		scenario: nodeParts + "rules: I23b\n" + runs, between: driver("kubelet", failsTwice), config: holds, within: 1,
	},
	{
		name: "an unstage that timed out counts as done", rule: "I24", history: "#86360, #89112, PR #82492",
		scenario: nodeParts + once("NodeUnstageVolume", "driver-lost DeadlineExceeded") + runs, between: driver("kubelet", believesTimeouts),
		config: faults, within: 2,
	},
	{
		name: "a stage that timed out counts as failed", rule: "I24", history: "#120268",
		scenario: nodeParts + once("NodeStageVolume", "driver DeadlineExceeded") + endsAtOnce,
		between:  driver("kubelet", givesUpAtTimeouts), config: faults, within: 2,
	},
	{
		name: "a volume is handed out empty when it was detached", rule: "I25", history: "#27651, #72257",
		scenario: nodeParts + "rules: I25\n" + writes, between: wipes, config: holds, within: 1,
	},
	{
		name: "a restarted kubelet forgets a mount", rule: "I26", history: "#60987, #31596, #38498",
		scenario: nodeParts + "rules: I26\n" + restarted, between: driver("kubelet", mountsElsewhere), config: holds, within: 1,
	},
	{
		name: "a mount that fails again is undone", rule: "I27", history: "#120150, #121271, PR #139045",
		scenario: nodeParts + "rules: I27\n" + once("NodePublishVolume", "driver Internal") + republished, between: driver("kubelet", undoes),
		config: faults, within: 3,
	},
	{
		name: "a pod is put where its volume is not", rule: "I30", history: "#72013, #56236",
		scenario: "components: pvcontroller, scheduler, kubelet\nrules: I30\n" + placed, between: client("scheduler", bindsElsewhere), config: holds, within: 1,
	},
	{
		name: "a node gets more volumes than it can have", rule: "I31", history: "#126502, #95911",
		scenario: "nodes: 1\nvolumes-per-node: 1\n" + placeParts + crowded,
		between:  client("scheduler", ignoresLimits), config: holds, within: 1,
	},
	{
		name: "a claim for one pod alone is given to two", rule: "I32",
		scenario: placeParts + rivals, between: both(client("scheduler", ignoresRivals), client("kubelet", withoutPodLimit)),
		config: holds, within: 1,
	},
	{
		name: "a file system that has not grown counts as grown", rule: "I33", history: "#131495",
		scenario: growParts + grows, between: driver("kubelet", growsNothing), config: holds, within: 1,
	},
	{
		name: "a node is to grow what has not grown elsewhere", rule: "I33", history: "#131907",
		scenario: growParts + grows, between: driver("kubelet", growsTwice), config: holds, within: 1,
	},
	{
		name: "a claim that grows says that it has less", rule: "I33", history: "#108693",
		scenario: growParts + grows, between: client("kubelet", shrinks), config: holds, within: 1,
	},
	{
		name: "a claim says that it has more than its volume", rule: "I33", history: "#117871, PR #123055",
		scenario: bindParts + binds,
		between:  client("pvcontroller", doublesClaims), config: holds, within: 1,
	},
	{
		name: "a volume says that it has more than the driver gave", rule: "I33", history: "#131381",
		scenario: "components: pvcontroller, provisioner\nuser alice\n  create claim data 1Gi\n",
		between:  client("provisioner", doublesVolumes), config: holds, within: 1,
	},
	{
		name: "a server that is behind answers when a watch is begun anew", rule: "I34", history: "#59848, PR #83520",
		scenario: bindParts + binds, between: none, extra: reconnects, config: holds, within: 1,
	},
	{
		name: "the report of what is in use is lost", rule: "I35", history: "#27836",
		scenario: nodeParts + runs, between: client("kubelet", reportsNothing), config: holds, within: 1,
	},
	{
		name: "what is mounted is not in use any more", rule: "I36",
		scenario: nodeParts + runs, between: client("kubelet", forgetsUse), config: holds, within: 1,
	},
	{
		name: "a volume is mounted beside its path", rule: "I37",
		scenario: nodeParts + runs, between: driver("kubelet", mountsBelow), config: holds, within: 1,
	},
	{
		name: "a volume that was made is not written down", rule: "L3", history: "#73263, #73305",
		scenario: placeParts + "rules: L3\n" + late, between: client("provisioner", writesNoVolume), config: holds, within: 1,
	},
	{
		name: "a detach is never made", rule: "L7", history: "#34242, #77324, PR #96617, #141151",
		scenario: nodeParts + runs, between: client("attachdetach", forgetsDetach), config: holds, within: 1,
	},
	{
		name: "a volume is reported in use for ever", rule: "L4", history: "#45191",
		scenario: nodeParts + runs, between: client("kubelet", reportsUse), config: holds, within: 1,
	},
	{
		name: "the driver says that it has detached", rule: "L5", history: "#45191",
		scenario: nodeParts + runs, between: driver("attacher", detachesNothing), config: holds, within: 1,
	},
	{
		name: "a second mount for a pod is left behind", rule: "L6", history: "#60987, PR #102576",
		scenario: nodeParts + neighbours, between: driver("kubelet", mountsElsewhere), config: holds, within: 1,
	},
	{
		name: "a mount that failed counts as done", rule: "L7", history: "#31272",
		scenario: nodeParts + once("NodePublishVolume", "driver-lost Internal") + staysThere, between: driver("kubelet", believesFailures),
		config: faults, within: 2,
	},
	{
		name: "two writers undo each other's list for ever", rule: "L7",
		scenario: nodeParts + staysThere, between: client("attachdetach", undoesLists), config: holds, within: 1,
	},
	{
		name: "a part meets what it takes to be impossible", rule: "L7", history: "#102651, #69137",
		scenario: nodeParts + staysThere, between: driver("kubelet", panics), config: holds, within: 1,
	},
	{
		name: "claims are read whenever all is looked at again", rule: "L8", history: "#118545, PR #140672",
		scenario: bindParts + binds, between: none, extra: reads, config: holds, within: 1,
	},
	{
		name: "an event is told ten times a second", rule: "L9",
		scenario: bindParts + binds, between: none, extra: tells, config: holds, within: 1,
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

// restarts is how mutants are searched for that take a restart.
var restarts = explore.Config{Strategy: explore.Restarts}

// The story of a livelock shows the cycle, and that of a panic its value.
func TestLivelocksAndPanicsAreTold(t *testing.T) {
	find := func(name string) error {
		i := slices.IndexFunc(nodeMutants, func(m mutant) bool { return m.name == name })
		return nodeMutants[i].hunt(t, nodeMutants[i].scene(t, true, ""), 1).Result.Failure
	}
	var livelock *scenario.Livelock
	if err := find("two writers undo each other's list for ever"); !errors.As(err, &livelock) {
		t.Errorf("the failure is a %T, want a livelock", err)
	} else if text := livelock.Error(); len(livelock.Cycle) == 0 || strings.Count(text, "patch/status nodes/node-1") < 2 {
		t.Errorf("the circle has not both writes: %s", text)
	}
	var panicked *scenario.Panic
	if err := find("a part meets what it takes to be impossible"); !errors.As(err, &panicked) {
		t.Errorf("the failure is a %T, want a panic", err)
	} else if text, is := panicked.Value.(string); !is || !strings.HasPrefix(text, "volumemanager: nothing is known of ") {
		t.Errorf("it panicked with %v, want what the part said", panicked.Value)
	}
}
