// # Lesson 6: a node dies
//
// In lesson 5 the first node gave the volume back. A dead node gives nothing back, and worse: nobody can tell a dead node
// from one that only cannot be reached, and still writes. Kubernetes' answer is patience, and a person's word.
package main

import (
	"fmt"
	"strings"

	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim/trace"
)

// ## The cable is out
//
// A pod runs on node-1. The node is lost: its kubelet is not heard of any more, what it has mounted stays mounted. Somebody
// deletes the pod by force (left alone it would stay Terminating: only its kubelet can say that it has ended), and starts another
// one on node-2.
var lost = session.New(
	"create claim data 1Gi",
	"create pod web data on=node-1",
	"wait pod web Running",
	"rest",
	"lose node-1",
	"delete pod web now=true",
	"create pod other data on=node-2",
)

// ## Nothing happens
//
// The pod is gone from the API, but node-1 still says "in use", and will never say anything else. The controller waits. (`settle`:
// until nothing can happen without time passing.)
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
// A node that is not heard of is marked not ready. From such a node the controller takes a volume away after
// `maxWaitForUnmountDuration`, 6 minutes: **force detach**. It bets that nobody writes any more. Time is virtual here, so the six minutes take none.
var forced = lost.Then("wait pod other Running")

func sixMinutes() {
	s := forced.MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
}

// ## A person's word
//
// Whoever knows that the machine is off can say so, with the taint `node.kubernetes.io/out-of-service`. The controller then
// need not bet: it detaches at once.
func vouched() {
	s := lost.Then("set node node-1 out-of-service=true", "wait pod other Running").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
}

// ## A question
//
// The bet is lost: node-1 was never dead. After the force detach its cable is plugged in again. What does it find, and what
// becomes of what it had mounted?
func answer() {
	s := forced.Then("recover node-1", "rest").MustPlay()
	defer s.Close()
	fmt.Print(s.Last())
	fmt.Print(s.StateTable())
	fmt.Println("Its kubelet finds mounts of a pod that no longer exists, and takes them away. What was written to them after the")
	fmt.Println("detach has reached nobody, if the storage cut the node off; if it did not, the file system may be damaged.")
}

func main() {
	stuck()
	sixMinutes()
	vouched()
	answer()
}
