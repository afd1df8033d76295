package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/volsim/volsim/cluster"
)

const sessionHelp = `  create claim data 64Mi, create pod web data on=node-1, delete pod web, …
                                   user actions
  request DELETE PATH, …           send an API request, as kubectl does to the page's world
  step, step 5, step TASK          run the next step, the next 5 steps, the next step of a task
  until NodeStageVolume            run until this call has been made
  settle, rest                     run until nothing can happen before the clock advances; until nothing is left to do
  wait claim data Bound            run until this condition holds
  hold TASK, release TASK          stop scheduling a task, or all tasks of a component; schedule it again
  fail conflict [COMPONENT|VERB]   fail the next call: conflict, refused, lost, hang, driver CODE, driver-lost CODE
  crash COMPONENT, reboot NODE, …  inject an event
  back, back 3                     return to the state before the last operation, the last 3 operations
  save FILE                        save the session for "volsim session", "volsim replay" and the page
  ?                                print the possible next steps
  =                                print the state of the objects, with sizes, and stale caches
  !                                print the story so far
  events, help, help VERB, quit`

// A verbHelp explains one verb of a session.
type verbHelp struct {
	verb   string
	syntax []string
	text   string
}

// verbs are the verbs of a session, without events.
var verbs = []verbHelp{
	{"create", []string{
		"create claim NAME SIZE [class=CLASS] [volume=VOLUME] [modes=MODE] [mode=Block] [snapshot=SNAPSHOT | clone=CLAIM] [app=APP]",
		"create snapshot NAME CLAIM [class=CLASS]",
		"create groupsnapshot NAME APP [class=CLASS]",
		"create volume NAME SIZE [class=CLASS] [reclaim=Delete] [for=CLAIM] [modes=MODE] [handle=HANDLE] [path=PATH] [by=PROVISIONER] [node=NODE] [mode=Block]",
		"create class NAME [provisioner=DRIVER] [binding=WaitForFirstConsumer] [reclaim=Retain] [default=true]",
		"create pod NAME [CLAIM …] [on=NODE] [devices=CLAIM,…] [group=NUMBER] [change=OnRootMismatch] [level=LEVEL] [reads=true] [sub=PATH]",
	}, "Creates an object. Claims, pods and snapshots are in namespace default. An empty class= means no class. snapshot= and\n" +
		"clone= say from what the volume of a claim is made. A groupsnapshot is of all claims with app=APP."},
	{
		"apply",
		[]string{"apply MANIFEST", "apply FILE"},
		"Creates or changes objects of any kind, as kubectl apply does. The manifest is YAML or JSON in one line, or a .yaml,\n" +
			".yml or .json file.",
	},
	{
		"patch",
		[]string{"patch RESOURCE NAME PATH=VALUE …"},
		"Changes fields of an object, if it exists: patch widget web spec.size=2Gi. RESOURCE is that of kubectl, or claim,\n" +
			"volume, class or pod. NAME may be NAMESPACE/NAME. VALUE is JSON, such as 3, null or [80, 443], else a string.",
	},
	{"delete", []string{"delete claim|volume|class|snapshot|groupsnapshot NAME", "delete RESOURCE NAME", "delete pod NAME [now=true]"}, "Deletes an object, if it exists."},
	{"set", []string{
		"set claim NAME size=SIZE", "set claim NAME reclaim=Delete|Retain|Recycle",
		"set volume NAME [reclaim=Delete|Retain|Recycle] [for=CLAIM] [bind=CLAIM] [migrated=DRIVER]",
		"set node NODE ready=True|Unknown", "set node NODE out-of-service=true|false",
		"set pod NAME [ready=true|false] [exits=CODES]",
	}, "Changes an object. A claim's size= is the size that it requests; its reclaim= is that of its volume. A pod's\n" +
		"ready= says whether its containers are ready, exits=1,0 that their first runs exit with 1 and the second ones with 0."},
	{"finish", []string{"finish pod NAME"}, "Makes a pod Succeeded."},
	{"write", []string{"write pod NAME CLAIM [size=SIZE]"}, "Writes a file into the claim's volume, or that much of zeros. Runs the world until the pod has mounted it."},
	{"read", []string{"read pod NAME CLAIM WRITER"}, "Fails unless the claim's volume has the file that pod WRITER wrote. Runs the world until the pod has mounted it."},
	{"cordon", []string{"cordon NODE"}, "Makes a node unschedulable."},
	{"uncordon", []string{"uncordon NODE"}, "Makes a node schedulable."},
	{
		"wait",
		[]string{
			"wait claim|volume|pod NAME PHASE", "wait snapshot|groupsnapshot NAME ReadyToUse", "wait claim NAME SIZE", "wait RESOURCE NAME PHASE|gone|exists",
			"wait RESOURCE NAME PATH=VALUE …", "wait RESOURCE NAME condition=TYPE …",
		},
		"Runs the world until an object has a phase, or one of several (Bound|Lost), is gone, exists, has these fields\n" +
			"(status.replicas=3) or conditions (condition=Ready), or a claim has this capacity.",
	},
	{"pass", []string{"pass DURATION"}, "Advances the clock, such as pass 5m."},
	{"disk", []string{"disk NODE PATH SIZE [block=true]"}, "Gives a node a RAM disk, mounted at a path, or a block device, for local volumes."},
	{"lose", []string{"lose NODE PATH"}, "Takes a disk from a node, until the node reboots."},
	{"limit", []string{"limit NUMBER"}, "Limits the number of volumes that can be attached to a node."},
	{
		"request",
		[]string{"request POST|PUT|PATCH|DELETE PATH [as=CLIENT] [type=TYPE] [BODY]"},
		"Sends an API request. This is how requests of kubectl to the page's world are saved. PATH is that of the API,\n" +
			"with a query. BODY is JSON in one line, or a quoted string. TYPE is its media type, or merge, strategic, json\n" +
			"or apply for a patch. CLIENT is the default manager of the fields. Reads, watches and exec are no operations.",
	},
	{"let", []string{"let EVENT"}, "Injects an event, such as let crash attacher."},
	{"step", []string{"step", "step NUMBER", "step TASK"}, "Runs the next step, so many steps, or the next step of a task, also of a held one. ? lists the tasks."},
	{"until", []string{"until VERB [COMPONENT]"}, "Runs the world until a call with this verb has been made, such as until NodeStageVolume or until update/status."},
	{"settle", []string{"settle"}, "Runs the world until no task can run without advancing the clock, except held ones."},
	{"rest", []string{"rest"}, "Runs the world until no task can run, except held ones."},
	{"hold", []string{"hold COMPONENT|TASK"}, "Runs a task, or all tasks of a component, only when a step names it."},
	{"release", []string{"release COMPONENT|TASK"}, "Ends a hold."},
	{"fail", []string{"fail FAULT [COMPONENT|VERB]"}, "Makes the next possible call fail: conflict, refused, lost, hang, driver CODE or driver-lost CODE.\n" +
		"The call is that of a component, one with this verb, or any."},
	{"back", []string{"back [NUMBER]"}, "Returns to the state before the last operations. The world is created again and repeats the others."},
	{"save", []string{"save FILE"}, "Saves the world and the operations. \"volsim session FILE\" continues from there, \"volsim replay FILE\" repeats them,\n" +
		"and the page of \"volsim serve --by-hand\" loads them."},
	{"?", []string{"?"}, "Prints the possible next steps in the default order."},
	{"=", []string{"="}, "Prints the objects with their states and sizes, and stale caches."},
	{"!", []string{"!"}, "Prints the story so far."},
	{"events", []string{"events"}, "Prints the API events."},
	{"help", []string{"help [VERB]"}, "Lists the operations, or explains one."},
	{"quit", []string{"quit"}, "Ends the session. Ctrl-D does so, too."},
}

// explain returns the help text of a verb.
func explain(verb string) (string, error) {
	if slices.Contains(cluster.EventKinds, verb) {
		return fmt.Sprintf("  %s …\n\nInjects an event. The Tab key completes what is possible now.\n", verb), nil
	}
	i := slices.IndexFunc(verbs, func(v verbHelp) bool { return v.verb == verb })
	if i < 0 {
		return "", fmt.Errorf("help: unknown operation %q", verb)
	}
	return fmt.Sprintf("  %s\n\n%s\n", strings.Join(verbs[i].syntax, "\n  "), verbs[i].text), nil
}

var optionPattern = regexp.MustCompile(`([a-z-]+=)`)

// optionsOf returns the options of an act: "class=" and others for "create claim".
func optionsOf(verb, kind string) []string {
	var all []string
	for _, v := range verbs {
		for _, line := range v.syntax {
			words := strings.Fields(line)
			if v.verb == verb && len(words) > 1 && slices.Contains(strings.Split(words[1], "|"), kind) {
				all = append(all, optionPattern.FindAllString(line, -1)...)
			}
		}
	}
	return all
}
