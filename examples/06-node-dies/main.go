// # Lesson 6: a node fails
//
// In lesson 5 the first node released the volume. A dead node releases nothing. What is worse: a
// dead node looks exactly like one that cannot be reached but still writes. Kubernetes answers with
// patience, or relies on the word of an administrator.
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
)

// ## The network cable is unplugged
//
// A pod runs on node-1. Then the node is lost: its kubelet stops reporting, and its mounts remain.
// An administrator force-deletes the pod and starts another one on node-2. (Without force the pod
// would stay Terminating, because only its kubelet can report that it has ended.)
var lost = session.New(
	"create claim data 1Gi",
	"create pod web data on=node-1",
	"wait pod web Running",
	"rest",
	"partition node-1",
	"delete pod web now=true",
	"create pod other data on=node-2",
)

// ## Nothing happens
//
// The pod is gone from the API, but the status of node-1 still says "in use", and nobody will
// update it. The controller waits. (`settle` runs until nothing can happen before the clock
// advances.)
var waiting = lost.Then("settle")

func stuck() {
	s := waiting.MustPlay()
	defer s.Close()
	fmt.Print(s.StateTable())
	node, _ := s.Cluster().Server().Get("nodes", "", "node-1")
	fmt.Println("node node-1:", trace.State(node))
	for _, event := range s.Events() {
		if strings.Contains(event, "Warning") {
			fmt.Println(event)
		}
	}
}

// ## Six minutes later
//
// A node that does not report is marked not ready. From such a node the controller detaches a
// volume after `maxWaitForUnmountDuration`, 6 minutes. This is a **force detach**. The controller
// bets that the node no longer writes. Time is virtual here, so the six minutes pass instantly.
var forced = lost.Then("wait pod other Running")

func sixMinutes() {
	s := forced.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## The word of an administrator
//
// An administrator who knows that the machine is off can say so, with the taint
// `node.kubernetes.io/out-of-service`. Then the controller does not have to bet: it detaches at
// once.
func outOfService() {
	s := lost.Then("set node node-1 out-of-service=true", "wait pod other Running").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## A question
//
// The bet is lost: node-1 was alive all the time. After the force detach its cable is plugged in
// again. What does its kubelet find, and what happens to the mounts?
func answer() {
	s := forced.Then("restore node-1", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("The kubelet finds the mounts of a pod that no longer exists, and unmounts them. Data written there after the")
	fmt.Println("detach is lost if the storage blocked the node's writes. If it did not, the file system may be damaged.")
}

func main() {
	stuck()
	sixMinutes()
	outOfService()
	answer()
}
